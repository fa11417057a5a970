// Log & audit: what was done and who let it, whether the trail holds, what nobody knows, and the
// log as it grows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { accessible, AWAY, faultless, launch, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { answered, becomes, say, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const HOME = { "teams/main/config.yaml": "allowed_tools: [read, bash]\n" };
const open = (t, options) => withModel(browser, t, options, HOME);
const logPage = (page) => page.getByRole("link", { name: "Log & audit" }).first();
const rows = (page) => page.locator(".audit-row");

test("each call has its row with the whole chain, live, and the trail holds", async (t) => {
    const { hive, model, page } = await open(t);
    await logPage(page).click();
    await page.getByRole("heading", { name: "Tool calls and decisions" }).waitFor();
    model.push(
        call("read", { file_path: "welcome.md" }),
        call("write", { file_path: "Cargo.lock", content: "x" }),
    );
    model.push(says("One of two."));
    await hive.skep("send", "main", "Read and write.", "--wait");
    await rows(page).filter({ hasText: "welcome.md" }).waitFor();
    const refused = rows(page).filter({ hasText: "Cargo.lock" });
    await refused.locator("summary").click();
    await becomes(() => refused.locator(".trace").innerText(), /^allow-list/);
    const kind = page.getByRole("combobox", { name: "What" });
    await kind.selectOption("change");
    // The row is there before, among the others.
    await becomes(() => rows(page).count(), 1);
    await rows(page).filter({ hasText: "operator signed in with a browser" }).waitFor();
    await kind.selectOption("call");
    await becomes(() => rows(page).count(), 2);
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("refused");
    await becomes(() => rows(page).count(), 1);
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("");
    await becomes(() => rows(page).count(), 2);

    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText(/\d+ rows, the chain holds/).waitFor();
    const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Export" }).click(),
    ]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n").map(JSON.parse);
    const tools = lines.filter((row) => row.kind === "call").map((row) => row.tool);
    assert.deepEqual(tools.sort(), ["read", "write"]);
    await rows(page).filter({ hasText: "Cargo.lock" }).locator("summary").click();
    await accessible(page, "audit");
    await picture(page, "audit-light");
    faultless(page);
});

test("a tool card leads to its decision chain", async (t) => {
    const { model, page } = await open(t);
    model.push(call("read", { file_path: "welcome.md" }));
    model.push(says("Read."));
    await talk(page);
    await say(page, "Read it.");
    await answered(page, "Read.");
    await page.locator(".tool summary", { hasText: "welcome.md" }).click();
    await page.getByRole("link", { name: "Decision chain" }).click();
    await page.waitForURL(/#\/log\/audit\?turn=/);
    await rows(page).filter({ hasText: "welcome.md" }).waitFor();
    faultless(page);
});

test("a call that a crash left open is named as what it is, and somebody says it", async (t) => {
    const { hive, model, page } = await open(t);
    model.push(call("bash", { command: "echo begun > begun; sleep 60" }));
    model.push(says("I was not told."));
    await hive.skep("send", "main", "Do it.");
    await hive.until("teams/main/work/begun");
    await hive.kill();
    await hive.up();
    await page.getByRole("heading", { name: "Needs attention (1)" }).waitFor();
    await page.getByText("does not know the outcome of bash").first().waitFor();
    await page.locator(".needs .cmd", { hasText: "echo begun > begun" }).waitFor();
    await page.locator(".needs").getByRole("link", { name: "Open" }).waitFor();
    await picture(page, "home-unknown-light");
    await logPage(page).click();
    await page.getByRole("heading", { name: "Outcome unknown" }).waitFor();
    await page.locator(".unknown .cmd", { hasText: "echo begun > begun" }).waitFor();
    await accessible(page, "unknown outcome");
    await picture(page, "unknown-light");
    await page.getByRole("button", { name: "It happened" }).click();
    await page.getByRole("heading", { name: "Outcome unknown" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: /Home/ }).first().click();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    faultless(page, AWAY);
});

test("the log grows while it is looked at", async (t) => {
    const { hive, model, page } = await open(t);
    await logPage(page).click();
    await page.getByRole("link", { name: "Log", exact: true }).click();
    model.push(says("Noted."));
    await hive.skep("send", "main", "Say it.", "--wait");
    await page.getByRole("log").getByText(/turn ended/).first().waitFor();
    await accessible(page, "log");
    await page.getByRole("combobox", { name: "From level" }).selectOption("error");
    await page.getByText("No lines at this level yet.").waitFor();
    faultless(page);
});

test("log and audit on a phone, in the dark", async (t) => {
    const size = { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: "dark" };
    const { hive, model, page } = await open(t, size);
    model.push(call("read", { file_path: "welcome.md" }));
    model.push(says("Read."));
    await hive.skep("send", "main", "Read it.", "--wait");
    await page.locator(".topbar summary").click();
    await page.locator(".topbar .pop a", { hasText: "Log & audit" }).click();
    await rows(page).first().locator("summary").click();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `nothing sticks out: ${wide}`);
    await accessible(page, "audit on a phone");
    await picture(page, "audit-phone");
    faultless(page);
});
