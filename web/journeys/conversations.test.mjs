// Conversations as a whole: new, rename, pin, archive, export, delete.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, open, picture } from "./browser.mjs";
import { say as says } from "./model.mjs";
import { answered, becomes, said, say, SIZES, talk, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true });
const menu = async (page, words) => {
    await page.getByLabel("Conversation menu").click();
    await page.locator(".pop").getByRole("button", { name: words }).click();
};
/** The list at the side; on a phone it is behind a button. */
async function side(page) {
    const button = page.getByRole("button", { name: "Agents and conversations" });
    if (await button.isVisible()) await button.click();
    return page.getByRole("complementary", { name: "Agents and conversations" });
}
const opened = (page, name) => page.locator(".side a[aria-current=page]", { hasText: name });
/** The names at the side, as they stand in the list that is not archived. */
const names = (page, ...expected) =>
    page.waitForFunction(
        (expected) => {
            const rows = document.querySelectorAll(".side > details > ul > li > a > b");
            return JSON.stringify([...rows].map((row) => row.textContent)) === expected;
        },
        JSON.stringify(expected),
        { polling: 100 },
    );

for (const [where, size] of Object.entries(SIZES)) {
    const width = size.viewport?.width ?? "light";
    test(`rename, pin, archive, delete, ${where}`, async (t) => {
        const { hive, mine, model, page } = await withModel(browser, t, size);
        const send = async (key, text) => {
            model.push(says("Noted."));
            await hive.skep("send", "main", text, "--session", key, "--wait");
        };
        await send("one", "Order mattresses for the winter room.");
        await send("two", "Plan the opening in December.");
        const other = await open(mine, `${hive.url}/#/chat/main?key=two`);
        await heading(other, "Plan the opening in December").waitFor();
        // A page behind another one draws once in a second.
        await page.bringToFront();
        await page.goto(`${hive.url}/#/chat/main?key=one`);
        await heading(page, "Order mattresses for the winter room").waitFor();
        await opened(page, "Order mattresses").waitFor({ state: "attached" });

        await menu(page, "Rename");
        const field = page.getByRole("textbox", { name: "Name of the conversation" });
        await field.fill("Never mind");
        await field.press("Escape");
        await heading(page, "Order mattresses for the winter room").waitFor();
        await page.keyboard.press("F2");
        await field.fill("Mattresses");
        await field.press("Enter");
        await heading(page, "Mattresses").waitFor();
        // Live in the other tab as well.
        await names(other, "Plan the opening in December", "Mattresses");
        await menu(page, "Pin");
        const label = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
        assert.equal(await label(), "Conversation menu", "the focus stays");
        await names(other, "Mattresses", "Plan the opening in December");
        await names(page, "Mattresses", "Plan the opening in December");
        await page.getByLabel("Conversation menu").click();
        await page.locator(".pop").getByRole("button", { name: "Unpin" }).waitFor();
        await accessible(page, "the menu of a conversation");
        await picture(page, `talk-menu-${width}`);
        await page.keyboard.press("Escape");
        const unpin = page.locator(".pop").getByRole("button", { name: "Unpin" });
        await unpin.waitFor({ state: "hidden" });

        const saved = page.waitForEvent("download");
        await menu(page, "Export as Markdown");
        const file = await saved;
        assert.equal(file.suggestedFilename(), "Mattresses.md");
        assert.match(await readFile(await file.path(), "utf8"), /winter room[^]*Noted\./);

        await menu(page, "Archive");
        await page.getByText("Archived. A message moves it out of the archive.").waitFor();
        await names(other, "Plan the opening in December");
        await (await side(page)).getByText("Archived", { exact: true }).click();
        await page.locator(".archive a[aria-current=page]", { hasText: "Mattresses" }).waitFor();
        await picture(page, `archived-${width}`);
        await side(page);
        await menu(page, "Move out of the archive");
        await names(other, "Mattresses", "Plan the opening in December");

        await menu(page, "Delete…");
        const dialog = page.getByRole("dialog", { name: "Delete conversation" });
        await dialog.getByRole("heading", { name: "Delete “Mattresses”?" }).waitFor();
        await dialog.getByText("Deletes 2 messages and their search entries.").waitFor();
        await accessible(page, "the dialog that deletes");
        await picture(page, `delete-${width}`);
        await dialog.getByRole("button", { name: "Cancel" }).click();
        await heading(page, "Mattresses").waitFor();
        await menu(page, "Delete…");
        await dialog.getByRole("button", { name: "Delete" }).click();
        await heading(page, "New conversation").waitFor();
        await names(other, "Plan the opening in December");
        const { sessions } = await hive.skep("session", "list", "main");
        assert.deepEqual(sessions.map((one) => one.session_key), ["two"]);
        faultless(page);
        faultless(other);
    });

    test(`a new conversation begins, all of them are reachable, ${where}`, async (t) => {
        const { hive, model, page } = await withModel(browser, t, size);
        const old = await hive.import(["The oldest one.", "Long ago."]);
        for (let at = 0; at < 10; at++) {
            model.push(says("Noted."));
            const text = `Conversation number ${at}.`;
            await hive.skep("send", "main", text, "--session", `key-${at}`, "--wait");
        }
        await talk(page);
        await heading(page, "New conversation").waitFor();
        await page.goto(`${hive.url}/#/chat/main?session=${old}`);
        await said(page, "Long ago.");
        await opened(page, "The oldest one").waitFor({ state: "attached" });
        const list = await side(page);
        await list.getByRole("button", { name: "Older conversations" }).click();
        await list.getByRole("link", { name: /^Conversation number 0/ }).waitFor();
        await becomes(() => opened(page, "The oldest one").count(), 1);
        await list.getByRole("button", { name: "New conversation" }).click();
        await heading(page, "New conversation").waitFor();
        await page.getByText("No messages yet").waitFor();
        await opened(page, "New conversation").waitFor({ state: "attached" });
        await page.waitForFunction(() => document.activeElement?.matches(".box textarea"));
        await picture(page, `new-talk-${width}`);
        model.push(says("In a new one."));
        await say(page, "Prices of the winter.");
        await answered(page, "In a new one.");
        await heading(page, "Prices of the winter").waitFor();
        await opened(page, "Prices of the winter").waitFor({ state: "attached" });
        assert.equal(await page.locator(".say", { hasText: "Long ago." }).count(), 0);
        faultless(page);
    });
}

