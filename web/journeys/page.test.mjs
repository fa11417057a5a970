// Journeys through the page in real Chromium, against the real program.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, AWAY, context, faultless, launch, open, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { call, say as says, think } from "./model.mjs";
import { answered, becomes, composer, said, say, sign, start, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());
const signedIn = (t, options) => sign(browser, t, options);

test("a link signs in once, and a cookie without its key opens nothing", async (t) => {
    const profiles = "profiles: {default: {provider: rehearsal}}\n";
    const { hive, mine } = await start(browser, t, {}, { "providers.yaml": profiles });
    const link = await hive.link();
    const page = await open(mine, link);
    await page.getByText("Nothing needs attention").first().waitFor();
    assert.equal(new URL(page.url()).hash.includes("once"), false, "the word left the address");

    await page.reload();
    await page.getByText("Nothing needs attention").first().waitFor();
    faultless(page);

    const theirs = await context(browser);
    t.after(() => theirs.close());
    const again = await open(theirs, link);
    await again.getByText("This link was used already").waitFor();
    faultless(again, /status of 403/);

    const status = await page.evaluate(async () => (await fetch("/api/v1/state")).status);
    assert.equal(status, 401, "the cookie alone");
    const key = await page.evaluate(() => localStorage.getItem("skep.key"));
    const without = await fetch(`${hive.url}/api/v1/state`, { headers: { "X-Skep-Key": key } });
    assert.equal(without.status, 401, "the key alone");
});

test("the first paint comes within a second", async (t) => {
    const { hive } = await start(browser, t);
    const times = [];
    // Each with an empty cache. The quickest counts: the machine may have other things to do.
    for (let round = 0; round < 3; round += 1) {
        const mine = await context(browser);
        const page = await open(mine, await hive.link());
        const paint = () =>
            new Promise((resolve) => {
                const seen = (list) => list.getEntries().forEach((one) => resolve(one.startTime));
                new PerformanceObserver(seen).observe({ type: "paint", buffered: true });
            });
        times.push(await page.evaluate(paint));
        await mine.close();
    }
    t.diagnostic(`first paint after ${times.map(Math.round)} ms`);
    assert.ok(Math.min(...times) < 1000, `${times} ms`);
});

const BEFORE = `pub fn overlap(a: &Stay, b: &Stay) -> bool {
    a.from < b.to
        && b.from < a.to
}
`;
const AFTER = `pub fn overlap(a: &Stay, b: &Stay) -> bool {
    // Instants, not wall clock: 02:30 happens twice on the last Sunday of October.
    a.from.to_utc() < b.to.to_utc()
        && b.from.to_utc() < a.to.to_utc()
}
`;

test("send, stream, thinking, tool card with diff, usage, context", async (t) => {
    const file = "teams/main/work/src/overlap.rs";
    const { hive, model, page } = await withModel(browser, t, {}, { [file]: BEFORE });
    await talk(page);
    const path = "src/overlap.rs";
    model.push(
        think("Two stays are compared by the clock on the wall. That clock goes back in October."),
        says("I look at how two stays are compared."),
        call("read", { file_path: path }),
        call("grep", { pattern: "overlap", path: "src" }),
    );
    model.push(call("write", { file_path: path, content: AFTER }));
    const done = "The comparison uses **instants** now. Run `cargo test -p booking` to see it.";
    model.push(says(done));
    await say(page, "Two guests hold the same bunk in the night of 25 October. Find out why.");
    await answered(page, "uses instants now");
    assert.equal(await page.locator(".say strong").first().textContent(), "instants");
    assert.equal(hive.read(file), AFTER);

    const card = page.locator(".tool", { hasText: "write" });
    await becomes(() => card.locator("summary").textContent(), /src\/overlap\.rs.*\+3.*−2/s);
    await becomes(() => card.locator(".diff .a").count(), 3);
    await page.getByText("Thought").click();
    await page.locator(".think p", { hasText: "goes back in October" }).waitFor();
    await page.getByText("Thought").click();
    const usage = /claude-sonnet-4-5.*in, 90 % cached.*out.*\$0\.00/s;
    await becomes(() => page.locator(".usage").first().textContent(), usage);
    const facts = page.getByRole("complementary", { name: "This conversation" });
    const context = /Context, .* of 200\.0 k.*Tools.*System.*History.*Newest.*Free/s;
    await becomes(() => facts.locator("section").first().innerText(), context);
    await becomes(() => facts.locator(".meter i").count(), 4);
    await page.getByText("Simple", { exact: true }).click();
    await becomes(() => page.locator(".tool").count(), 0, "simple shows what was said");
    await page.getByText("Full", { exact: true }).click();
    await accessible(page, "chat");
    await picture(page, "chat-light");
    faultless(page);
});

