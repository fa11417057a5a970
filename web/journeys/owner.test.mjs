// What somebody wrote is theirs: whoever signs in next in the same browser neither sees nor sends it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AWAY, faultless, launch, open } from "./browser.mjs";
import { script } from "./hive.mjs";
import { Model, say as says } from "./model.mjs";
import { answered, becomes, composer, say, start, talk } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

async function signing(t, files) {
    const { hive, mine } = await start(browser, t, {}, files);
    const link = async (...who) => (await hive.skep("link", ...who)).link;
    const user = (name) => link("--role", "user", "--name", name);
    return { hive, mine, link, user };
}

const named = (page, who) => page.locator(".nav").getByText(who, { exact: true }).first().waitFor();

test("a draft and a message on its way stay with who wrote them", async (t) => {
    const { hive, mine, user } = await signing(t);
    const page = await open(mine, await user("Ann"));
    await named(page, "Ann (user)");
    await page.goto(`${hive.url}/#/chat/main?key=other`);
    await composer(page).fill("A secret draft of Ann.");
    await talk(page);
    await page.goto(`${hive.url}/#/chat/main`);
    await page.waitForFunction(() => document.querySelector(".compose textarea")?.value === "");
    await hive.kill();
    await page.getByText("Disconnected").first().waitFor();
    await say(page, script("say Sent for Ann."));
    await page.waitForFunction(() => JSON.stringify(sessionStorage).includes("Sent for Ann"));
    await page.goto("about:blank");
    await hive.up();

    await page.goto(await user("Bob"));
    await named(page, "Bob (user)");
    await page.getByText(/Live, event/).waitFor();
    for (const key of ["main", "other"]) {
        await page.goto(`${hive.url}/#/chat/main?key=${key}`);
        await page.getByText("No messages yet").waitFor();
        await becomes(() => composer(page).inputValue(), "");
    }
    assert.deepEqual((await hive.skep("inbox")).items, []);

    await page.goto("about:blank");
    await page.goto(await user("Ann"));
    await named(page, "Ann (user)");
    await page.goto(`${hive.url}/#/chat/main?key=other`);
    await page.waitForFunction(
        () => document.querySelector(".compose textarea")?.value === "A secret draft of Ann.",
    );
    await page.goto(`${hive.url}/#/chat/main`);
    await answered(page, "Sent for Ann.");
    assert.equal((await hive.skep("inbox")).items.length, 1);
    faultless(page, AWAY);
});

test("a user begins conversations, reads answers as they come and regenerates them", async (t) => {
    const model = await Model.start();
    t.after(() => model.end());
    const { mine, user } = await signing(t, { "providers.yaml": model.profiles() });
    const page = await open(mine, await user("dora"));
    await named(page, "dora (user)");
    const rows = () => page.locator(".stream .say").allTextContents();
    const listed = () => page.locator(".side > details > ul > li > a > b").allTextContents();
    const regenerate = page.getByRole("button", { name: "Regenerate" });
    await talk(page);
    model.push(says("One row of pines."));
    await say(page, "Describe the first garden.");
    await answered(page, "One row of pines.");
    await becomes(listed, ["Describe the first garden"], "one entry");
    const below = page.locator(".side a[aria-current=page] > span");
    await becomes(() => below.textContent(), /^main · \d\d:\d\d$/);
    await page.getByRole("button", { name: "New conversation" }).first().click();
    await page.getByText("No messages yet").waitFor();
    model.push(says("Two beds of roses."));
    await say(page, "Describe the second garden.");
    await answered(page, "Two beds of roses.");
    await becomes(listed, ["Describe the second garden", "Describe the first garden"]);
    await becomes(() => page.locator(".who b").allTextContents(), ["You", "main"]);
    assert.doesNotMatch(page.url(), /dora/);
    model.push(says("Two beds of tulips."));
    await regenerate.click();
    await becomes(rows, ["Describe the second garden.", "Two beds of tulips."]);
    // From the list, where its session is named.
    await page.getByRole("link", { name: /Describe the first garden/ }).click();
    await answered(page, "One row of pines.");
    model.push(says("One row of oaks."));
    await regenerate.click();
    await becomes(rows, ["Describe the first garden.", "One row of oaks."]);
    await becomes(listed, ["Describe the first garden", "Describe the second garden"]);
    faultless(page);
});

test("a tab whose person is no longer signed in becomes the other's", async (t) => {
    const { mine, link, user } = await signing(t);
    const first = await open(mine, await user("Eve"));
    await talk(first);
    await composer(first).fill("A draft of Eve.");
    const second = await open(mine, await link());
    await named(second, "operator");
    await named(first, "operator");
    await talk(first);
    await becomes(() => composer(first).inputValue(), "");
});

test("a tab that did not notice sends nothing under another name", async (t) => {
    const { hive, mine, link, user } = await signing(t);
    const first = await open(mine, "about:blank");
    await first.addInitScript(() =>
        addEventListener("storage", (event) => event.stopImmediatePropagation(), true),
    );
    await first.goto(await user("Eve"));
    await talk(first);
    const second = await open(mine, await link());
    await named(second, "operator");
    await say(first, "From the tab that says Eve.");
    await first.getByText("Not sent:").waitFor();
    await becomes(() => composer(first).inputValue(), "From the tab that says Eve.");
    assert.deepEqual((await hive.skep("inbox")).items, []);
    await second.reload();
    await named(second, "operator");
});
