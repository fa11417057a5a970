// Workspace files: from the conversation to what it changed, to every other file, and back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, context, faultless, launch, open, picture } from "./browser.mjs";
import { call, say as says } from "./model.mjs";
import { say, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const DOT =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PRICES = '# Prices in euro\n\n[winter]\nfrom_night = 4\nname = "Winter room"\nnight = 18.00\n';
const HOSTILE = "<img src=x onerror=alert(1)>\u202Etxt.exe";

const list = (page) => page.getByRole("complementary", { name: "Files" });
const content = (page) => page.getByRole("region", { name: "Content" });
const row = (page, name) => list(page).getByRole("link", { name });
/** Where there is no room beside it, the list is a page of its own. */
async function back(page, where) {
    if (where !== "on a desktop") await page.getByRole("link", { name: "All files" }).click();
    await list(page).waitFor();
}

/** Nothing but the content is wider than the window. */
const fits = (page) =>
    page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);

for (const [where, size] of Object.entries(SIZES)) {
    test(`files of a conversation and of the workspace, ${where}`, async (t) => {
        const { hive, mine, model, page } = await withModel(browser, t, size);
        await mine.grantPermissions(["clipboard-read", "clipboard-write"]);
        hive.write("teams/main/work/prices.toml", PRICES);
        hive.write("teams/main/work/notes/week-47.md", "# Week 47\n");
        hive.write(`teams/main/work/notes/${HOSTILE}`, "</pre><script>alert(1)</script>");
        hive.write("teams/main/work/site/index.html", "<h1>Hut</h1>");
        hive.write("teams/main/work/dot.png", Buffer.from(DOT, "base64"));
        hive.write("teams/main/work/data.bin", "\0\0\0");
        const old = "from_night = 4";
        const fresh = "from_night = 3\ndiscount = 0.10";
        model.push(call("edit", { file_path: "prices.toml", old_string: old, new_string: fresh }));
        model.push(call("write", { file_path: "notes/new.md", content: "new\n" }));
        model.push(says("Both are written."));
        await talk(page);
        await say(page, "Winter price list.");
        await page.locator(".after").nth(2).waitFor();

        await page.getByLabel("Conversation menu").click();
        await page.getByRole("button", { name: "Workspace files" }).click();
        await page.getByRole("heading", { name: /^Changed in “.*price list.*”$/i }).waitFor();
        await accessible(page, "the list of files");
        await fits(page);
        await row(page, /notes\/new\.md\s*new/).waitFor();
        await row(page, /prices\.toml\s*\+2 −1/).click();

        // What the conversation changed in it comes first.
        await page.getByRole("heading", { level: 1, name: "prices.toml" }).waitFor();
        await content(page).locator(".diff .a", { hasText: "discount" }).waitFor();
        assert.deepEqual(await content(page).locator(".diff .d > span").allTextContents(), [old]);
        await page.getByText("2 lines added, 1 removed").waitFor();
        await page.getByText(/^Changed .* by main in /).waitFor();
        await accessible(page, "changes of a file");
        await fits(page);
        await picture(page, `files-${size.viewport?.width ?? "light"}`);
        await page.getByText("File", { exact: true }).click();
        await content(page).locator(".in-comment", { hasText: "# Prices in euro" }).waitFor();
        const now = PRICES.replace(old, fresh);
        await page.getByText(`7 lines, ${Buffer.byteLength(now)} B`).waitFor();
        await page.getByRole("button", { name: "Copy" }).click();
        await page.getByRole("button", { name: "Copied" }).waitFor();
        const copied = await page.evaluate(() => navigator.clipboard.readText());
        assert.equal(copied, now);
        await accessible(page, "a file");
        await fits(page);
        await picture(page, `file-${size.viewport?.width ?? "light"}`);
        const saved = page.waitForEvent("download");
        await page.getByRole("button", { name: "Download" }).click();
        assert.equal((await saved).suggestedFilename(), "prices.toml");

        // Every other file: by the tree and by the filter. Names and words are never markup.
        await back(page, where);
        await list(page).locator("summary", { hasText: "notes" }).click();
        await row(page, /‹U\+202E›txt\.exe/).click();
        await content(page).getByText("</pre><script>alert(1)</script>").waitFor();
        await back(page, where);
        await page.getByRole("searchbox", { name: "Filter files" }).fill("index");
        await row(page, /site\/index\.html\s*12 B/).click();
        await content(page).getByText("<h1>Hut</h1>").waitFor();
        await back(page, where);
        await page.getByRole("searchbox", { name: "Filter files" }).fill("nothing like it");
        await list(page).getByText("No files.").waitFor();
        await page.getByRole("searchbox", { name: "Filter files" }).fill("");
        await row(page, /dot\.png\s*70 B/).click();
        await content(page).getByRole("img", { name: "dot.png" }).waitFor();
        await back(page, where);
        await row(page, /data\.bin\s*3 B/).click();
        await page.getByRole("heading", { name: "Not a text file" }).waitFor();
        await accessible(page, "a file that is not text");
        faultless(page);
    });
}