test("a WebSocket opens with the cookie and the key in its protocols, and not with less", async (t) => {
    const { mine, page, hive } = await signedIn(t);
    /** What the socket comes to: its protocol and first frame, or that it was refused. */
    const dial = (protocols) =>
        page.evaluate(
            (protocols) =>
                new Promise((resolve) => {
                    const socket = new WebSocket(`ws://${location.host}/ws`, protocols);
                    socket.onmessage = (event) => {
                        resolve([socket.protocol, JSON.parse(event.data).type]);
                        socket.close();
                    };
                    socket.onerror = () => resolve("refused");
                }),
            protocols,
        );
    const key = await page.evaluate(() => localStorage.getItem("skep.key"));
    const word = (key) => `skep-key.${key}`;
    assert.deepEqual(await dial(["skep.v1", word(key)]), ["skep.v1", "hello"]);
    assert.equal(await dial(["skep.v1"]), "refused", "the cookie alone");
    assert.equal(await dial(["skep.v1", word(key.replace(/.$/, "_"))]), "refused", "a wrong key");
    await mine.clearCookies();
    assert.equal(await dial(["skep.v1", word(key)]), "refused", "the key alone");
    assert.equal((await fetch(`${hive.url}/api/v1/health`)).status, 200);
    faultless(page, /WebSocket connection to .* failed/, /status of 401/);
});

test("stop ends the turn and what was said stays", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await say(page, script("say The beginning.", "wait 60000", "say The end."));
    // Its last word waits for its end.
    await said(page, "The");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText(/^Cancelled after/).waitFor();
    await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
    await said(page, "The beginning.");
    assert.equal(await page.locator(".say", { hasText: /^The end\.$/ }).count(), 0);
    faultless(page);
});

test("a reload in the middle of a stream shows what was said so far and goes on", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await say(page, script("say First half,", "wait 4000", "say second half."));
    await said(page, "First");
    await page.reload();
    await said(page, "First");
    await answered(page, "second half.");
    assert.equal(await page.locator(".stream .who b", { hasText: "main" }).count(), 1);
    faultless(page, AWAY);
});

test("the server is killed under the page and comes back", async (t) => {
    const { hive, page } = await signedIn(t);
    await talk(page);
    await say(page, script("say Before the crash."));
    await said(page, "Before the crash.");
    await hive.kill();
    await page.getByText("Disconnected").first().waitFor();
    await said(page, "Before the crash.");
    await say(page, script("say Sent while it was away."));
    await page.getByText("not sent yet").waitFor();
    await hive.up();
    await answered(page, "Sent while it was away.");
    await page.getByText(/Live, event/).waitFor();
    const history = await hive.skep("history", "show", "main");
    const answers = history.messages.filter((message) => message.role === "assistant");
    const texts = answers.map((message) => message.content.map((block) => block.text).join(""));
    assert.deepEqual(texts, ["Before the crash.", "Sent while it was away."]);
    faultless(page, AWAY);
});

test("two tabs show the same talk", async (t) => {
    const { mine, page, hive } = await signedIn(t);
    await talk(page);
    const other = await open(mine, `${hive.url}/#/chat/main`);
    await composer(other).waitFor();
    await say(page, script("say From the first tab."));
    await said(other, "From the first tab.");
    await say(other, script("say From the second tab."));
    await said(page, "From the second tab.");
    faultless(page);
    faultless(other);
});

test("queue and interrupt while a turn runs", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await say(page, script("say Long work.", "wait 60000", "say Never said."));
    await said(page, "Long");
    await page.getByText("Interrupt", { exact: true }).click();
    await say(page, script("say The newer one."));
    await said(page, "The newer one.");
    await page.getByText(/^Cancelled by a newer message/).waitFor();
    faultless(page);
});

