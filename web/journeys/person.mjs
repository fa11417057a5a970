// Somebody in front of a page: signed in to a hive of its own, talking to `main`.
import { context, open } from "./browser.mjs";
import { Hive } from "./hive.mjs";
import { Model } from "./model.mjs";

/** A hive and a page that is signed in to it. */
export async function sign(browser, t, options, files) {
    const hive = await Hive.start(files);
    const mine = await context(browser, options);
    t.after(async () => {
        await mine.close();
        await hive.end();
    });
    const page = await open(mine, await hive.link());
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    return { hive, mine, page };
}

/** The same, with a model that says what the journey gives it. */
export async function withModel(browser, t, options, files = {}) {
    const model = await Model.start();
    t.after(() => model.end());
    const home = { "providers.yaml": model.profiles(), ...files };
    return { model, ...(await sign(browser, t, options, home)) };
}

/** Each journey that is about a layout runs at all of them. */
export const SIZES = {
    "on a desktop": {},
    "on a phone": { viewport: { width: 390, height: 844 }, hasTouch: true },
    "at 200 % zoom": { viewport: { width: 720, height: 450 } },
};

export const composer = (page) => page.getByRole("textbox", { name: "Message to main" });

export async function talk(page) {
    await page.getByRole("link", { name: "Chat" }).first().click();
    await composer(page).waitFor();
}

export async function say(page, text) {
    await composer(page).fill(text);
    await composer(page).press("Enter");
}

/** By the agent: the person's own words may hold the same. */
export const said = (page, text) =>
    page.locator(".stream .say:not(.mine .say)", { hasText: text }).first().waitFor();
