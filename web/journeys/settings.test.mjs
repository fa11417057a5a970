// The settings of an agent on Team: checked and compared before they are applied; what somebody
// else wrote meanwhile is not overwritten unseen.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { becomes, sign, SIZES } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const FILE = "teams/books/config.yaml";
const FIRST = "# Mine.\nparent: main\ndescription: Keeps the books\nallowed_tools: [read]\n";
const HOME = {
    "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n",
    [FILE]: FIRST,
};
const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const text = (page) => page.getByRole("textbox", { name: `Text of ${FILE}` });
const changes = (page) => page.getByRole("region", { name: `Changes of ${FILE}` });

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`settings are checked, compared and applied ${where}`, async (t) => {
        const colorScheme = size === "phone" ? "dark" : "light";
        const { hive, page } = await sign(browser, t, { ...options, colorScheme }, HOME);
        await page.goto(`${hive.url}/#/team/books/settings`);
        await becomes(() => text(page).inputValue(), FIRST);
        await page.getByText("read (1 tool)").waitFor();
        assert.equal(await page.getByRole("button", { name: "Check" }).count(), 0, "no change yet");

        // A mistake is named with its line, and nothing can be applied.
        await text(page).fill(`${FIRST}bugdets: {cost_per_day: 4}\n`);
        await press(page, "Check");
        await page.getByText(/teams\/books\/config\.yaml:5:1: .*did you mean `budgets`/).waitFor();
        assert.equal(await page.getByRole("button", { name: "Apply" }).count(), 0);
        await page.getByRole("button", { name: "Line 5" }).click();
        const chosen = await text(page).evaluate((area) =>
            area.value.slice(area.selectionStart, area.selectionEnd),
        );
        assert.equal(chosen, "bugdets: {cost_per_day: 4}");
        await accessible(page, `a mistake in settings ${where}`);
        await picture(page, `settings-mistake-${size}`);

        // What differs is shown before it is applied.
        await text(page).fill(`${FIRST.replace("[read]", "[read, grep]")}budgets: {cost_per_day: 4}\n`);
        await press(page, "Check");
        await changes(page).getByText("[read, grep]").waitFor();
        await accessible(page, `changed settings ${where}`);
        await picture(page, `settings-diff-${size}`);
        const { width } = page.viewportSize();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `nothing is out of sight at the side: ${wide}`);
        assert.equal(hive.read(FILE), FIRST, "nothing is written by a check");
        await press(page, "Apply");
        await page.getByText("Saved and in force").waitFor();
        await page.getByText("read grep (2 tools)").waitFor();
        await page.getByText("$4.00 a day").waitFor();
        assert.match(hive.read(FILE), /budgets: \{cost_per_day: 4\}/);
        await page.goto(`${hive.url}/#/team/books`);
        // On a phone the tree, which says it too, is behind the panel.
        const one = page.getByRole("complementary", { name: "books" });
        await one.getByText("$0.00 of $4").waitFor();
        faultless(page);
    });
}

test("what somebody else wrote meanwhile is seen before it is replaced", async (t) => {
    const { hive, page } = await sign(browser, t, {}, HOME);
    await page.goto(`${hive.url}/#/team/books/settings`);
    await becomes(() => text(page).inputValue(), FIRST);
    // Nobody types: the page follows the file.
    const second = FIRST.replace("Keeps the books", "Keeps all books");
    hive.write(FILE, second);
    await becomes(() => text(page).inputValue(), second);

    const mine = second.replace("Keeps all books", "Keeps our books");
    await text(page).fill(mine);
    await press(page, "Check");
    await changes(page).getByText("our").waitFor();
    const third = `${second}max_steps: 7\n`;
    hive.write(FILE, third);
    const changed = page.getByText("The file was changed since you began.");
    await changed.waitFor();
    assert.equal(await text(page).inputValue(), mine, "what is typed stays");
    assert.equal(await page.getByRole("button", { name: "Apply" }).count(), 0, "compared anew");
    await press(page, "Check");
    // The line that mine lacks is seen to go.
    await changes(page).getByText("max_steps: 7").waitFor();
    await accessible(page, "a conflict of settings");
    await picture(page, "settings-conflict");

    // In the last moment: the hive refuses, and what is new is shown.
    const fourth = `${third}manager: false\n`;
    await page.route("**/settings", async (route) => {
        if (route.request().method() === "PUT") hive.write(FILE, fourth);
        await route.continue();
    });
    await press(page, "Apply");
    await changes(page).getByText("manager: false").waitFor();
    assert.equal(hive.read(FILE), fourth);
    await page.unroute("**/settings");

    // It is kept while one looks elsewhere.
    await page.getByRole("link", { name: "Now", exact: true }).click();
    await page.getByText("Nothing is queued.").waitFor();
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    assert.equal(await text(page).inputValue(), mine);
    await changed.waitFor();
    await press(page, "Use the file");
    assert.equal(await text(page).inputValue(), fourth);
    await changed.waitFor({ state: "detached" });
    faultless(page, /status of 409/);
});

test("a broken agent is repaired, and a secret is neither shown nor taken", async (t) => {
    const secret = "sk-ant-api03-" + "Ab3dEf6hIj9lMn2pQr5tUv8x".repeat(4).slice(0, 93) + "AA";
    const { hive, page } = await sign(browser, t, {}, {
        ...HOME,
        "teams/lab/config.yaml": "engine: warp\n",
    });
    await page.goto(`${hive.url}/#/team/lab/settings`);
    await page.getByText(/Not in force: teams\/lab\/config\.yaml:1:9/).waitFor();
    const lab = page.getByRole("textbox", { name: "Text of teams/lab/config.yaml" });
    await lab.fill("description: Experiments\n");
    await press(page, "Check");
    await press(page, "Apply");
    await page.getByText("Saved and in force").waitFor();
    await page.locator("#node-lab .st-idle").waitFor();

    await page.goto(`${hive.url}/#/team/books/settings`);
    await text(page).fill(`${FIRST}# ${secret}\n`);
    await press(page, "Check");
    await page.getByText("The text holds a secret").waitFor();
    await press(page, "Discard");
    // A comment changes no setting: the file is read again when one comes back to the page.
    hive.write(FILE, `${FIRST}# ${secret}\n`);
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.getByText("The file holds a secret, which is not shown.").waitFor();
    assert.equal(await text(page).getAttribute("readonly"), "");
    assert.ok(!(await page.content()).includes(secret));
    assert.ok(!(await text(page).inputValue()).includes(secret));
    faultless(page, /status of 400/);
});
