// What a conversation looks like and what it is doing: the same words in every place.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, AWAY, faultless, launch, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { answered, becomes, said, say, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const ASKING = {
    "teams/main/config.yaml":
        "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash, command: make}\n",
};

/** The marks of the conversations at the side, by their keys; all at one moment. */
const marks = (page) =>
    page.evaluate(() => {
        const rows = [...document.querySelectorAll(".side details[open] > ul > li")];
        const key = (row) => row.querySelector("a > span").textContent.split(" · ")[0];
        const mark = (row) => row.querySelector("[role=img]")?.getAttribute("aria-label");
        return Object.fromEntries(rows.map((row) => [key(row), mark(row) ?? "none"]));
    });

test("each conversation has its own mark, and the numbers are those of the marks", async (t) => {
    const { hive, model, page } = await withModel(browser, t, {}, ASKING);
    const send = (key, text, ...more) => hive.skep("send", "main", text, "--session", key, ...more);
    model.push(says("Here."));
    await send("calm", "Be there.", "--wait");
    model.pushError(401, "authentication_error", "invalid x-api-key");
    await send("broken", "Fail.");
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    model.push(call("bash", { command: "make deploy" }));
    await send("asking", "Deploy.");
    await page.getByRole("heading", { name: "Needs attention (2)" }).waitFor();
    await page.getByText(/^0 turns running, 1 waiting, 0 queued\./).waitFor();
    await becomes(() => page.locator(".live li").count(), 1);
    await page.goto(`${hive.url}/#/chat/main?key=calm`);
    await said(page, "Here.");
    await becomes(() => marks(page), { asking: "waiting", broken: "failed", calm: "none" });
    await page.locator(".talk-head").getByRole("img", { name: "idle" }).waitFor();
    await page.locator(".side a", { hasText: "asking · waiting" }).click();
    await page.locator(".talk-head").getByRole("img", { name: "waiting" }).waitFor();
    await page.waitForFunction(() => {
        const name = document.querySelector(".talk-head h1").textContent;
        return name !== "" && document.title === `${name} (waiting) · Skep`;
    });
    const status = await hive.skep("status");
    assert.deepEqual(status.work, { running: 0, waiting: 1, queued: 0 });
    await accessible(page, "marks");
    await picture(page, "marks-light");
    await hive.kill();
    await page.getByText(/as of \d\d:\d\d/).waitFor();
    faultless(page, AWAY);
});

test("Home: a failure is tried again, or dismissed", async (t) => {
    const { hive, model, page } = await withModel(browser, t);
    model.pushError(401, "authentication_error", "invalid x-api-key");
    await hive.skep("send", "main", "Fail once.");
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    await picture(page, "home-failed-light");
    model.pushError(401, "authentication_error", "invalid x-api-key");
    const release = model.hold();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    release();
    // The message is in the inbox twice; the newer one failed as well, and one of them is shown.
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    const { items } = await hive.skep("inbox");
    assert.deepEqual(items.map((item) => item.state), ["failed", "failed"]);
    await accessible(page, "Home with a failure");
    await page.getByRole("button", { name: "Dismiss" }).click();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    faultless(page, AWAY);
});

test("a turn that waits is called so, and its time stands still while disconnected", async (t) => {
    const { hive, model, page } = await withModel(browser, t, {}, ASKING);
    model.push(call("bash", { command: "make deploy" }));
    await page.clock.install();
    await page.reload();
    await hive.skep("send", "main", "Deploy it.");
    await page.getByRole("heading", { name: "Waiting", exact: true }).waitFor();
    await talk(page);
    const time = page.locator("dt", { hasText: "Time" }).locator("xpath=following-sibling::dd[1]");
    await time.waitFor();
    await hive.kill();
    await page.getByText("Disconnected").first().waitFor();
    await page.clock.runFor(2000);
    const before = await time.textContent();
    await page.clock.runFor(120_000);
    assert.equal(await time.textContent(), before);
    faultless(page, AWAY);
});

test("failures are dismissed all at once", async (t) => {
    const { hive, model, page } = await withModel(browser, t);
    for (const name of ["first", "second"]) {
        model.pushError(401, "authentication_error", "invalid x-api-key");
        await hive.skep("send", "main", "Do it.", "--session", name);
    }
    await page.getByRole("heading", { name: "Needs attention (2)" }).waitFor();
    await page.getByRole("button", { name: "Dismiss all 2 failures" }).click();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    faultless(page);
});

const WORD = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".repeat(6);
const ANSWER = [
    `The source is *unchanged*: ${WORD} and \`${WORD}\``,
    "أهلاً بكم. يفتح الكوخ من الأول من ديسمبر.",
    "| Room | Bunks | Week |\n|---|:-:|--:|\n| Winter room | 8 | 113.40 |",
    `\`\`\`\n${WORD}\n\`\`\``,
    `- ${WORD}`,
].join("\n\n");

for (const [where, size] of Object.entries(SIZES)) {
    test(`long words, tables and other scripts, ${where}`, async (t) => {
        const { model, page } = await withModel(browser, t, size);
        await talk(page);
        model.push(says(ANSWER));
        await say(page, `Translate ${WORD}`);
        await answered(page, "The source is unchanged");
        // Measured at one moment: a stored answer replaces the streamed one.
        const outside = await page.evaluate(() => {
            const column = document.querySelector(".scroll").getBoundingClientRect();
            return [...document.querySelectorAll(".stream :is(.say, .code, .wide)")]
                .map((it) => it.getBoundingClientRect())
                .filter((box) => box.left < column.left || box.right > column.right)
                .map((box) => box.width);
        });
        assert.deepEqual(outside, [], where);
        const over = await page.locator(".scroll").evaluate((it) => it.scrollWidth - it.clientWidth);
        assert.equal(over, 0, "nothing to scroll sideways");
        // Of an element that was just replaced there is none.
        const style = async (what, name) => {
            const found = await page
                .locator(what)
                .first()
                .evaluate((it, name) => getComputedStyle(it)[name], name);
            return found || style(what, name);
        };
        assert.equal(await style(".say:has-text('أهلاً')", "direction"), "rtl");
        assert.equal(await style(".wide td:nth-child(2)", "textAlign"), "center");
        assert.equal(await style(".wide td:nth-child(3)", "textAlign"), "right");
        assert.equal(await style(".say em", "fontStyle"), "italic");
        assert.equal(await style(".say em", "textDecorationLine"), "none");
        await accessible(page, "long words");
        await picture(page, `words-${size.viewport?.width ?? "light"}`);
        faultless(page);
    });
}