test("a queued message is taken back, or sent at once", async (t) => {
    const { hive, page } = await signedIn(t);
    await talk(page);
    await say(page, script("say Long work.", "wait 60000", "say Never said."));
    await said(page, "Long");
    await say(page, script("say Not wanted any more."));
    await page.locator(".queued", { hasText: "Queued" }).waitFor();
    // Other tabs have it, and this one after a reload.
    const other = await open(page.context(), `${hive.url}/#/chat/main`);
    await other.locator(".queued", { hasText: "Not wanted any more." }).waitFor();
    await other.close();
    await page.reload();
    await page.getByRole("button", { name: "Remove from queue" }).click();
    await page.locator(".queued").waitFor({ state: "detached" });
    await say(page, script("say Wanted now."));
    await page.getByRole("button", { name: "Send now" }).click();
    await answered(page, "Wanted now.");
    const { items } = await hive.skep("inbox");
    const states = items.map((item) => [item.preview.split("say ")[1].trim(), item.state]);
    assert.deepEqual(states.slice(0, 3), [
        ["Wanted now.", "done"],
        ["Wanted now.", "cancelled"],
        ["Not wanted any more.", "cancelled"],
    ]);
    faultless(page);
});

test("commands: the menu, the keyboard, the answer", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await composer(page).fill("/st");
    await page.getByRole("option", { name: /\/status/ }).waitFor();
    await composer(page).press("Escape");
    await becomes(() => page.getByRole("listbox").count(), 0);
    await say(page, "/status");
    await page.locator(".note", { hasText: "queued" }).waitFor();
    faultless(page);
});

test("edit and fork leads to a session of its own", async (t) => {
    const { hive, page } = await signedIn(t);
    await talk(page);
    await say(page, script("say The first answer."));
    await answered(page, "The first answer.");
    await say(page, script("say The second answer."));
    await answered(page, "The second answer.");
    await page.getByRole("button", { name: "Edit and fork" }).nth(1).click();
    await say(page, script("say Another answer."));
    await page.waitForURL(/fork/);
    await answered(page, "Another answer.");
    await said(page, "The first answer.");
    assert.equal(await page.locator(".say", { hasText: /^The second answer\.$/ }).count(), 0);
    const sessions = await hive.skep("session", "list", "main");
    assert.equal(sessions.sessions.length, 2);
    faultless(page);
});

test("search finds what was said and leads there", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await say(page, script("say The heron stands in the reeds."));
    await answered(page, "The heron stands");
    await page.locator("h1").click();
    await page.keyboard.press("/");
    await page.getByRole("combobox", { name: "Search conversations" }).fill("heron");
    await page.locator(".hits mark", { hasText: "heron" }).first().waitFor();
    await page.locator(".hits a").first().click();
    await said(page, "The heron stands");
    faultless(page);
});

test("a picture dropped on the composer is sent and shown", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    const dot =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const dropped = await page.evaluateHandle((data) => {
        const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], "dot.png", { type: "image/png" }));
        return transfer;
    }, dot);
    await page.dispatchEvent(".compose", "drop", { dataTransfer: dropped });
    await page.getByText("dot.png").waitFor();
    await say(page, script("say I see it."));
    await said(page, "I see it.");
    const shown = page.locator("figure.thumb img[alt='dot.png']");
    await becomes(() => shown.evaluate((image) => image.naturalWidth), 1);
    faultless(page);
});

test("words of a model are never markup", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    const hostile = [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "[click](javascript:alert(1))",
        "![spy](http://203.0.113.9/x.png)",
        "<iframe src=http://203.0.113.9></iframe>",
    ].join(" ");
    page.on("dialog", () => page.faults.push("a dialog opened"));
    await say(page, script(`say ${hostile} done.`));
    await answered(page, "done.");
    assert.equal(await page.locator(".stream img, .stream script, .stream iframe").count(), 0);
    assert.equal(await page.locator(".stream a[href^='javascript']").count(), 0);
    faultless(page);
});

