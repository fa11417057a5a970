// Finding, recalling, copying: what a person does with words that were said before.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { call, say as says } from "./model.mjs";
import { answered, becomes, composer, say, sign, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const field = (page) => page.getByRole("combobox", { name: "Search conversations" });
const picked = (page, text) =>
    page.getByRole("option", { selected: true }).filter({ hasText: text }).waitFor();

for (const [where, size] of Object.entries(SIZES)) {
    test(`search by keyboard, ${where}`, async (t) => {
        const { hive, model, page } = await withModel(browser, t, size);
        const lines = Array.from({ length: 200 }, (_, at) => `Line ${at} of many.`);
        await hive.import(["Beds of the hut.", "The heron room has 24 beds.", ...lines]);
        model.push(says("A heron stands in the reeds."));
        await hive.skep("send", "main", "Birds of the lake.", "--session", "birds", "--wait");
        await talk(page);
        await composer(page).focus();
        await page.keyboard.press("Control+k");
        await field(page).fill("heron");
        await picked(page, "stands in the reeds");
        const height = () => page.getByRole("dialog").evaluate((it) => it.offsetHeight);
        const before = await height();
        // Who said it and in which conversation stands beside it.
        await page.locator(".hits .h", { hasText: /birds.*main/i }).waitFor();
        await accessible(page, "search");
        await picture(page, `search-${size.viewport?.width ?? "light"}`);
        await page.keyboard.press("ArrowUp");
        await picked(page, "24 beds");
        await page.keyboard.press("ArrowDown");
        await picked(page, "stands in the reeds");
        await field(page).fill("no such word");
        await page.getByText("No results.").waitFor();
        await becomes(height, before, "its height stays");
        await page.keyboard.press("Escape");
        await page.locator("dialog").waitFor({ state: "detached" });

        await page.keyboard.press("Control+k");
        await field(page).fill("24 beds");
        await picked(page, "24 beds");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { level: 1, name: "Beds of the hut" }).waitFor();
        // Older than what the page reads first.
        const inSight = () => {
            const found = [...document.querySelectorAll(".found .say")].at(-1);
            const box = document.querySelector(".scroll").getBoundingClientRect();
            const at = found?.getBoundingClientRect();
            return at && at.top >= box.top && at.bottom <= box.bottom;
        };
        await page.waitForFunction(inSight);
        await becomes(() => page.locator(".found").textContent(), /24 beds/);
        await page.getByRole("button", { name: "Go to newest" }).click();
        await page.keyboard.press("Control+k");
        await field(page).fill("24 beds");
        await picked(page, "24 beds");
        await page.keyboard.press("Enter");
        await page.waitForFunction(inSight);
        faultless(page);
    });

    test(`earlier messages are recalled, code and answers copied, ${where}`, async (t) => {
        const { mine, model, page } = await withModel(browser, t, size);
        await mine.grantPermissions(["clipboard-read", "clipboard-write"]);
        const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
        const code = 'def price(night):\n    """Ten percent off."""\n    return night  # euro';
        model.push(says(`The price:\n\n\`\`\`python\n${code}\n\`\`\`\n\nIt is *rounded*.`));
        model.push(says("Again."));
        await talk(page);
        await say(page, "Show how you round.");
        await answered(page, "It is rounded.");
        await say(page, "Once more.\nIn two lines.");
        await answered(page, "Again.");
        const colours = await page.evaluate(() => {
            const colour = (what) => getComputedStyle(document.querySelector(what)).color;
            return [".in-word", ".in-string", ".in-comment", ".code code"].map(colour);
        });
        assert.equal(new Set(colours).size, 4, `four colours: ${colours}`);
        await page.getByRole("button", { name: "Copy code" }).click();
        await page.locator(".code").getByRole("button", { name: "Copied" }).waitFor();
        await becomes(clipboard, code);
        await page.getByRole("button", { name: "Copy answer" }).first().press("Enter");
        await page.locator(".after").getByRole("button", { name: "Copied" }).waitFor();
        await becomes(clipboard, /^The price:\n\n```python/);
        await page.getByRole("button", { name: "Copy message" }).first().click();
        await becomes(clipboard, "Show how you round.");
        await accessible(page, "an answer with code");
        await picture(page, `code-${size.viewport?.width ?? "light"}`);

        const text = (expected) =>
            page.waitForFunction((expected) => {
                const field = document.querySelector(".box textarea");
                return field.value === expected && field.selectionEnd === expected.length;
            }, expected);
        await composer(page).press("ArrowUp");
        await text("Once more.\nIn two lines.");
        await composer(page).press("ArrowUp");
        await text("Show how you round.");
        await composer(page).press("ArrowUp");
        await text("Show how you round.");
        await composer(page).press("ArrowDown");
        await composer(page).press("ArrowDown");
        await text("");
        await composer(page).fill("My own words");
        await composer(page).press("ArrowUp");
        const own = () => composer(page).inputValue();
        await becomes(own, "My own words", "never overwritten");
        faultless(page);
    });
}

test("search opens again in the tick in which it was closed", async (t) => {
    const { page } = await sign(browser, t);
    await talk(page);
    const open = () => page.waitForFunction(() => document.activeElement?.closest("dialog[open]"));
    await page.keyboard.press("Control+k");
    await open();
    for (let time = 0; time < 30; time += 1) {
        await Promise.all(["Escape", "Control+k"].map((key) => page.keyboard.press(key)));
        await open();
    }
    // The same where nothing can come between.
    const lost = await page.evaluate(async () => {
        const key = { key: "k", ctrlKey: true, bubbles: true };
        let lost = 0;
        for (let time = 0; time < 30; time += 1) {
            for (const way of ["requestClose", "click"]) {
                const first = document.querySelector("dialog");
                const closed = new Promise((resolve) => first.addEventListener("close", resolve));
                first[way]();
                document.body.dispatchEvent(new KeyboardEvent("keydown", key));
                await closed;
                if (!document.querySelector("dialog[open]")) lost += 1;
            }
        }
        return lost;
    });
    assert.equal(lost, 0);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    faultless(page);
});

const DOT =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("pictures open large, before they are sent and after", async (t) => {
    const { page } = await sign(browser, t);
    await talk(page);
    const buffer = Buffer.from(DOT, "base64");
    const chosen = { name: "dot.png", mimeType: "image/png", buffer };
    await page.locator("input[type=file]").setInputFiles(chosen);
    const show = page.getByRole("button", { name: "Show dot.png" });
    const dialog = page.getByRole("dialog", { name: "dot.png" });
    await show.click();
    await dialog.getByRole("img", { name: "dot.png" }).waitFor();
    await accessible(page, "a picture");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await say(page, script("say I see it."));
    await answered(page, "I see it.");
    await page.locator("figure.thumb").getByRole("button", { name: "Show dot.png" }).click();
    await dialog.getByRole("link", { name: "Download" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
    faultless(page);
});

test("a changed file leads to its change", async (t) => {
    const { model, page } = await withModel(browser, t);
    await talk(page);
    model.push(call("write", { file_path: "prices.toml", content: "night = 18\n" }));
    model.push(says(`Written. ${"A long explanation follows. ".repeat(300)}`));
    await say(page, "Write the prices.");
    await answered(page, "A long explanation follows.");
    await page.getByRole("heading", { name: "Files changed (1)" }).waitFor();
    await page.getByRole("link", { name: "prices.toml" }).click();
    await page.getByRole("link", { name: "Write the prices" }).click();
    await page.waitForFunction(() => {
        const box = document.querySelector(".scroll").getBoundingClientRect();
        const card = document.querySelector(".found .tool")?.getBoundingClientRect();
        return card && card.top >= box.top && card.top < box.bottom;
    });
    faultless(page);
});
