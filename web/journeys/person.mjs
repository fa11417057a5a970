// Somebody in front of a page: signed in to a hive of its own, talking to `main`.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { context, evidence, open } from "./browser.mjs";
import { Hive } from "./hive.mjs";
import { Model } from "./model.mjs";

/** A hive, and a browser of its own that is closed when the journey is over. */
export async function start(browser, t, options, files) {
    const hive = await Hive.start(files);
    const mine = await context(browser, options);
    t.after(async () => {
        await evidence(t, browser, hive);
        await mine.close();
        await hive.end();
    });
    return { hive, mine };
}

/** The same, with a page that is signed in. */
export async function sign(browser, t, options, files) {
    const { hive, mine } = await start(browser, t, options, files);
    const page = await open(mine, await hive.link());
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    return { hive, mine, page };
}

/** The same, with a model that says what the journey gives it; `profiles` are added to its own. */
export async function withModel(browser, t, options, files = {}, profiles = () => "") {
    const model = await Model.start();
    t.after(() => model.end());
    const home = { "providers.yaml": model.profiles() + profiles(model), ...files };
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

/** To another page by its link: on a phone the readings are in the menu. */
export async function visit(page, name) {
    const listed = (name) =>
        page.locator(".nav a, .tabs a", { hasText: name }).locator("visible=true");
    await listed("Home").waitFor();
    if (await listed(name).count()) return listed(name).click();
    await page.locator(".topbar summary").click();
    return page.locator(".topbar .pop a", { hasText: name }).click();
}

export async function say(page, text) {
    await composer(page).fill(text);
    await composer(page).press("Enter");
}

/** By the agent: the person's own words may hold the same. */
export const said = (page, text) =>
    page.locator(".stream .say:not(.mine .say)", { hasText: text }).first().waitFor();

/** The same, and it is stored and its turn is over: all that belongs to it is on the page. */
export async function answered(page, text) {
    const stored = page.locator(".of-message .say:not(.mine .say)", { hasText: text });
    await stored.first().waitFor();
    await page.locator(".compose .stop").waitFor({ state: "detached" });
}

/** Milliseconds until what should happen at once is given up. Machines are shared. */
const PATIENCE = 60_000;

/**
 * Reads until the value is the expected one, or matches it: what follows an action follows it
 * some time later.
 */
export async function becomes(read, expected, what) {
    const isPattern = expected instanceof RegExp;
    const end = Date.now() + PATIENCE;
    for (;;) {
        const found = await read();
        if (isPattern ? expected.test(found) : isDeepStrictEqual(found, expected)) return;
        if (Date.now() > end) {
            return isPattern
                ? assert.match(found, expected, what)
                : assert.deepEqual(found, expected, what);
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

/** An approval that has just come is not decided by a key: until the page takes keys for it. */
export async function keysDecide(page) {
    const since = await page.evaluate(() => Date.now());
    await page.waitForFunction((since) => Date.now() - since > 500, since);
}

/** Where these elements are at one moment, once they stand still. */
export async function boxes(page, ...selectors) {
    return page.evaluate(async (selectors) => {
        const read = () =>
            selectors.map((one) => document.querySelector(one)?.getBoundingClientRect().toJSON());
        let [still, found] = [0, read()];
        while (still < 5) {
            await new Promise((resolve) => requestAnimationFrame(resolve));
            const now = read();
            still = JSON.stringify(now) === JSON.stringify(found) ? still + 1 : 0;
            found = now;
        }
        return found;
    }, selectors);
}