test("a file is opened and left with the keyboard, and follows the agent", async (t) => {
    const { hive, model, page } = await withModel(browser, t, { colorScheme: "dark" });
    hive.write("teams/main/work/notes/a.md", "one\n");
    model.push(call("write", { file_path: "notes/b.md", content: "first\n" }));
    model.push(says("Written."));
    await talk(page);
    await say(page, "Write b.");
    await page.getByRole("heading", { name: "Files changed (1)" }).waitFor();
    await page.getByRole("link", { name: "All workspace files" }).press("Enter");
    const folder = list(page).locator("summary", { hasText: "notes" });
    await folder.press("Enter");
    await row(page, /^a\.md\s*4 B/).press("Enter");
    await content(page).getByText("one").waitFor();
    await row(page, /notes\/b\.md\s*new/).press("Enter");
    await content(page).locator(".diff .a", { hasText: "first" }).waitFor();
    // While the file is open the agent writes it again: it and its row follow, and stay in place.
    model.push(call("write", { file_path: "notes/b.md", content: "second\n" }));
    model.push(call("write", { file_path: "notes/c.md", content: "more\n" }));
    model.push(says("Written again."));
    await hive.skep("send", "main", "Write b and c.", "--wait");
    await content(page).locator(".diff .a", { hasText: "second" }).waitFor();
    await row(page, /notes\/c\.md\s*new/).waitFor();
    await row(page, /^c\.md\s*5 B/).waitFor();
    assert.ok(await folder.evaluate((it) => it.parentElement.open), "the folder stays open");
    await page.getByRole("radio", { name: "Changes" }).press("ArrowLeft");
    await content(page).locator(".lines", { hasText: "second" }).waitFor();
    await accessible(page, "dark");
    await picture(page, "files-dark");
    await page.goBack();
    await content(page).getByText("one").waitFor();
    faultless(page);
});

test("what cannot be read says why; who may not read files sees the changes alone", async (t) => {
    const { hive, model, page } = await withModel(browser, t);
    hive.write("teams/main/work/a.md", "one\n");
    await page.goto(`${hive.url}/#/files/main?path=gone.md`);
    await page.getByRole("heading", { name: "This file cannot be shown" }).waitFor();
    await page.getByText("There is no gone.md in the workspace").waitFor();
    await page.goto(`${hive.url}/#/files/main?path=../config.yaml`);
    await page.getByText("../config.yaml is not inside the workspace").waitFor();
    await accessible(page, "a file that is not there");
    faultless(page, /status of 40[34]/);

    model.push(call("write", { file_path: "b.md", content: "hers\n" }));
    model.push(says("Written."));
    const { link } = await hive.skep("link", "--role", "user", "--name", "Anna");
    const theirs = await context(browser);
    t.after(() => theirs.close());
    const anna = await open(theirs, link);
    await talk(anna);
    await say(anna, "Write b.");
    await anna.getByRole("link", { name: /^Write b/ }).click();
    await anna.getByRole("link", { name: "b.md" }).click();
    await content(anna).locator(".diff .a", { hasText: "hers" }).waitFor();
    await row(anna, /b\.md\s*new/).waitFor();
    assert.equal(await anna.getByRole("heading", { name: "All files" }).count(), 0);
    assert.equal(await anna.getByRole("button", { name: "Download" }).count(), 0);
    await accessible(anna, "without the right to read files");
});
