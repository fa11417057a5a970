// Nothing fails silently: a turn that failed, is tried again or was cancelled is a row of its
// conversation, live and after a reload.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, AWAY, faultless, launch, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { answered, becomes, say, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const row = (page, name) => page.getByRole("region", { name });
const failed = (page, text) => row(page, "Failed turn").filter({ hasText: text });

/** Nothing sticks out at the sides, and what a person may press is large enough to be seen. */
async function fits(page, where) {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= page.viewportSize().width, `${where}: ${wide}`);
}

const TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum";
const FAULTS = {
    401: [401, "authentication_error", "invalid x-api-key", /provider rejected the key/],
    404: [404, "not_found_error", "model: claude-nothing", /provider rejected the request/],
    "too long": [400, "invalid_request_error", TOO_LONG, /too long for the model/],
};

for (const [where, size] of Object.entries(SIZES)) {
    test(`401, 404 and too long are rows with a way on, ${where}`, async (t) => {
        const { model, page } = await withModel(browser, t, size);
        await talk(page);
        for (const [name, [status, type, message, words]] of Object.entries(FAULTS)) {
            model.pushError(status, type, message);
            // A text that is too long is shortened and asked about once more.
            if (name === "too long") model.answers.push(...Array(3).fill(model.answers.at(-1)));
            await say(page, `Provoke ${name}.`);
            await becomes(() => failed(page, words).innerText(), /No tool was run\./);
            model.answers.length = 0;
        }
        await fits(page, where);
        await accessible(page, "failed turns");
        await picture(page, `failed-${size.viewport?.width ?? "light"}`);
        await page.reload();
        await failed(page, FAULTS["too long"][3]).waitFor();
        await becomes(() => row(page, "Failed turn").count(), 3, "after a reload the same rows");

        // Once more, and this time it works. The row that failed stays.
        model.push(says("Now it works."));
        const models = failed(page, FAULTS[401][3]).getByRole("link", { name: "Models" });
        assert.equal(await models.getAttribute("href"), "#/models");
        await failed(page, FAULTS[401][3]).getByRole("button", { name: "Try again" }).click();
        await answered(page, "Now it works.");
        await failed(page, FAULTS[401][3]).getByText("Tried again").waitFor();
        assert.equal(await row(page, "Failed turn").count(), 3);
        faultless(page);
    });

    test(`529: each try is seen while it happens, ${where}`, async (t) => {
        const { model, page } = await withModel(browser, t, size);
        await talk(page);
        // The vendor asks for a pause that a busy machine can show.
        const pause = { "retry-after": "6" };
        for (let at = 0; at < 8; at += 1) {
            model.pushError(529, "overloaded_error", "Overloaded", at ? {} : pause);
        }
        await say(page, "Provoke 529.");
        const retrying = page.getByRole("status", { name: "Retrying turn" });
        await retrying.filter({ hasText: /Overloaded, try 2 of \d, next in \d+ s/ }).waitFor();
        await fits(page, where);
        await accessible(page, "a turn that is tried again");
        await picture(page, `retrying-${size.viewport?.width ?? "light"}`);
        await page.reload();
        // The turn pauses longer than its calls: long enough to say so before it goes on by itself.
        const turns = /Overloaded, attempt \d of 3 of the turn, next in [12]\d s/;
        await retrying.filter({ hasText: turns }).waitFor();
        const head = page.locator(".talk-head");
        await head.getByRole("img", { name: "retrying" }).waitFor();
        await head.getByText(/Overloaded, next try in [12]\d s/).waitFor();
        model.answers.length = 0;
        model.push(says("There I am."));
        await retrying.getByRole("button", { name: "Try now" }).click();
        await answered(page, "There I am.");
        await retrying.waitFor({ state: "detached" });
        assert.equal(await page.locator(".event").count(), 0, "an answer leaves no row");
        faultless(page, AWAY);
    });

    test(`a cut stream is tried again, and what was cut is void, ${where}`, async (t) => {
        const { model, page } = await withModel(browser, t, size);
        await talk(page);
        for (let at = 0; at < 3; at += 1) model.pushCut(says("Half of an ans"));
        model.push(says("A whole answer."));
        // The pauses between the tries may be shorter than a busy machine takes to show them.
        const release = model.hold();
        await say(page, "Provoke a cut.");
        await page.getByRole("status", { name: "Retrying turn" }).filter({
            hasText: "Answer cut off",
        }).waitFor();
        release();
        await answered(page, "A whole answer.");
        assert.equal(await page.getByText("Half of an ans").count(), 0);
        assert.equal(await page.locator(".event").count(), 0);
        faultless(page);
    });
}

test("an answer without words says why, a failure after tool calls counts them", async (t) => {
    const { model, page } = await withModel(browser, t);
    await talk(page);
    model.pushEmpty("max_tokens");
    await say(page, "Say nothing.");
    await failed(page, /used its whole output limit before it said anything/).waitFor();
    model.pushEmpty("refusal");
    await say(page, "Refuse.");
    await failed(page, "filter withheld the answer").waitFor();
    model.push(call("read", { file_path: "welcome.md" }));
    model.pushError(401, "authentication_error", "invalid x-api-key");
    await say(page, "Read, then fail.");
    await failed(page, "1 tool call was run.").waitFor();
    await page.reload();
    await failed(page, "1 tool call was run.").waitFor();
    await failed(page, "filter withheld the answer").waitFor();
    await page.getByText("Simple", { exact: true }).click();
    assert.equal(await page.locator(".event").count(), 3, "in the simple view as well");
    faultless(page, AWAY);
});

const DENYING = {
    "teams/main/config.yaml":
        "allowed_tools: ['*']\npolicy:\n  - {effect: deny, tool: bash, command: rm}\n",
};

test("tool cards: all lines are counted, denied and stopped calls did not fail", async (t) => {
    const { model, page } = await withModel(browser, t, {}, DENYING);
    const card = (text) => page.locator(".tool summary", { hasText: text });
    await talk(page);
    model.push(call("bash", { command: "seq 1 20000" }));
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Two calls."));
    await say(page, "Count.");
    await answered(page, "Two calls.");
    await becomes(() => card("seq 1 20000").innerText(), /20000 lines/);
    await card("seq 1 20000").click();
    await page.getByRole("button", { name: /^Show \d+ of 20000 lines$/ }).waitFor();
    await becomes(() => card("rm -rf build").innerText(), /denied$/);
    model.push(call("bash", { command: "echo begun; sleep 60" }));
    await say(page, "Sleep.");
    await card("sleep 60").filter({ hasText: "running" }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await row(page, "Cancelled turn").waitFor();
    // A command that had begun may have had its effect; either way it did not fail.
    await card("sleep 60").filter({ hasText: /stopped|outcome unknown/ }).waitFor();
    await page.emulateMedia({ colorScheme: "dark" });
    await accessible(page, "outcomes in the dark");
    await picture(page, "outcomes-dark");
    faultless(page);
});
