// For everybody: by keyboard alone, in forced colours, at 400 % zoom, over plain HTTP, behind a
// proxy.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, AWAY, faultless, launch, open, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { say as says } from "./model.mjs";
import { becomes, composer, said, say, sign, start, talk, visit, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const button = (page, name) => page.getByRole("button", { name });
/** Once the focus is on what the selector says. */
const focusOn = (page, selector) =>
    page.waitForFunction((selector) => document.activeElement.matches(selector), selector);

test("the focus stays where something was dismissed or tried again", async (t) => {
    const { hive, model, page } = await withModel(browser, t);
    for (const name of ["first", "second"]) {
        model.pushError(401, "authentication_error", "invalid x-api-key");
        await hive.skep("send", "main", `Do the ${name}.`, "--session", name);
        await page.getByText(`failed: Do the ${name}.`).waitFor();
    }
    await accessible(page, "two failures");
    await button(page, "Dismiss: failed: Do the second.").press("Enter");
    await page.getByText("failed: Do the second.").waitFor({ state: "detached" });
    await focusOn(page, ".needs li");
    // What comes next is the row that has its place.
    await page.keyboard.press("Tab");
    await focusOn(page, "[aria-label='Try again: failed: Do the first.']");
    model.push(says("The first is done."));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    await focusOn(page, "main *");

    await page.goto(`${hive.url}/#/chat/main?key=second`);
    model.push(says("The second is done."));
    await button(page, "Try again").press("Enter");
    await said(page, "The second is done.");
    await focusOn(page, ".event *");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Tried again");
    faultless(page);
});

test("a turn that is tried again is read out once, and leaves the focus", async (t) => {
    const { model, page } = await withModel(browser, t);
    await talk(page);
    for (let at = 0; at < 8; at += 1) model.pushError(529, "overloaded_error", "Overloaded");
    await say(page, "Provoke 529.");
    const row = page.getByRole("status", { name: "Retrying turn" });
    // The pause of the turn, after those of its calls, is long.
    await row.filter({ hasText: /next in [12]\d s/ }).waitFor();
    const read = await page.evaluate(async () => {
        const spoken = (row) => {
            const copy = row.cloneNode(true);
            for (const hidden of copy.querySelectorAll("[aria-hidden]")) hidden.remove();
            return copy.textContent;
        };
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        // Until the seconds of one and the same row have changed.
        for (;;) {
            const row = document.querySelector(".event[role=status]");
            const [before, seen] = row ? [spoken(row), row.textContent] : [];
            while (row?.isConnected && row.textContent === seen) await frame();
            if (row?.isConnected) return [before, spoken(row)];
            await frame();
        }
    });
    assert.equal(read[0], read[1]);
    model.answers.length = 0;
    model.push(says("There I am."));
    await row.getByRole("button", { name: "Try now" }).press("Enter");
    await said(page, "There I am.");
    await row.waitFor({ state: "detached" });
    await focusOn(page, ".talk *");
    faultless(page);
});

test("the bars of Usage are seen in forced colours", async (t) => {
    const { hive, model, page } = await withModel(browser, t, { forcedColors: "active" });
    model.push(says("Counted."));
    await hive.skep("send", "main", "Count this.", "--wait");
    await page.getByRole("link", { name: "Usage" }).first().click();
    await page.locator(".chart .hours i:not(.z)").first().waitFor();
    const colours = await page.evaluate(() => {
        const of = (what) => getComputedStyle(document.querySelector(what)).backgroundColor;
        return [of("body"), of(".chart .hours i:not(.z)")];
    });
    assert.notEqual(colours[0], colours[1]);
    await picture(page, "usage-forced-colours");
    faultless(page);
});

test("on paper there is the whole conversation, and nothing else", async (t) => {
    const { hive, page } = await sign(browser, t);
    const session = await hive.import(
        Array.from({ length: 58 }, (_, at) => `Message ${at + 1}. ${"Some words. ".repeat(60)}`),
    );
    await page.goto(`${hive.url}/#/chat/main?session=${session}`);
    await page.getByText("Message 58.").waitFor();
    const first = page.locator(".stream .say", { hasText: "Message 1." });
    await first.waitFor({ state: "detached" });
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await becomes(() => page.locator(".stream .say").count(), 58);
    const [cut, shown] = await page.evaluate(() => {
        const box = document.querySelector(".scroll");
        const bars = document.querySelectorAll(".nav, .side, .insp, .compose, .stream .btn");
        const isSeen = (one) => one.checkVisibility();
        return [box.scrollHeight - box.clientHeight, [...bars].filter(isSeen).length];
    });
    assert.deepEqual([cut, shown], [0, 0]);
    faultless(page);
});

test("a browser that keeps nothing says so, and the link stays good", async (t) => {
    const { hive, mine } = await start(browser, t);
    const link = await hive.link();
    await mine.addInitScript(() => {
        if (!location.search.includes("blocked")) return;
        Object.defineProperty(window, "localStorage", {
            get() {
                throw new DOMException("Access is denied for this document.", "SecurityError");
            },
        });
    });
    const page = await open(mine, link.replace("/#", "/?blocked#"));
    await page.getByRole("alert").filter({ hasText: "Allow cookies and site data" }).waitFor();
    await page.goto(link);
    await page.getByRole("heading", { level: 1, name: "Add a model provider" }).waitFor();
    await page.goto(`${hive.url}/#/nope`);
    await page.getByRole("heading", { level: 1, name: "Page not found" }).waitFor();
    await accessible(page, "no page");
    faultless(page);
});

test("at 400 % zoom everything can be read and pressed", async (t) => {
    const { hive, page } = await sign(browser, t, { viewport: { width: 360, height: 225 } });
    const fits = async (where) => {
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= 360, `${where}: ${wide}`);
        await accessible(page, `${where} at 400 %`);
        await picture(page, `${where}-400`);
    };
    await page.getByRole("link", { name: "Continue with the rehearsal model" }).click();
    await say(page, script("say An answer at four times the size."));
    await said(page, "An answer at four times the size.");
    await page.locator(".after").first().waitFor();
    // Messages have room of their own; the composer is below them.
    const heights = await page.evaluate(() => {
        const height = (what) => document.querySelector(what).getBoundingClientRect().height;
        return [".main", ".scroll"].map(height);
    });
    assert.ok(heights[1] >= 150 && heights[0] >= 180, `${heights}`);
    await fits("chat");
    for (const name of ["Home", "Approvals", "Usage", "Log & audit"]) {
        await visit(page, name);
        await page.getByRole("heading", { level: 1 }).first().waitFor();
        await fits(name.split(" ", 1)[0].toLowerCase());
    }
    await page.goto(`${hive.url}/#/models`);
    await button(page, "Test and save").waitFor();
    await fits("models");
    faultless(page);
});

