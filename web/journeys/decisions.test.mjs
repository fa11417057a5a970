// What is no decision: a "yes" that is typed, and a command that hides what it does.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { composer, say, SIZES, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const AGENT = [
    "allowed_tools: ['*']",
    "policy:",
    "  - {effect: ask, tool: bash, command: rm}",
    "",
].join("\n");
const HOME = {
    "teams/main/config.yaml": AGENT,
    "teams/main/work/build/old.o": "old",
};
const asking = (t, options) => withModel(browser, t, options, HOME);
const card = (page) => page.getByRole("region", { name: "Approval for main" });
const visit = (page, name) =>
    page.locator(".nav a:visible, .tabs a:visible", { hasText: name }).click();

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`"yes" in the composer is explained ${where}`, async (t) => {
        const { model, page } = await asking(t, options);
        model.push(call("bash", { command: "rm -rf build" }));
        model.push(says("Cleaned."));
        await visit(page, "Chat");
        await say(page, "Clean up.");
        await card(page).waitFor();
        await say(page, "Yes!");
        const words = "Chat messages never approve anything.";
        const why = page.getByRole("alert").filter({ hasText: words });
        await why.waitFor();
        assert.equal(await composer(page).inputValue(), "Yes!");
        assert.equal(await page.locator(".queued").count(), 0, "nothing is queued");
        await accessible(page, `a typed yes, ${size}`);
        await picture(page, `typed-yes-${size}`);
        await composer(page).fill("Yes, and tell me why.");
        await why.waitFor({ state: "detached" });
        await say(page, "ok");
        await why.getByRole("button", { name: "Cancel" }).click();
        await why.waitFor({ state: "detached" });
        await composer(page).press("Enter");
        await why.getByRole("button", { name: "Send anyway" }).click();
        await page.locator(".queued", { hasText: "ok" }).waitFor();
        await card(page).getByRole("button", { name: "Deny" }).click();
        await card(page).waitFor({ state: "detached" });
        faultless(page);
    });
}

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`five thousand hostile lines ${where}`, async (t) => {
        const { hive, model, page } = await asking(t, options);
        const line = (at) => `# ${at} \u202e\u2066Approve once\u001b[2K\u001b]0;x\u0007 <b>\u200b`;
        const lines = ["rm -rf build", ...Array.from({ length: 5000 }, (_, at) => line(at))];
        model.push(call("bash", { command: lines.join("\n") }));
        await hive.skep("send", "main", "Clean up.");
        await page.getByRole("link", { name: "Review, 5001 lines" }).click();
        const exact = page.getByRole("region", { name: "Exactly what is asked for" });
        const shown = await exact.textContent();
        assert.equal(shown.split("\n").length, 5001, "every line");
        const all = await page.evaluate(() => document.documentElement.innerText + document.title);
        assert.doesNotMatch(all, /[\u202a-\u202e\u2066-\u2069\u001b\u200b\u0007]/);
        assert.equal(await page.locator(".detail b", { hasText: /^$/ }).count(), 0, "no markup");
        const wide = await exact.evaluate((box) => box.scrollWidth - box.clientWidth);
        assert.ok(wide <= 1, `nothing is out of sight at the side: ${wide}`);
        const deny = page.getByRole("button", { name: /^Deny/ });
        const [command, button] = [await exact.boundingBox(), await deny.boundingBox()];
        const above = command.y + command.height <= button.y;
        assert.ok(above || size === "desktop", "the buttons come after it");
        await accessible(page, `hostile lines, ${size}`);
        await deny.click();
        await page.locator(".decided", { hasText: "Denied by operator" }).waitFor();
        faultless(page);
    });
}
