// What a hostile model, tool or peer would put before a person: shown as what it is, on every page
// that shows it, and never run.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { withModel } from "./person.mjs";

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
    model.push(says(`done ${MARKUP} ${HIDDEN}`));
    await hive.skep("send", "main", `please ${MARKUP} ${HIDDEN}`);

    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    plain(await harmless(page, "home"), "home");
    await go(page, "Chat");
    const cards = page.getByRole("region", { name: "Approval for main" });
    await cards.first().waitFor();
    assert.equal(await cards.count(), 1, "what a model writes is no question");
    plain(await cards.first().innerText(), "the question in the talk");
    await harmless(page, "chat");
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
    await page.getByText("done").first().waitFor();
    await harmless(page, "chat, done");
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