test("over plain HTTP from another machine messages go out and answers are copied", async (t) => {
    const { mine, page } = await sign(browser, t);
    // What browsers keep from such a page.
    await mine.addInitScript(() => {
        delete Crypto.prototype.randomUUID;
        Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined });
    });
    await page.reload();
    await talk(page);
    await say(page, script("say Copy this answer."));
    await said(page, "Copy this answer.");
    await button(page, "Copy answer").click();
    await button(page, "Copied").waitFor();
    await composer(page).focus();
    await page.keyboard.press("Control+v");
    await page.waitForFunction(
        () => document.querySelector(".box textarea").value === "Copy this answer.",
    );
    await button(page, "New conversation").first().click();
    await page.waitForURL(/key=chat/);
    faultless(page);
});

test("behind a proxy a message waits for the hive as well", async (t) => {
    const { hive, mine, page } = await sign(browser, t);
    await talk(page);
    // As nginx answers for a hive that is away.
    const gateway = { status: 502, contentType: "text/html", body: "<h1>502 Bad Gateway</h1>" };
    await hive.kill();
    await mine.route(/\/api\/v1\//, (route) => route.fulfill(gateway));
    await page.locator(".strip", { hasText: "Disconnected since" }).waitFor();
    await say(page, script("say It was only away."));
    await page.locator(".mine.unsent").waitFor();
    assert.equal(await page.getByText("Not sent:").count(), 0);
    await hive.up();
    await mine.unroute(/\/api\/v1\//);
    await said(page, "It was only away.");
    const { items } = await hive.skep("inbox");
    assert.equal(items.length, 1);
    faultless(page, AWAY, /status of 502/);
});