test("Home says what needs a person, what runs and what it cost", async (t) => {
    const { page } = await signedIn(t);
    await talk(page);
    await say(page, script("say An answer is counted."));
    await answered(page, "An answer is counted.");
    await say(page, script("fail auth"));
    await page.getByRole("link", { name: /Home/ }).first().click();
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    await page.getByRole("link", { name: "Open", exact: true }).click();
    await say(page, script("say Working on it.", "wait 60000", "say Done."));
    await said(page, "Working on");
    await page.getByRole("link", { name: /Home/ }).first().click();
    await page.getByRole("heading", { name: "Nothing needs attention" }).first().waitFor();
    await page.locator(".live li", { hasText: "main" }).waitFor();
    await page.getByRole("img", { name: /^Tokens per hour, highest at \d\d:00 UTC/ }).waitFor();
    await page.locator(".spend tr", { hasText: /main\s*1 turn/ }).waitFor();
    const off = await page.evaluate(() => {
        const left = (what) => document.querySelector(what).getBoundingClientRect().left;
        return left(".spend .axis :nth-child(4)") - left(".spend .hours :nth-child(19)");
    });
    assert.ok(Math.abs(off) < 3, `18 begins at its bar: ${off}`);
    await page.reload();
    await page.locator(".live li", { hasText: "#rehearsal" }).waitFor();
    await accessible(page, "home");
    await page.getByRole("button", { name: "Stop main" }).click();
    await page.getByText("No turn is running.").waitFor();
    faultless(page);
});

test("Usage draws what models used, by time, agent and model", async (t) => {
    const { hive, model, page } = await withModel(browser, t, {}, { "skep.yaml": LIMITS });
    model.push(call("read", { file_path: "welcome.md" }));
    model.push(says("Two calls, one turn."));
    await hive.skep("send", "main", "look", "--wait");
    await page.getByRole("link", { name: "Usage" }).first().click();
    await page.getByRole("heading", { level: 1, name: /^\$0\.0\d+ today$/ }).waitFor();
    await page.getByText(/^1 turn, 2 model calls, .* tokens\./).waitFor();
    const row = page.locator("tr", { hasText: "claude-sonnet-4-5" });
    await becomes(() => row.innerText(), /1\s+2\s+[\d.]+ k\s+90 %\s+\$0\.0/);
    for (const name of ["Cost", "Tokens", "Turns", "Cached share of prompt"]) {
        await page.getByRole("img", { name: new RegExp(`^${name} over time, most `) }).waitFor();
    }
    await page.getByText(/^\$0\.0\d+ of \$5\.00$/).waitFor();
    await page.getByRole("button", { name: "Show as table" }).click();
    await page.getByRole("columnheader", { name: "Hour" }).waitFor();

    // It is live: another turn is counted without a reload.
    model.push(says("One more."));
    await hive.skep("send", "main", "again", "--wait");
    await page.getByText(/^2 turns, 3 model calls/).waitFor();
    await page.getByRole("link", { name: "30 days" }).click();
    await page.getByRole("heading", { level: 1, name: /in 30 days$/ }).waitFor();
    await page.getByRole("columnheader", { name: "Day" }).waitFor();
    await page.getByRole("combobox", { name: "Agent" }).selectOption("main");
    await page.waitForURL(/agent=main/);
    await page.getByText(/^2 turns, 3 model calls/).waitFor();
    await accessible(page, "usage");
    await picture(page, "usage-light");
    await page.setViewportSize({ width: 390, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `nothing sticks out on a phone: ${wide}`);
    await accessible(page, "usage on a phone");
    faultless(page);
});

const LIMITS = "limits:\n  cost_per_day: 5\n";

test("phone size", async (t) => {
    const options = { viewport: { width: 390, height: 844 }, hasTouch: true };
    const { page } = await signedIn(t, options);
    await page.locator(".tabs a", { hasText: "Chat" }).click();
    await composer(page).waitFor();
    await say(page, script('call read {"file_path": "welcome.md"}', "next", "say On a phone."));
    await answered(page, "On a phone.");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `nothing sticks out: ${wide}`);
    await page.getByRole("button", { name: "Agents and conversations" }).click();
    await page.locator(".side summary", { hasText: "main" }).waitFor();
    await page.getByRole("button", { name: "Agents and conversations" }).click();
    await accessible(page, "phone");
    await picture(page, "chat-phone");
    faultless(page);
});

test("dark", async (t) => {
    const { page } = await signedIn(t, { colorScheme: "dark" });
    await talk(page);
    await say(page, script("think In the dark.", "say It is night."));
    await answered(page, "It is night.");
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(ground, "rgb(25, 25, 24)");
    await accessible(page, "chat in the dark");
    await picture(page, "chat-dark");
    faultless(page);
});
