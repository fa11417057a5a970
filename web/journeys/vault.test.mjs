// Vault & access: an entry is added, changed and removed, the key rotated, secrets moved out of
// files, a token revoked; and no value is ever on the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { becomes, SIZES, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const VALUE = "value-of-a-journey-0123456789";
const OTHER = "other-of-a-journey-0123456789";
const rows = (page) => page.locator("tbody tr");
const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const fill = (page, name, text) => page.getByLabel(name, { exact: true }).fill(text);

for (const [where, options] of Object.entries(SIZES)) {
    test(`an entry from its first value to its end ${where}`, async (t) => {
        const { hive, page } = await withModel(browser, t, options);
        await page.goto(`${hive.url}/#/vault`);
        await page.getByText("No entries yet.").waitFor();
        await accessible(page, `empty vault ${where}`);
        await press(page, "Add entry");
        await fill(page, "Name", "GITHUB");
        await page.getByLabel("Scope").selectOption("main");
        await fill(page, "Allowed hosts, one per line", "not a host!");
        await fill(page, "Value", VALUE);
        await press(page, "Save");
        await page.getByRole("alert").waitFor();
        await fill(page, "Allowed hosts, one per line", "api.github.com\nuploads.github.com");
        await accessible(page, `a vault entry ${where}`);
        await press(page, "Save");
        await rows(page).filter({ hasText: "api.github.com, uploads.github.com" }).waitFor();
        await picture(page, `vault-${where.replaceAll(" ", "-")}`);

        // The hosts change and the value stays.
        await press(page, "Edit GITHUB of main");
        await fill(page, "Allowed hosts, one per line", "api.github.com");
        await press(page, "Save");
        await rows(page).filter({ hasText: /api\.github\.com(?!,)/ }).waitFor();
        const before = (await hive.skep("vault", "list")).key;
        if (where === "on a desktop") {
            await press(page, "Rotate vault key…");
            await press(page, "Rotate");
            await becomes(async () => (await hive.skep("vault", "list")).key !== before, true);
        }
        // What is there is not replaced unless that is asked for.
        await press(page, "Add entry");
        await fill(page, "Name", "GITHUB");
        await page.getByLabel("Scope").selectOption("main");
        await fill(page, "Value", OTHER);
        await press(page, "Save");
        await page.getByText("GITHUB is there already, for the agent main.").waitFor();
        const set = async () => (await hive.skep("vault", "list")).entries[0].set_at;
        const first = await set();
        await accessible(page, `a name that is taken ${where}`);
        await picture(page, `vault-taken-${where.replaceAll(" ", "-")}`);
        await press(page, "Replace value");
        await becomes(async () => (await set()) > first, true);
        await rows(page).filter({ hasText: /api\.github\.com(?!,)/ }).waitFor();

        await press(page, "Edit GITHUB of main");
        await press(page, "Delete…");
        await page.getByText("The value cannot be brought back.").waitFor();
        await accessible(page, `before an entry is deleted ${where}`);
        await press(page, "Cancel");
        assert.equal((await hive.skep("vault", "list")).entries.length, 1);
        await press(page, "Edit GITHUB of main");
        await press(page, "Delete…");
        await press(page, "Delete");
        await page.getByText("No entries yet.").waitFor();
        const html = await page.content();
        assert.ok(!html.includes(VALUE) && !html.includes(OTHER), "a value is on the page");
        faultless(page, /status of 4(00|09)/);
    });
}

test("secrets are moved out of files, and a token is revoked", async (t) => {
    const profiles = ({ url }) =>
        `  other: {provider: anthropic, model: m, api_url: "${url}", api_key: ${OTHER}}\n`;
    const { hive, page } = await withModel(browser, t, {}, {}, profiles);
    await hive.skep("token", "new", "laptop");
    await page.goto(`${hive.url}/#/vault`);
    await press(page, "Scan now");
    await rows(page).filter({ hasText: "providers.yaml" }).first().waitFor();
    await picture(page, "vault-scan");
    await press(page, "Move to vault");
    const moved = rows(page).filter({ hasText: "profile.other.api_key" });
    await moved.filter({ hasText: "profile other" }).waitFor();
    await press(page, "Revoke laptop");
    await press(page, "Revoke");
    await page.getByRole("button", { name: "Revoke laptop" }).waitFor({ state: "detached" });
    assert.ok(!hive.read("providers.yaml").includes(OTHER));
    await press(page, "Scan now");
    await page.getByText("Nothing found in").waitFor();
    faultless(page);
});
