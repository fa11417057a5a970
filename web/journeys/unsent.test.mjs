// A message that is refused, or written while the hive is away, is never lost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, AWAY, faultless, launch, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { call, say as says } from "./model.mjs";
import {
    answered,
    becomes,
    boxes,
    composer,
    say,
    sign,
    SIZES,
    talk,
    visit,
    withModel,
} from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const DOT =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Files as the picker gives them. */
async function attach(page, ...files) {
    await page.locator(".compose input[type=file]").setInputFiles(files);
    for (const { name } of files) {
        await page.getByRole("button", { name: `Remove ${name}` }).waitFor();
    }
}

/** The whole composer is on the screen. */
async function whole(page, where) {
    const [box] = await boxes(page, ".compose .box");
    const { height, width } = page.viewportSize();
    assert.ok(box.y >= 0 && box.y + box.height <= height, `${where}: ${JSON.stringify(box)}`);
    assert.ok(box.x >= 0 && box.x + box.width <= width, `${where}: ${JSON.stringify(box)}`);
}

for (const [where, size] of Object.entries(SIZES)) {
    test(`a refused file keeps text and files, ${where}`, async (t) => {
        const { hive, page } = await sign(browser, t, size);
        await talk(page);
        const plan = Buffer.from([0, 0, 0, 24, 102, 116, 121, 112, 104, 101, 105, 99, 0, 255, 254]);
        await attach(
            page,
            { name: "calendar.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") },
            { name: "plan.heic", mimeType: "image/heic", buffer: plan },
        );
        const text = script("say I see one picture.");
        await say(page, text);
        await page.getByRole("alert").filter({ hasText: /^Not sent: .*plan\.heic/ }).waitFor();
        await becomes(() => composer(page).inputValue(), text);
        await page.getByRole("button", { name: "Remove calendar.png" }).waitFor();
        await whole(page, where);
        await accessible(page, "a refused file");
        await picture(page, `refused-${size.viewport?.width ?? "light"}`);
        await page.getByRole("button", { name: "Remove plan.heic" }).click();
        await becomes(() => page.getByRole("alert").count(), 0);
        await composer(page).press("Enter");
        await answered(page, "I see one picture.");
        await page.locator("figure.thumb img[alt='calendar.png']").waitFor();
        const { items } = await hive.skep("inbox");
        assert.equal(items.length, 1);
        faultless(page, /status of 4\d\d/);
    });
}

const ASKING = {
    "teams/main/config.yaml":
        "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash, command: make}\n",
};

for (const [where, size] of Object.entries(SIZES)) {
    test(`the server is away while somebody writes, ${where}`, async (t) => {
        const { hive, model, page } = await withModel(browser, t, size, ASKING);
        await talk(page);
        model.push(says("I deploy it."), call("bash", { command: "make deploy" }));
        await say(page, "Deploy it.");
        await page.getByRole("button", { name: /^Approve once/ }).waitFor();
        await page.locator("summary[aria-label^='Model and thinking']").waitFor();
        const [before] = await boxes(page, ".compose .box");
        await composer(page).fill("Wait until");
        await hive.kill();
        const strip = page.locator(".compose .strip", { hasText: "Disconnected since" });
        await strip.waitFor();
        await whole(page, where);
        const [now] = await boxes(page, ".compose .box");
        assert.deepEqual(now, before, "the composer stays where it is");
        await becomes(() => composer(page).inputValue(), "Wait until");
        const yes = page.getByRole("button", { name: /^Approve once/ });
        await becomes(() => yes.getAttribute("aria-disabled"), "true");
        await page.getByText("Not available while disconnected").waitFor();
        await page.getByText(/as of \d\d:\d\d/).first().waitFor();
        await accessible(page, "away");
        await composer(page).fill("Wait until six.");
        await page.getByRole("button", { name: "Send when connected" }).click();
        await page.locator(".mine.unsent", { hasText: "Wait until six." }).waitFor();
        await strip.filter({ hasText: "1 message will be sent on reconnect." }).waitFor();
        await whole(page, where);
        await picture(page, `away-${size.viewport?.width ?? "light"}`);

        // It goes out from any page.
        await visit(page, "Usage");
        await page.locator(".notice", { hasText: "Disconnected since" }).waitFor();
        await hive.up();
        await page.locator(".notice", { hasText: "Disconnected" }).waitFor({ state: "detached" });
        await page.getByRole("link", { name: "Chat" }).locator("visible=true").click();
        await page.locator(".queued", { hasText: "Wait until six." }).waitFor();
        model.push(says("It is done."));
        model.push(says("I wait."));
        await page.getByRole("button", { name: /^Deny/ }).click();
        await page.locator(".group .mine", { hasText: "Wait until six." }).waitFor();
        const { items } = await hive.skep("inbox");
        const sent = items.map((item) => item.preview);
        assert.deepEqual(sent, ["Wait until six.", "Deploy it."], "each of them once");
        faultless(page, AWAY);
    });
}
