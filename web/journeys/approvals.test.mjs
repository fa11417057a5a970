// Approvals: what a rule asks about is read whole, decided by a person, and runs exactly once.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
    accessible,
    AWAY,
    context,
    faultless,
    launch,
    open,
    picture,
} from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import {
    answered,
    becomes,
    boxes,
    keysDecide,
    said,
    say,
    SIZES,
    talk,
    withModel,
} from "./person.mjs";

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
const approvals = (page) => page.getByRole("link", { name: /^Approvals/ }).first();
const exact = (page) => page.getByRole("region", { name: "Exactly what is asked for" });
const EXACT = "[aria-label='Exactly what is asked for']";
const DECIDED = /Approved once by operator, \d\d:\d\d, in the dashboard/;
const decided = (page) => page.locator(".decided", { hasText: DECIDED }).waitFor();

/** The answers to tool calls in a request. */
function results(request) {
    const blocks = request.messages.flatMap((message) => message.content);
    return blocks.filter((block) => block.type === "tool_result");
}

test("asked, killed, restarted, approved: it runs exactly once", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(says("I clean up."), call("bash", { command: "rm -rf build" }));
    // Asked again before the call has its answer, it would want something else.
    model.pushBy((request) =>
        results(request).length ? [says("It is gone.")] : [call("bash", { command: "rm -rf src" })],
    );
    await talk(page);
    await say(page, "Remove what was built.");
    await page.getByRole("region", { name: "Approval for main" }).waitFor();
    await page.getByText("waiting for approval").first().waitFor();
    await page.getByRole("link", { name: /Home/ }).first().click();
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    await page.locator(".needs .cmd", { hasText: "rm -rf build" }).waitFor();
    await page.getByText(/, 1 waiting, /).waitFor();
    const isAbove = () => {
        const box = (what) => document.querySelector(`.needs .ask ${what}`).getBoundingClientRect();
        return box(".cmd").bottom <= box(".acts").top;
    };
    assert.ok(await page.evaluate(isAbove), "the command has the whole width");
    await accessible(page, "home");
    await picture(page, "home-light");
    await approvals(page).click();
    await page.getByRole("heading", { name: "main wants to run rm -rf build" }).waitFor();
    assert.match(await exact(page).textContent(), /rm -rf build/);
    await page.getByRole("list").filter({ hasText: "teams/main/config.yaml" }).first().waitFor();
    await accessible(page, "approvals");
    await picture(page, "approvals-light");

    await hive.kill();
    await page.getByText("Disconnected").first().waitFor();
    assert.ok(existsSync(join(hive.home, "teams/main/work/build/old.o")));
    await hive.up();
    await page.getByText(/Live, event/).waitFor();
    assert.match(await exact(page).textContent(), /rm -rf build/);
    await page.locator("h1").first().click();
    await keysDecide(page);
    await page.keyboard.press("y");
    await page.getByText("Nothing to approve.").waitFor();
    await decided(page);

    await talk(page);
    await said(page, "It is gone.");
    assert.equal(existsSync(join(hive.home, "teams/main/work/build")), false);
    assert.equal(model.requests.length, 2, "the model was asked before and after, no more");
    const { rows } = await hive.rows();
    const calls = rows.filter((row) => row.kind === "call");
    assert.deepEqual(
        calls.map((row) => [row.tool, row.arguments.command, row.outcome]),
        [["bash", "rm -rf build", "ok"]],
    );
    faultless(page, AWAY);
});

test("a denial goes back with its note, from the conversation itself", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Then I leave it."));
    await talk(page);
    await say(page, "Clean up.");
    const card = page.getByRole("region", { name: "Approval for main" });
    await card.getByRole("link", { name: "Details" }).click();
    await page.getByRole("textbox", { name: "Note to main" }).fill("We still need it.");
    await page.getByRole("button", { name: /^Deny/ }).click();
    await page.getByText(/Denied by operator.*: We still need it\./).first().waitFor();
    await talk(page);
    await said(page, "Then I leave it.");
    const [told] = results(model.requests[1]);
    assert.equal(told.is_error, true);
    assert.match(JSON.stringify(told.content), /We still need it\./);
    assert.ok(existsSync(join(hive.home, "teams/main/work/build/old.o")));
    faultless(page);
});

test("always shows its pattern and what it covers, and the next one is not asked", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Once."));
    await hive.skep("send", "main", "Clean up.");
    await approvals(page).click();
    await exact(page).waitFor();
    assert.equal(await page.getByRole("radio", { name: /Once/ }).isChecked(), true);
    await page.locator("h1").first().click();
    await keysDecide(page);
    await page.keyboard.press("3");
    const pattern = page.getByRole("textbox", { name: "Pattern" });
    await pattern.fill("ls");
    await page.getByText("does not match this call").waitFor();
    const yes = page.getByRole("button", { name: /^Approve always/ });
    await becomes(() => yes.getAttribute("aria-disabled"), "true");
    await pattern.fill("rm -rf");
    await page.getByRole("img", { name: "matches" }).waitFor();
    await yes.click();
    await page.getByText("Nothing to approve.").waitFor();
    await talk(page);
    await answered(page, "Once.");
    model.push(call("bash", { command: "rm -rf other" }));
    model.push(says("Not asked again."));
    await say(page, "And the other.");
    await said(page, "Not asked again.");
    faultless(page);
});

