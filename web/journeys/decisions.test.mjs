// Decisions about approvals in a conversation, what they rest on, and who may make them.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, context, faultless, launch, open, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import {
    answered,
    becomes,
    boxes,
    composer,
    keysDecide,
    said,
    say,
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

const AGENT = [
    "allowed_tools: ['*']",
    "policy:",
    "  - {effect: ask, tool: bash, command: rm}",
    "  - {effect: ask, tool: bash, command: sh}",
    "",
].join("\n");
const FIX = 'echo "moves the later one" \u202e\u001b[2K\nrm -rf build\n';
const HOME = {
    "teams/main/config.yaml": AGENT,
    "teams/main/work/build/old.o": "old",
    "teams/main/work/repair/fix.sh": FIX,
};
const asking = (t, options) => withModel(browser, t, options, HOME);
const card = (page) => page.getByRole("region", { name: "Approval for main" });

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`a compound command, approved for the conversation ${where}`, async (t) => {
        const { hive, model, page } = await asking(t, options);
        model.push(says("First."), call("bash", { command: "rm -rf build && touch done.txt" }));
        model.push(says("Cleaned."));
        await visit(page, "Chat");
        await say(page, "Clean up.");
        await card(page).getByText("main wants to run rm -rf build && touch done.txt").waitFor();
        await picture(page, `card-${size}`);
        if (size === "desktop") {
            await page.locator("h1").first().click();
            await keysDecide(page);
            await page.keyboard.press("s");
        } else {
            await card(page).getByRole("button", { name: "Conversation…" }).click();
        }
        const first = card(page).getByRole("textbox", { name: "Pattern for rm -rf build" });
        const second = card(page).getByRole("textbox", { name: "Pattern for touch done.txt" });
        assert.equal(await first.inputValue(), "rm -rf build $");
        assert.equal(await second.inputValue(), "touch done.txt $");
        await card(page).getByRole("button", { name: "rm -rf", exact: true }).click();
        await card(page).getByRole("img", { name: "matches" }).waitFor();
        const out = await card(page).evaluate((one) => {
            const edge = one.getBoundingClientRect().right;
            // The heading is one line, and is clipped at its end.
            const shown = (part) => part.offsetParent && !part.parentElement.closest(".clip");
            const parts = [...one.querySelectorAll("*")].filter(shown);
            return parts.filter((part) => part.getBoundingClientRect().right > edge).length;
        });
        assert.equal(out, 0, "everything is inside the card");
        await accessible(page, `a card with patterns, ${size}`);
        await picture(page, `card-patterns-${size}`);
        await second.fill("");
        const hint = card(page).getByText("Enter a pattern to preview it.");
        await hint.waitFor();
        assert.equal(await hint.evaluate((one) => one.classList.contains("bad-text")), false);
        await second.fill("touch");
        const yes = card(page).getByRole("button", { name: /^Approve for this conversation/ });
        await card(page).getByRole("img", { name: "matches" }).waitFor();
        await yes.click();
        await answered(page, "Cleaned.");
        const row = page.locator(".event", { hasText: "Approved for this conversation by" });
        await row.getByText(/operator, \d\d:\d\d, in the dashboard; allows rm -rf and touch$/).waitFor();
        await picture(page, `card-decided-${size}`);
        assert.ok(existsSync(join(hive.home, "teams/main/work/done.txt")));
        model.push(call("bash", { command: "rm -rf src && touch more.txt" }));
        model.push(says("Not asked again."));
        await say(page, "And the rest.");
        await answered(page, "Not asked again.");
        await page.reload();
        await row.waitFor();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${wide} px stick out`);
        faultless(page);
    });

    test(`what a decision rests on ${where}`, async (t) => {
        const { hive, model, page } = await asking(t, options);
        const command = "sh repair/fix.sh";
        model.push(says("I move the \u202elater one."), call("bash", { command }));
        await hive.skep("send", "main", "Repair it.");
        await visit(page, "Approvals");
        await page.getByRole("heading", { name: "main wants to run sh repair/fix.sh" }).waitFor();
        const title = "main wants to run sh repair/fix.sh · Skep";
        await page.waitForFunction((title) => document.title === title, title);
        const content = page.getByRole("region", { name: "Content of repair/fix.sh" });
        const folded = size !== "desktop";
        if (folded) {
            assert.equal(await content.count(), 0, "files are folded");
            await page.locator("summary", { hasText: "repair/fix.sh" }).click();
            await page.locator("summary", { hasText: "Reason and sandbox" }).click();
        }
        await content.waitFor();
        const shown = FIX.replace("\u202e", "‹U+202E›").replace("\u001b", "‹U+001B›");
        assert.equal(await content.textContent(), shown);
        await page.getByText("“I move the ‹U+202E›later one.” written by main").waitFor();
        await page.getByText("confined to its workspace, no network").waitFor();
        await accessible(page, `pinned content, ${size}`);
        await picture(page, `pinned-${size}`);
        await page.getByText("pinned: a change needs a new approval").waitFor();
        await page.getByRole("radio", { name: /Always/ }).check();
        await page.getByText("not pinned: later changes need no approval").waitFor();
        hive.write("teams/main/work/repair/fix.sh", "echo something else\n");
        await page.reload();
        if (folded) await page.locator("summary", { hasText: "repair/fix.sh" }).click();
        await page.getByText("The file is not what it was").waitFor();
        assert.equal(await content.count(), 0, "another file is not shown for it");
        faultless(page, /409/);
    });

    test(`what has no walls is red wherever it is approved ${where}`, async (t) => {
        const walls = { "no walls": "level: host", "full network": "network: full" };
        for (const [words, setting] of Object.entries(walls)) {
            const agent = `${AGENT}sandbox: {${setting}}\n`;
            const files = { ...HOME, "teams/main/config.yaml": agent };
            const { model, page } = await withModel(browser, t, options, files);
            const tag = async (where) => {
                const found = where.getByText(words, { exact: true });
                await found.waitFor();
                const [seen, wanted] = await found.evaluate((one) => {
                    const probe = document.body.appendChild(document.createElement("i"));
                    probe.style.color = "var(--bad)";
                    const colours = [one, probe].map((one) => getComputedStyle(one).color);
                    probe.remove();
                    return colours;
                });
                assert.equal(seen, wanted, words);
            };
            model.push(call("bash", { command: "rm -rf build" }));
            await talk(page);
            if (size === "desktop") await tag(page.locator(".side"));
            await say(page, "Clean up.");
            await tag(card(page));
            await picture(page, `danger-card-${size}`);
            await visit(page, "Home");
            await tag(page.locator(".needs"));
            await accessible(page, `a danger on Home, ${size}`);
            await picture(page, `danger-home-${size}`);
            await visit(page, "Approvals");
            await tag(page.locator(".detail .path"));
            if (size === "desktop") await tag(page.locator(".asks"));
            await picture(page, `danger-detail-${size}`);
            const wide = await page.evaluate(() => document.body.scrollWidth - innerWidth);
            assert.ok(wide <= 0, `${wide} px stick out`);
            faultless(page);
        }
    });

    test(`a viewer reads and is offered nothing else ${where}`, async (t) => {
        const { hive, model } = await asking(t);
        model.push(call("bash", { command: "rm -rf build" }));
        await hive.skep("send", "main", "Clean up.");
        const theirs = await context(browser, options);
        t.after(() => theirs.close());
        const { link } = await hive.skep("link", "--role", "viewer", "--name", "Ines");
        const page = await open(theirs, link);
        await page.getByText("Only operators can approve; you have view access.").waitFor();
        await visit(page, "Chat");
        await card(page).getByText("Only operators can approve; you have view access.").waitFor();
        await page.locator(".mine", { hasText: "Clean up." }).waitFor();
        assert.equal(await composer(page).count(), 0, "no composer");
        for (const name of [/^Approve/, /^Deny/, /^Stop/, "Edit and fork", "Send"]) {
            const offered = page.getByRole("button", { name });
            assert.equal(await offered.count(), 0, `no ${name}`);
        }
        await accessible(page, `a conversation for viewers, ${size}`);
        await picture(page, `viewer-${size}`);
        await visit(page, "Log");
        const tabs = page.getByRole("navigation", { name: "What is shown" });
        await tabs.getByRole("link", { name: "Audit" }).waitFor();
        assert.equal(await tabs.getByRole("link", { name: "Log" }).count(), 0, "no Log tab");
        faultless(page);
    });

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
        await page.locator(".event", { hasText: "Denied by operator" }).waitFor();
        faultless(page);
    });
}

test("decided in the terminal: the card stays as what was decided", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Cleaned."));
    await talk(page);
    await say(page, "Clean up.");
    await card(page).waitFor();
    const link = await card(page).getByRole("link", { name: "Details" }).getAttribute("href");
    await hive.skep("approve", link.split("/").at(-1));
    await said(page, "Cleaned.");
    await page.getByText(/^Approved once by operator, \d\d:\d\d, in the terminal$/).waitFor();
    assert.equal(await card(page).count(), 0);
    faultless(page);
});

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
        const whole = "[aria-label='Exactly what is asked for']";
        const [command, buttons] = await boxes(page, whole, ".decide .acts");
        const above = command.bottom <= buttons.top;
        assert.ok(above || size === "desktop", "the buttons come after it");
        await accessible(page, `hostile lines, ${size}`);
        await deny.click();
        await page.locator(".decided", { hasText: "Denied by operator" }).waitFor();
        faultless(page);
    });
}

test("cards stand in the order of the calls; a key decides only the one on the screen", async (t) => {
    const { model, page } = await asking(t, SIZES["at 200 % zoom"]);
    const commands = ["rm -f first", "rm -f second", "rm -f third", "rm -f fourth"];
    model.push(...commands.map((command) => call("bash", { command })));
    await talk(page);
    await say(page, "Clean up.");
    await card(page).nth(3).waitFor();
    const shown = () => card(page).locator(".cmd").allTextContents();
    assert.deepEqual(await shown(), commands);
    await page.evaluate(() => document.activeElement.blur());
    await page.waitForFunction(() => {
        const { bottom } = document.querySelector(".ask-card .cmd").getBoundingClientRect();
        return bottom < document.querySelector(".scroll").getBoundingClientRect().top;
    });
    await keysDecide(page);
    await page.keyboard.press("y");
    await page.getByText("Read the whole command, then press the key again.").waitFor();
    assert.deepEqual(await shown(), commands, "nothing is decided");
    await page.keyboard.press("y");
    await becomes(shown, commands.slice(1));
    faultless(page);
});

test("a click that lands on the next approval because the list moved decides nothing", async (t) => {
    const { hive, model, page } = await asking(t);
    for (const name of ["first", "second"]) {
        model.push(call("bash", { command: `rm ${name}` }));
        await hive.skep("send", "main", "Clean up.", "--session", name);
        await page.locator(".needs .cmd", { hasText: `rm ${name}` }).waitFor();
    }
    model.push(says("Cleaned."), says("Cleaned."));
    await page.getByRole("button", { name: "Approve once" }).nth(1).waitFor();
    let decisions = 0;
    page.on("request", (request) => (decisions += request.url().endsWith("/decision") ? 1 : 0));
    // The second click of somebody quick: at once when the next one is there.
    await page.evaluate(() => {
        const watch = new MutationObserver(() => {
            const buttons = [...document.querySelectorAll(".needs .ask .acts button")];
            if (buttons.filter((one) => one.textContent.startsWith("Approve")).length !== 1) return;
            watch.disconnect();
            buttons[0].click();
            document.body.dataset.clicked = "yes";
        });
        watch.observe(document.querySelector(".home"), { childList: true, subtree: true });
    });
    await page.getByRole("button", { name: "Approve once" }).first().click();
    await page.locator("body[data-clicked=yes]").waitFor();
    const button = page.getByRole("button", { name: "Approve once", disabled: false });
    await button.waitFor();
    assert.equal(decisions, 1);
    await button.click();
    await page.getByRole("heading", { name: "Nothing needs attention" }).first().waitFor();
    faultless(page);
});

test("words typed before the composer has the focus decide nothing", async (t) => {
    const { hive, model, page } = await asking(t);
    model.push(call("bash", { command: "rm -rf build" }));
    model.push(says("Cleaned."));
    await hive.skep("send", "main", "Clean up.");
    // Its own clock: a loaded machine types no word as slow letters.
    await page.clock.install();
    await page.goto(`${hive.url}/#/chat/main`);
    await page.reload();
    await card(page).waitFor();
    // Not so far ahead that the page takes its silent stream for a dead one.
    await page.clock.pauseAt(Date.now() + 10_000);
    for (const word of ["sorry", "why", "already"]) {
        await page.evaluate(() => document.activeElement.blur());
        for (const key of word) {
            await page.keyboard.press(key);
            await page.clock.runFor(130);
        }
        await page.clock.runFor(2000);
        assert.equal(await composer(page).inputValue(), word);
        assert.equal(await card(page).getByRole("button", { name: /^Approve once/ }).count(), 1);
        await composer(page).fill("");
    }
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("y");
    await page.clock.runFor(2000);
    await page.clock.resume();
    await said(page, "Cleaned.");
    faultless(page);
});