test("another answer takes the place of the last one, in every tab", async (t) => {
    const { hive, mine, model, page } = await withModel(browser, t);
    await talk(page);
    for (const number of ["First", "Second"]) {
        model.push(says(`${number} answer.`));
        await say(page, `${number} question.`);
        await said(page, `${number} answer.`);
    }
    const other = await open(mine, `${hive.url}/#/chat/main`);
    await said(other, "Second answer.");
    await page.bringToFront();
    const button = page.getByRole("button", { name: "Regenerate" });
    await button.waitFor();
    assert.equal(await button.count(), 1);
    model.push(says("A better answer."));
    await button.click();
    const keeps = () =>
        page.evaluate(() => {
            const { activeElement: at } = document;
            return at.closest(".stage") !== null && at.textContent !== "";
        });
    await becomes(keeps, true, "the focus stays in the conversation");
    const rows = ["First question.", "First answer.", "Second question.", "A better answer."];
    for (const tab of [page, other]) {
        await tab.bringToFront();
        await tab.waitForFunction(
            (expected) => {
                const rows = document.querySelectorAll(".stream .say");
                return JSON.stringify([...rows].map((row) => row.textContent.trim())) === expected;
            },
            JSON.stringify(rows),
            { polling: 100 },
        );
        faultless(tab);
    }
    await page.bringToFront();
    await button.waitFor();
    const { sessions } = await hive.skep("session", "list", "main");
    assert.deepEqual(
        sessions.map((one) => [one.session_key, one.messages]),
        [["main", 4]],
    );
});