test("twenty thousand characters and marks that mislead are shown as they are", async (t) => {
    const { hive, model, page } = await asking(t);
    const long = `rm -rf build ${"a".repeat(20_000)} END`;
    const sly = "rm -rf build # \u202etxt.exe \u001b[2K\u200b";
    model.push(call("bash", { command: long }));
    model.push(call("bash", { command: sly }));
    model.push(says("Done."));
    await hive.skep("send", "main", "Clean up.");
    await approvals(page).click();
    const shown = await exact(page).textContent();
    assert.ok(shown.includes("END") && shown.includes("a".repeat(20_000)), "all of it");
    const wide = await exact(page).evaluate((box) => box.scrollWidth - box.clientWidth);
    assert.ok(wide <= 1, `nothing is out of sight at the side: ${wide}`);
    await page.getByRole("link", { name: /Home/ }).first().click();
    await page.getByRole("link", { name: /^Review, / }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Approve once" }).count(), 0);
    await approvals(page).click();
    await page.getByRole("button", { name: /^Deny/ }).click();
    await page.locator(".asks a", { hasText: "U+202E" }).click();
    await page.getByText("‹U+202E›txt.exe ‹U+001B›[2K‹U+200B›").last().waitFor();
    await page.getByRole("button", { name: /^Deny/ }).click();
    await page.getByText("Nothing to approve.").waitFor();
    faultless(page);
});

test("decided elsewhere while it is read", async (t) => {
    const { hive, mine, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Done."));
    await hive.skep("send", "main", "Clean up.");
    await approvals(page).click();
    await exact(page).waitFor();
    const other = await open(mine, `${hive.url}/#/approvals`);
    await other.getByRole("textbox", { name: "Note to main" }).fill("Not now.");
    await other.getByRole("button", { name: /^Deny/ }).click();
    await page.getByText(/Denied by operator.*: Not now\./).first().waitFor();
    assert.equal(await page.getByRole("button", { name: /^Approve/ }).count(), 0);
    faultless(page);
});

test("who is signed in to look sees what waits and decides nothing", async (t) => {
    const { hive, model } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    await hive.skep("send", "main", "Clean up.");
    const theirs = await context(browser);
    t.after(() => theirs.close());
    const { link } = await hive.skep("link", "--role", "viewer", "--name", "Ines");
    const page = await open(theirs, link);
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Approve once" }).count(), 0);
    await approvals(page).click();
    await exact(page).waitFor();
    await page.getByText("Only operators can approve; you have view access.").waitFor();
    await page.keyboard.press("y");
    await page.getByText("Waiting (1)").waitFor();
    faultless(page);
});

test("what nobody decided in time is no no: reopened, a yes runs exactly it", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Nobody said anything."));
    model.push(says("Now it is gone."));
    await hive.skep("send", "main", "Clean up.");
    await approvals(page).click();
    await exact(page).waitFor();
    await hive.sql(
        `UPDATE approvals SET expires_at = 1;
         UPDATE turns SET available_at = 1 WHERE ended_at IS NULL;
         UPDATE lanes SET due_at = 1 WHERE due_at IS NOT NULL;`,
    );
    await hive.kill();
    await hive.up();
    await page.locator(".decided", { hasText: "Expired, can be reopened" }).waitFor();
    // The turn goes on, and ends without it.
    await model.asked(2);
    await becomes(async () => (await hive.skep("status")).work.running, 0);
    assert.equal(model.requests.length, 2, "the turn went on");
    assert.ok(existsSync(join(hive.home, "teams/main/work/build/old.o")));
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByRole("button", { name: /^Approve once/ }).click();
    await decided(page);
    await talk(page);
    await said(page, "Now it is gone.");
    assert.equal(existsSync(join(hive.home, "teams/main/work/build")), false);
    faultless(page, AWAY);
});

/** Six lines, as people write them. */
const SIX = [
    "rm -rf build \\",
    "  --one-file-system \\",
    "  --preserve-root \\",
    "  build/debug build/release \\",
    "  build/old.o \\",
    "  2>&1 | tee clean.log",
].join("\n");

/** Every line of the command can be read: nothing is in front of it, the buttons come after it. */
async function readable(page, where) {
    const found = await page.evaluate(() => {
        const command = document.querySelector(".detail .cmd");
        const decide = document.querySelector(".decide, .decided");
        const room = command.closest(".detail");
        const covered = [];
        const height = command.getBoundingClientRect().height;
        for (let line = 10; line < height; line += 19) {
            const top = () => command.getBoundingClientRect().top;
            for (const box of [room, room.querySelector(".read")]) {
                const from = top() - box.getBoundingClientRect().top;
                box.scrollTop += from + line - box.clientHeight / 2;
            }
            const { left } = command.getBoundingClientRect();
            const front = document.elementFromPoint(left + 20, top() + line);
            if (front !== command) covered.push([line, front?.outerHTML.slice(0, 80)]);
        }
        const boxes = [command, decide].map((one) => one.getBoundingClientRect());
        return { covered, rest: boxes[1].top - boxes[0].bottom };
    });
    assert.deepEqual(found.covered, [], `${where}: something is in front of the command`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${where}: ${wide} px stick out`);
    return found.rest;
}

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`three approvals, one after the other, ${where}`, async (t) => {
        const colorScheme = size === "phone" ? "dark" : "light";
        const { hive, model, page } = await asking(t, { ...options, colorScheme });
        const long = Array.from({ length: 60 }, (_, at) => `rm -rf build/part-${at}`).join("\n");
        const commands = [SIX, long, "rm -rf build"];
        for (const [at, command] of commands.entries()) {
            model.push(call("bash", { command }));
            await hive.skep("send", "main", "Clean up.", "--session", `s${at}`);
            const count = page.locator(".count.need:visible", { hasText: String(at + 1) });
            await count.first().waitFor();
        }
        for (let at = 0; at < commands.length; at++) model.push(says("Done."));
        await page.locator(".nav a:visible, .tabs a:visible", { hasText: "Approvals" }).click();
        const next = page.getByRole("button", { name: "Next" });
        const previous = page.getByRole("button", { name: "Previous" });
        const approve = page.getByRole("button", { name: /^Approve once/ });
        await page.getByText("1 of 3").waitFor();
        assert.equal(await previous.getAttribute("aria-disabled"), "true");
        await picture(page, `approvals-${size}`);
        const [lines, button] = await boxes(page, EXACT, ".decide .go");
        const inView = ({ top, bottom }) => top >= 0 && bottom <= page.viewportSize().height;
        assert.ok(inView(lines), "six lines are seen whole");
        assert.ok(inView(button), "with the buttons below them");
        await accessible(page, `approvals, ${size}`);
        for (const [at, command] of commands.entries()) {
            await page.getByText(`${at + 1} of 3`).waitFor();
            assert.equal(await exact(page).textContent(), command);
            const rest = await readable(page, `${size}, ${at + 1}`);
            const scrolls = size === "desktop" && at === 1;
            assert.ok(scrolls || rest >= 0, `the buttons come after the command: ${rest}`);
            if (at < 2) await next.click();
        }
        assert.equal(await next.getAttribute("aria-disabled"), "true");
        await previous.click();
        await page.getByText("2 of 3").waitFor();
        // A key decides only what was read: each press shows more of it first.
        await keysDecide(page);
        await page.keyboard.press("y");
        await page.getByText("Read the whole command, then press the key again.").waitFor();
        await approve.click();
        await decided(page);
        faultless(page);
    });
}

test("a scope without a pattern asks for one and calls nothing an error", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build && echo $HOME" }));
    await hive.skep("send", "main", "Clean up.");
    await approvals(page).click();
    await exact(page).waitFor();
    await page.getByRole("radio", { name: /Always/ }).check();
    await page.getByRole("textbox", { name: "Pattern for rm -rf build" }).fill("");
    const hint = page.getByText("Enter a pattern to preview it.");
    await hint.waitFor();
    assert.equal(await hint.evaluate((one) => one.classList.contains("bad-text")), false);
    const yes = page.getByRole("button", { name: /^Approve always/ });
    assert.equal(await yes.getAttribute("aria-disabled"), "true");
    faultless(page);
});

const PUSH = "allowed_tools: [bash]\npolicy:\n  - {effect: ask, tool: bash, command: git push}\n";
const pushing = (t) => withModel(browser, t, {}, { "teams/main/config.yaml": PUSH });

test("why something is asked about, and a yes for an hour", async (t) => {
    const { hive, model, page } = await pushing(t);
    await page.getByRole("link", { name: "Log & audit" }).first().click();
    await page.getByRole("link", { name: "Why", exact: true }).click();
    await page.getByRole("textbox", { name: "Arguments" }).fill('{"command": "git push origin"}');
    await page.getByRole("button", { name: "Test" }).click();
    await page.getByRole("heading", { name: "You would be asked" }).waitFor();
    await page.getByText(/git push/).first().waitFor();
    await accessible(page, "why");
    await picture(page, "why-light");
    await page.getByRole("button", { name: "Grant" }).click();
    await page.getByRole("heading", { name: "It would run" }).waitFor();
    model.push(call("bash", { command: "git push origin" }));
    model.push(says("Nobody was asked."));
    await hive.skep("send", "main", "Push.", "--wait");
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No grants.").waitFor();
    await page.getByRole("button", { name: "Test" }).click();
    await page.getByRole("heading", { name: "You would be asked" }).waitFor();
    faultless(page);
});
