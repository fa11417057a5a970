// The first run in the browser: from no key to the first real answer; providers later on.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { Model, say } from "./model.mjs";
import { becomes, composer, said, SIZES, sign } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

/** The browser says so itself when a request is refused. */
const REFUSED = /Failed to load resource: the server responded with a status of 409/;
const KEY = "sk-of-a-journey-0123456789";

async function vendor(t) {
    const model = await Model.start();
    t.after(() => model.end());
    return model;
}

const fill = (page, name, text) => page.getByLabel(name, { exact: true }).fill(text);
const save = (page) => page.getByRole("button", { name: "Test and save" }).click();

for (const [where, options] of Object.entries(SIZES)) {
    test(`from no key to the first real answer ${where}`, async (t) => {
        const model = await vendor(t);
        const { hive, page } = await sign(browser, t, options);
        await page.getByRole("heading", { level: 1, name: "Add a model provider" }).waitFor();
        await page.getByText("does not understand what you write").waitFor();
        await accessible(page, `first run ${where}`);
        await picture(page, `first-run-${where.replaceAll(" ", "-")}`);

        // Nothing is sent that cannot be right.
        await save(page);
        await page.getByRole("alert").filter({ hasText: "Enter the key." }).waitFor();
        // A wrong key: why, and everything that was typed, to be corrected.
        model.pushError(401, "authentication_error", `invalid x-api-key: wrong-${KEY}`);
        await fill(page, "Address", model.url);
        await fill(page, "Model", "claude-of-a-journey");
        await fill(page, "Key", `wrong-${KEY}`);
        await save(page);
        await page.getByRole("alert").filter({ hasText: "Not saved." }).waitFor();
        const why = await page.getByRole("alert").textContent();
        assert.match(why, /401/);
        assert.match(why, /Not saved\.$/);
        assert.ok(!why.includes(KEY), why);
        const kept = await page.getByLabel("Key", { exact: true }).inputValue();
        assert.equal(kept, `wrong-${KEY}`);
        const typed = await page.getByLabel("Model", { exact: true }).inputValue();
        assert.equal(typed, "claude-of-a-journey");
        await accessible(page, `a refused key ${where}`);
        await picture(page, `first-run-refused-${where.replaceAll(" ", "-")}`);

        model.push(say("ok"));
        await fill(page, "Key", KEY);
        await save(page);
        await page.getByText("Saved. claude-of-a-journey answered in").waitFor();
        await page.getByText("Answered by claude-of-a-journey").waitFor();
        await page.getByText("main answers with claude-of-a-journey").waitFor();
        await page.getByText("No provider key is set").waitFor({ state: "detached" });
        await becomes(() => page.getByLabel("Key", { exact: true }).inputValue(), "");
        assert.ok(hive.read("keys.env").includes(`\nSKEP_KEY_DEFAULT=${KEY}\n`));
        assert.ok(!(await page.content()).includes(KEY));

        model.push(say("Your first **real** answer."));
        await page.getByRole("button", { name: /^What can you do/ }).click();
        await said(page, "Your first real answer");
        // Home is Home from now on.
        await page.goto(`${hive.url}/#/`);
        await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
        faultless(page, REFUSED);
    });
}

test("the rehearsal model will do, and a provider is added later", async (t) => {
    const model = await vendor(t);
    const { hive, page } = await sign(browser, t);
    await page.getByRole("link", { name: "Continue with the rehearsal model" }).click();
    await composer(page).waitFor();
    await page.getByRole("link", { name: "Home" }).first().click();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();

    await page.getByRole("link", { name: "Models" }).first().click();
    await page.getByText("key: none").waitFor();
    model.push(say("ok"));
    await fill(page, "Address", model.url);
    await fill(page, "Key", KEY);
    await save(page);
    await page.getByText("key: keys.env").waitFor();
    // The same name again replaces it, if that is meant.
    const replace = page.getByRole("dialog", { name: "Replace profile" });
    await fill(page, "Name", "default");
    await fill(page, "Key", KEY);
    await save(page);
    await replace.getByText("used by main").waitFor();
    await replace.getByRole("button", { name: "Cancel" }).click();
    // A key never goes to a vendor that nobody named.
    await page.getByLabel("Type", { exact: true }).selectOption("server");
    await fill(page, "Model", "llama");
    await save(page);
    await page.getByRole("alert").filter({ hasText: "Enter the address." }).waitFor();
    await page.getByLabel("Type", { exact: true }).selectOption("anthropic");
    model.push(say("ok"));
    await page.getByRole("button", { name: "Test default" }).click();
    await page.locator(".profiles").getByText("answered in").waitFor();
    // A second one has a name of its own.
    model.push(say("ok"));
    await fill(page, "Name", "cheap");
    await fill(page, "Address", model.url);
    await fill(page, "Model", "claude-haiku");
    await fill(page, "Key", `${KEY}-2`);
    await save(page);
    await page.locator(".profiles", { hasText: "claude-haiku" }).waitFor();
    assert.match(hive.read("providers.yaml"), /\n {2}cheap: \{"provider":"anthropic"/);
    await accessible(page, "models");
    await picture(page, "models-light");

    // Its model is changed; key and address stay.
    model.push(say("ok"));
    await page.getByRole("button", { name: "Edit cheap" }).click();
    await page.getByRole("heading", { name: "Edit cheap" }).waitFor();
    assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "claude-haiku");
    await fill(page, "Model", "claude-haiku-2");
    await accessible(page, "a profile that is edited");
    await picture(page, "models-edit-light");
    await save(page);
    await page.locator(".profiles", { hasText: "claude-haiku-2" }).waitFor();
    assert.equal(model.requests.at(-1).model, "claude-haiku-2");
    assert.ok(hive.read("keys.env").includes(`${KEY}-2`));
    await page.getByRole("heading", { name: "Add a provider" }).waitFor();

    // One that is used stays; one that is not goes, with its key.
    const dialog = page.getByRole("dialog", { name: "Delete profile" });
    await page.getByRole("button", { name: "Delete default" }).click();
    await dialog.getByText("It is used by main").waitFor();
    await becomes(() => dialog.getByRole("button", { name: "Delete" }).count(), 0);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Delete cheap" }).click();
    await accessible(page, "a profile is deleted");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.locator(".profiles", { hasText: "claude-haiku" }).waitFor({ state: "detached" });
    assert.ok(!hive.read("keys.env").includes(`${KEY}-2`));
    assert.ok(hive.read("keys.env").includes(KEY));
    faultless(page, REFUSED);
});

test("a viewer is not asked for a provider", async (t) => {
    const { hive, page } = await sign(browser, t);
    const { link } = await hive.skep("link", "--role", "viewer", "--name", "Vera");
    await page.context().clearCookies();
    await page.goto("about:blank");
    await page.goto(link);
    await page.getByRole("heading", { level: 1, name: "Nothing needs attention" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Models" }).count(), 0);
    faultless(page);
});
