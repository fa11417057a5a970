// What is written and not sent belongs to its conversation: no other one shows it or gets it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { answered, becomes, composer, said, sign, SIZES, talk, visit } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const HOME = { "teams/cto/config.yaml": "description: another agent\n" };
const banner = (page) => page.getByText("Edit and fork: sends the edited message");

/** A conversation at the side, by the key that stands below its name. */
async function go(page, key) {
    const menu = page.getByRole("button", { name: "Agents and conversations" });
    if (await menu.isVisible()) await menu.click();
    await page.locator(".side a", { hasText: `${key} · ` }).click();
    await page.locator(".side a[aria-current=page]", { hasText: `${key} · ` }).waitFor({
        state: "attached",
    });
}

async function written(page, text) {
    await page.waitForFunction(
        (text) => document.querySelector(".compose textarea")?.value === text,
        text,
    );
}

for (const [where, size] of Object.entries(SIZES)) {
    test(`two conversations with drafts, ${where}`, async (t) => {
        const { hive, page } = await sign(browser, t, size, HOME);
        await hive.skep("send", "main", script("say In the first."), "--wait");
        const other = ["--session", "second", "--wait"];
        await hive.skep("send", "main", script("say In the second."), ...other);
        await talk(page);
        await said(page, "In the first.");
        await composer(page).fill(script("say Written in the first."));

        await go(page, "second");
        await said(page, "In the second.");
        await written(page, "");
        await composer(page).fill(script("say Written in the second."));
        await page.goto(`${hive.url}/#/chat/cto`);
        await page.getByRole("textbox", { name: "Message to cto" }).waitFor();
        await written(page, "");
        await page.getByRole("textbox", { name: "Message to cto" }).fill("For cto alone.");
        await visit(page, "Usage");
        await page.getByRole("heading", { level: 1 }).waitFor();
        await page.getByRole("link", { name: "Chat" }).locator("visible=true").click();
        await written(page, "For cto alone.");

        await page.goto(`${hive.url}/#/chat/main`);
        await written(page, script("say Written in the first."));
        await page.reload();
        await said(page, "In the first.");
        await written(page, script("say Written in the first."));
        await page.locator(".side i", { hasText: "draft" }).nth(1).waitFor({ state: "attached" });

        // An edited message keeps what it is an edit of, wherever one goes meanwhile.
        await page.getByRole("button", { name: "Edit and fork" }).click();
        await page.getByRole("button", { name: "Cancel" }).click();
        await written(page, script("say Written in the first."));
        await page.getByRole("button", { name: "Edit and fork" }).click();
        await banner(page).waitFor();
        await composer(page).fill(script("say Forked."));
        await go(page, "second");
        await written(page, script("say Written in the second."));
        await becomes(() => banner(page).count(), 0);
        await go(page, "main");
        await banner(page).waitFor();
        await written(page, script("say Forked."));
        await page.reload();
        await banner(page).waitFor();
        await written(page, script("say Forked."));
        await accessible(page, "a draft of a fork");
        await picture(page, `draft-${size.viewport?.width ?? "light"}`);

        await go(page, "second");
        await written(page, script("say Written in the second."));
        await composer(page).press("Enter");
        await answered(page, "Written in the second.");
        await written(page, "");
        await go(page, "main");
        await written(page, script("say Forked."));
        await composer(page).press("Enter");
        await page.waitForURL(/fork/);
        await answered(page, "Forked.");
        await go(page, "main");
        await written(page, script("say Written in the first."));
        const { items } = await hive.skep("inbox");
        const sent = items.map((item) => {
            const key = item.session_key.replace(/^fork:.*/, "fork");
            return [item.agent, key, item.preview.split("say ")[1].trim()];
        });
        assert.deepEqual(sent, [
            ["main", "fork", "Forked."],
            ["main", "second", "Written in the second."],
            ["main", "second", "In the second."],
            ["main", "main", "In the first."],
        ]);
        faultless(page);
    });
}
