// What belongs to the browser: theme, shortcuts, notifications, signing out; the choice of a model.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { answered, becomes, said, say, sign, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const PROFILES = { "providers.yaml": "profiles: {default: {provider: rehearsal}}\n" };
const notifications = (page) => page.getByLabel("Notifications").locator("visible=true");
const account = (page) => page.locator("summary[aria-label^='Account of']:visible");

for (const [where, options] of Object.entries(SIZES)) {
    test(`the theme is kept by the browser and there before the first paint ${where}`, async (t) => {
        const { page } = await sign(browser, t, { ...options, colorScheme: "light" }, PROFILES);
        const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const light = await background();
        await account(page).click();
        await page.locator("label", { hasText: "Dark" }).locator("visible=true").click();
        await page.waitForFunction(
            (light) => getComputedStyle(document.body).backgroundColor !== light,
            light,
        );
        const dark = await background();
        await accessible(page, `account menu, dark, ${where}`);
        await picture(page, `account-dark-${where.replaceAll(" ", "-")}`);
        // The page's own script has not run when the theme is there already.
        await page.route("**/assets/*.js", (route) => route.abort());
        await page.reload();
        assert.equal(await background(), dark);
        await page.unroute("**/assets/*.js");
        await page.reload();
        await account(page).click();
        await page.locator("label", { hasText: "System" }).locator("visible=true").click();
        await becomes(background, light);
        faultless(page, /Failed to load resource: net::ERR_FAILED/);
    });
}

test("? lists the shortcuts where nothing is typed", async (t) => {
    const { page } = await sign(browser, t, {}, PROFILES);
    await page.keyboard.press("?");
    const sheet = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await sheet.getByText("Stop turn").waitFor();
    await accessible(page, "shortcuts");
    await picture(page, "shortcuts-light");
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });
    await talk(page);
    const field = page.getByRole("textbox", { name: "Message to main" });
    await field.pressSequentially("why?");
    assert.equal(await field.inputValue(), "why?");
    assert.equal(await sheet.count(), 0);
    faultless(page);
});

for (const [where, options] of Object.entries(SIZES)) {
    test(`signing out ends this browser's session ${where}`, async (t) => {
        const { page } = await sign(browser, t, options, PROFILES);
        await account(page).click();
        await page.getByRole("button", { name: "Sign out" }).click();
        await page.getByRole("heading", { name: "Sign in to this hive" }).waitFor();
        assert.equal(await page.evaluate(() => localStorage.getItem("skep.key")), null);
        await page.reload();
        await page.getByRole("heading", { name: "Sign in to this hive" }).waitFor();
        faultless(page, /status of 401/);
    });
}

/** The browser as a person allows it; what it is told to show is remembered. */
async function stub(context) {
    await context.addInitScript(() => {
        window.shown = [];
        window.asked = 0;
        window.Notification = class {
            static permission = localStorage.getItem("test.permission") ?? "default";
            static async requestPermission() {
                window.asked += 1;
                localStorage.setItem("test.permission", "granted");
                return (window.Notification.permission = "granted");
            }
            constructor(title, { body }) {
                window.shown.push(`${title}: ${body}`);
                window.last = this;
            }
            close() {}
        };
        let hidden = false;
        Object.defineProperty(document, "hidden", { get: () => hidden });
        window.hide = (now) => void (hidden = now);
    });
}

test("a person who looks elsewhere is told that something waits or has ended", async (t) => {
    const { mine, model, page } = await withModel(browser, t, {}, {
        "teams/main/config.yaml":
            "allowed_tools: [bash]\npolicy: [{effect: ask, tool: bash}]\n",
    });
    await stub(mine);
    await page.reload();
    await talk(page);
    assert.equal(await page.evaluate(() => window.asked), 0, "never asked for on its own");
    await account(page).click();
    await notifications(page).check();
    assert.equal(await page.evaluate(() => window.asked), 1);
    await page.keyboard.press("Escape");
    // Seen: nothing to tell.
    model.push(says("first"));
    await say(page, "one");
    await answered(page, "first");
    assert.deepEqual(await page.evaluate(() => window.shown), []);
    await page.evaluate(() => window.hide(true));
    model.push(call("bash", { command: "make deploy" }));
    model.push(says("second"));
    await say(page, "two");
    const told = (text) => page.waitForFunction((text) => window.shown.includes(text), text);
    await told("main needs approval: Tool call: bash");
    await page.evaluate(() => window.last.onclick());
    await page.getByRole("heading", { name: "main wants to run make deploy" }).waitFor();
    await page.getByRole("button", { name: /^Deny/ }).click();
    await told("main has answered: ");
    await page.evaluate(() => window.last.onclick());
    await said(page, "second");
    // After a reload it is on without a question; off is off.
    await page.reload();
    await account(page).click();
    await becomes(() => notifications(page).isChecked(), true);
    await notifications(page).uncheck();
    assert.equal(await page.evaluate(() => localStorage.getItem("skep.notify")), null);
    faultless(page);
});

const CHEAP = ({ url }) =>
    `  cheap: {provider: anthropic, model: claude-haiku, api_url: "${url}", ` +
    "api_key: key-of-a-journey, max_output_tokens: 4000}\n";

for (const [where, options] of Object.entries(SIZES)) {
    test(`model and thinking are chosen in the composer ${where}`, async (t) => {
        const { model, page } = await withModel(browser, t, options, {}, CHEAP);
        const picker = page.locator("summary[aria-label^='Model and thinking']");
        await talk(page);
        model.push(says("first"));
        await say(page, "one");
        await answered(page, "first");
        await picker.getByText("claude-sonnet-4-5").waitFor();
        await page.reload();
        await picker.click();
        await page.locator(".pop:visible label", { hasText: "claude-haiku" }).click();
        await picker.getByText("claude-haiku").waitFor();
        await page.locator(".pop:visible label", { hasText: "Low" }).click();
        await picker.getByText("claude-haiku · thinking low").waitFor();
        await accessible(page, `model picker ${where}`);
        await picture(page, `picker-${where.replaceAll(" ", "-")}`);
        await page.keyboard.press("Escape");
        model.push(says("second"));
        await say(page, "two");
        await said(page, "second");
        assert.equal(model.requests.at(-1).model, "claude-haiku");
        assert.ok(model.requests.at(-1).thinking, "it thinks");
        await page.reload();
        await picker.getByText("claude-haiku · thinking low").waitFor();
        faultless(page);
    });
}

test("the dashboard can be installed", async (t) => {
    const { hive, page } = await sign(browser, t, {}, PROFILES);
    const manifest = await fetch(`${hive.url}/manifest.webmanifest`);
    assert.equal(manifest.headers.get("content-type"), "application/manifest+json");
    const { icons } = await manifest.json();
    for (const { src, type } of icons) {
        const icon = await fetch(hive.url + src);
        assert.equal(icon.headers.get("content-type"), type, src);
    }
    const session = await page.context().newCDPSession(page);
    const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
    const errors = installabilityErrors.map((one) => one.errorId);
    assert.deepEqual(errors.filter((one) => one !== "in-incognito"), []);
    faultless(page);
});
