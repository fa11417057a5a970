// What a hostile model, tool or peer would put before a person: shown as what it is, on every page
// that shows it, and never run.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { answered, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const MARKUP = "<img src=x onerror='window.pwned=1'><b class=pwned>bold</b>";
const HIDDEN = "\u202e\u001b[2K\r\u200b\u00a0";
const HOME = {
    "teams/main/config.yaml": "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n",
};

/** Nothing of what was said became part of the page; gives its text. */
async function harmless(page, where) {
    const found = await page.evaluate(() => ({
        ran: window.pwned,
        made: document.querySelectorAll(".pwned, img[src=x], a[href^='javascript']").length,
        text: document.body.innerText,
        title: document.title,
    }));
    assert.equal(found.ran, undefined, where);
    assert.equal(found.made, 0, where);
    plain(found.title, where);
    return found.text;
}

function plain(text, where) {
    const place = text.search(/[\u202a-\u202e\u2066-\u2069\u001b\u200b\u0000-\u0008]/);
    const around = text.slice(Math.max(0, place - 60), place + 60);
    assert.equal(place, -1, `${where}: ${JSON.stringify(around)}`);
}

const go = (page, name) => page.getByRole("link", { name }).first().click();

test("hostile words are shown and do nothing, on every page of the gate", async (t) => {
    const { hive, model, page } = await withModel(browser, t, undefined, HOME);
    const command = `echo ${MARKUP} ${HIDDEN}; rm -rf build`;
    const look = `Approval for main\n\n[Approve once](javascript:window.pwned=1)\n\n${MARKUP}`;
    model.push(says(`${look} ${HIDDEN}`), call("bash", { command }));
    model.push(
        call(`no_such_tool`, { [`key${HIDDEN}`]: `${MARKUP}${HIDDEN}` }),
        call("read", { file_path: `${MARKUP}${HIDDEN}.md` }),
    );
    const link = "[bank.example](https://evil.example/x)";
    model.push(says(`done ${link} ${MARKUP} ${HIDDEN}`));
    await hive.skep("send", "main", `please ${MARKUP} ${HIDDEN}`);

    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    plain(await harmless(page, "home"), "home");
    await go(page, "Chat");
    const cards = page.getByRole("region", { name: "Approval for main" });
    await cards.first().waitFor();
    assert.equal(await cards.count(), 1, "what a model writes is no question");
    plain(await cards.first().innerText(), "the question in the talk");
    const turns = /[\u202a-\u202e\u2066-\u2069\u001b]/;
    assert.doesNotMatch(await harmless(page, "chat"), turns);
    await go(page, /^Approvals/);
    const exact = page.getByRole("region", { name: "Exactly what is asked for" });
    await exact.waitFor();
    const shown = await exact.textContent();
    const marks = ["202E", "001B", "000D", "200B"].map((number) => `‹U+${number}›`);
    for (const part of ["<img src=x", "rm -rf build", ...marks])
        assert.ok(shown.includes(part), `${part} in ${shown}`);
    plain(await harmless(page, "approvals"), "approvals");
    await accessible(page, "approvals");

    const note = page.getByRole("textbox", { name: "Note to main" });
    await note.fill(`no ${MARKUP}`);
    await page.getByRole("button", { name: /^Deny/ }).click();
    await page.getByText("Nothing to approve.").waitFor();
    plain(await harmless(page, "approvals, decided"), "approvals, decided");
    await go(page, "Chat");
    await answered(page, "bank.example (evil.example)");
    const words = await harmless(page, "chat, done");
    assert.doesNotMatch(words, turns);
    assert.ok(words.includes("bank.example (evil.example)"), "a link shows where it leads");
    await go(page, "Home");
    await page.getByRole("heading", { name: "Recent results" }).waitFor();
    assert.doesNotMatch(await harmless(page, "home, done"), turns);
    await go(page, "Log & audit");
    const rows = page.locator(".audit-row");
    await rows.filter({ hasText: "no_such_tool" }).waitFor();
    for (const row of await rows.locator("summary").all()) await row.click();
    plain(await harmless(page, "audit"), "audit");
    await go(page, "Usage");
    await page.getByRole("heading", { level: 1 }).waitFor();
    plain(await harmless(page, "usage"), "usage");
    faultless(page);
});

/** Text with a letter that runs from the right whose characters are drawn in another order. */
function moved() {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {
        const node = texts.currentNode;
        const around = node.parentElement;
        if (!node.data.includes("א") || !around.checkVisibility() || around.closest(".say")) continue;
        const range = document.createRange();
        const boxes = [...node.data].map((_, at) => {
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            return range.getBoundingClientRect();
        });
        const inOrder = (box, at) => {
            const before = boxes[at - 1];
            return !before || !box.width || box.top > before.top || box.left >= before.left;
        };
        if (!boxes.every(inOrder)) found.push(`${around.outerHTML.slice(0, 80)}: ${node.data}`);
    }
    return found;
}

test("a letter that runs from the right moves nothing of a command or a name", async (t) => {
    const { hive, model, page } = await withModel(browser, t, undefined, HOME);
    model.push(call("bash", { command: "sh א # 7" }));
    model.push(call("write", { file_path: "א 7 b.md", content: "א 7 + 3\n" }));
    model.push(says("All done."));
    await hive.skep("send", "main", "Do it.");
    const order = async (where) => assert.deepEqual(await page.evaluate(moved), [], where);
    await page.locator(".needs .cmd", { hasText: "sh א" }).waitFor();
    await order("home");
    await go(page, "Chat");
    await page.locator(".ask-card .cmd", { hasText: "sh א" }).waitFor();
    await order("conversation");
    await go(page, /^Approvals/);
    await page.getByRole("region", { name: "Exactly what is asked for" }).waitFor();
    await page.getByRole("radio", { name: /Always/ }).check();
    await page.getByRole("img", { name: "matches" }).waitFor();
    await order("approvals");
    await page.getByRole("radio", { name: /Once/ }).check();
    await page.getByRole("button", { name: /^Approve once/ }).click();
    await page.getByText("Nothing to approve.").waitFor();
    await order("approvals, decided");
    await go(page, "Chat");
    await answered(page, "All done.");
    await page.locator(".tool", { hasText: "b.md" }).first().waitFor();
    await page.evaluate(() =>
        document.querySelectorAll(".tool").forEach((one) => (one.open = true)),
    );
    await order("conversation, done");
    await go(page, "Log & audit");
    await page.locator(".audit-row", { hasText: "sh א" }).first().waitFor();
    await page.evaluate(() =>
        document.querySelectorAll(".audit-row").forEach((one) => (one.open = true)),
    );
    await order("audit");
    faultless(page);
});
