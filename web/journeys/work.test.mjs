// Work: an organisation watched while it works, on the board, in the graph and on the timeline.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, open, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { becomes, keysDecide, sign } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

/** What the teams say. */
const TEAMS = script(
    "on bootstrap",
    "say Ready.",
    "on task find the colour",
    `call escalate ${JSON.stringify({ message: "Which colour?" })}`,
    "next",
    "say I have asked.",
    "on task print it",
    `call bash ${JSON.stringify({ command: "sleep 0.2; echo printed > book.txt" })}`,
    "next",
    "say It is printed.",
    "on event",
    "say The colour is {{result}}.",
);
const RESEARCH = { name: "research", scope_accepts: ["books"], allowed_tools: ["*"] };
const task = (team, words) => `call delegate_task ${JSON.stringify({ team, task: words })}`;
/** As `main` leads it: a team is made, both have work, a question goes up, all is done. */
const LEAD = script(
    "on message Make a book",
    `call spawn_team ${JSON.stringify(RESEARCH)}`,
    "next",
    "say I have asked for a team.",
    "on approved",
    task("research", "find the colour"),
    task("press", "print it"),
    "next",
    "say They work at it.",
    "on question",
    'call escalate {"message": "{{message}}"}',
    "next",
    "say I have asked the operator.",
    "on event from the operator",
    "say {{result}}",
    "on event 0 of",
    "say All is done: {{result}}",
    "on event",
    "say They work at it.",
);
const HOME = {
    "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n",
    "teams/main/config.yaml": "allowed_tools: ['*']\n",
    "teams/main/team-rules/rehearsal.md": `${LEAD}\n`,
    "teams/main/org-rules/rehearsal.md": `${TEAMS}\n`,
    "teams/press/config.yaml":
        "parent: main\nallowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n",
};

const lane = (page, name) => page.locator(".lane", { has: page.getByRole("heading", { name }) });
const link = (page, name) => page.getByRole("link", { name });
/** What the graph and the list both say; one of them is seen. */
const listed = (page) => page.locator(".lin li");
const lines = async (page) => (await listed(page).allTextContents()).map((line) => line.trim());
const line = (page, ...words) =>
    words.reduce((found, word) => found.filter({ hasText: word }), listed(page));

/** No frame wider than the page. */
async function fits(page) {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= page.viewportSize().width, `nothing is out of sight at the side: ${wide}`);
}

/** Reads what is asked and says yes; then it is back where it was. */
async function approve(page) {
    const from = page.url();
    await link(page, "Review approval").click();
    const yes = page.getByRole("button", { name: /^Approve/ });
    await yes.waitFor();
    await keysDecide(page);
    await yes.click();
    await yes.waitFor({ state: "detached" });
    await page.goBack();
    assert.equal(page.url(), from, "back at the item");
}

const WAYS = {
    "on a desktop": {},
    "in the dark": { colorScheme: "dark" },
    "on a phone": { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: "dark" },
};

for (const [where, options] of Object.entries(WAYS)) {
    const name = where.split(" ").at(-1);
    const phone = name === "phone";
    test(`an organisation is watched at work ${where}`, async (t) => {
        const { hive, page } = await sign(browser, t, options, HOME);
        await link(page, "Work").first().click();
        await page.getByRole("heading", { level: 3, name: "No work yet" }).waitFor();
        await accessible(page, `no work, ${name}`);
        await page.evaluate(() => (window.loadedOnce = true));

        await hive.skep("send", "main", "Make a book about the colour of the sky.");
        const book = lane(page, "Done").getByRole("link", { name: /Make a book/ });
        await book.click();
        await line(page, "operator", "spawn_team research").waitFor({ state: "attached" });
        const root = page.url();
        await accessible(page, `a change to approve, ${name}`);
        await picture(page, `work-asked-${name}`);
        await approve(page);

        // Both have work: one waits for a person, one has asked.
        await line(page, "press", "delegate_task", "print it").waitFor({ state: "attached" });
        const waits = lane(page, "Waiting").getByRole("link", { name: /print it/ });
        await waits.getByText("waiting for approval of bash").waitFor();
        await line(page, "operator", "Which colour?").waitFor({ state: "attached" });
        await waits.click();
        await page.getByRole("heading", { level: 2, name: "print it" }).waitFor();
        await page.locator(".wf li.w", { hasText: "bash approval" }).waitFor();
        await line(page, "approval", "bash", "waiting").waitFor({ state: "attached" });
        await fits(page);
        await accessible(page, `work that waits, ${name}`);
        await picture(page, `work-waits-${name}`);
        await approve(page);
        await page.locator(".wf li.t", { hasText: "bash sleep 0.2" }).waitFor();
        await line(page, "press", "print it", "It is printed.").waitFor({ state: "attached" });

        const asked = (await hive.skep("ask")).questions[0].id;
        await hive.skep("ask", asked, "blue");
        await line(page, "research", "= The colour is blue.").waitFor({ state: "attached" });
        await becomes(() => lane(page, "Waiting").locator("li").count(), 0);
        await becomes(() => lane(page, "Running").locator("li").count(), 0);
        await page.goto(root);
        await page.locator(".picked").waitFor();
        const steps = (await lines(page)).map((text) => text.replace(/\s*\d[\d.:]* ?m?s?$/, ""));
        assert.equal(steps.length, 8, steps.join("\n"));
        assert.ok(await page.evaluate(() => window.loadedOnce), "it was never loaded again");
        if (phone) {
            assert.equal(await page.locator(".graph").isVisible(), false);
        } else {
            const boxes = page.locator(".graph rect");
            assert.equal(await boxes.count(), steps.length, "the picture has the same");
            await page.getByRole("button", { name: "As list" }).click();
            await listed(page).first().waitFor();
            await accessible(page, `the list, ${name}`);
            await page.getByRole("button", { name: "As graph" }).click();
            // By keyboard from one to the next.
            await page.locator(".graph a").first().focus();
            await page.keyboard.press("Tab");
            await page.keyboard.press("Enter");
            await becomes(async () => page.url() === root, false);
            await page.locator(".picked").waitFor();
            await page.goto(root);
        }
        await fits(page);
        await accessible(page, `all is done, ${name}`);
        await picture(page, `work-${name}`);
        await page.goto(`${hive.url}/#/work?view=table&kind=task`);
        await page.getByRole("row").nth(3).waitFor();
        await fits(page);
        await accessible(page, `the table, ${name}`);
        await picture(page, `work-table-${name}`);
        faultless(page);
    });
}

test("work is cancelled and tried again from the page", async (t) => {
    const { hive, page } = await sign(browser, t, {}, HOME);
    await hive.skep("send", "main", script("say I begin.", "wait 600000", "say Done."));
    await link(page, "Work").first().click();
    await lane(page, "Running").getByRole("link").first().click();
    await page.getByRole("button", { name: "Cancel" }).click();
    await lane(page, "cancelled").getByText("cancelled").first().waitFor();
    await page.getByRole("button", { name: "Cancel" }).waitFor({ state: "detached" });
    await page.getByText("Not finished: the turn was stopped.").waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await lane(page, "Running").locator("a[aria-current]").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await becomes(() => lane(page, "cancelled").locator("li").count(), 2);
    // The first says which is the newest.
    await lane(page, "cancelled").locator("li").nth(1).getByRole("link").click();
    await link(page, "Newest try").waitFor();
    await accessible(page, "cancelled work");
    // What failed says why, and a task of an agent is given again by its agent alone.
    await hive.skep("send", "main", script("fail auth"), "--session", "other");
    const failed = lane(page, "cancelled").getByRole("link", { name: /provider rejected the key/ });
    await failed.click();
    await page.getByText("The rehearsal model plays a refused key (profile default).").waitFor();
    faultless(page);
});

test("filters stand in the address", async (t) => {
    const { hive, page } = await sign(browser, t, {}, HOME);
    await hive.skep("send", "main", "Look at the invoice.", "--wait");
    await hive.skep("send", "press", "Look at the paper.", "--wait");
    await link(page, "Work").first().click();
    const done = () => lane(page, "Done").locator("li");
    await becomes(() => done().count(), 2);
    await page.getByRole("combobox", { name: "Agent" }).selectOption("press");
    await becomes(() => done().count(), 1);
    assert.ok(page.url().endsWith("#/work?agent=press"), page.url());
    await link(page, "Tasks").click();
    await page.getByRole("heading", { name: "No such work" }).waitFor();
    await accessible(page, "no such work");
    await link(page, "Show all work").click();
    await becomes(() => done().count(), 2);
    await page.getByRole("searchbox", { name: "Text in work" }).fill("INVOICE");
    await becomes(() => done().count(), 1);
    await link(page, "Table").click();
    await page.getByRole("cell", { name: /Look at the invoice/ }).waitFor();
    await page.getByRole("combobox", { name: "State" }).selectOption("failed");
    await page.getByRole("heading", { name: "No such work" }).waitFor();
    const address = page.url();
    await page.reload();
    await page.getByRole("heading", { name: "No such work" }).waitFor();
    assert.equal(page.url(), address);
    faultless(page);
});

test("a viewer reads work and changes nothing", async (t) => {
    const { hive, mine } = await sign(browser, t, {}, HOME);
    await hive.skep("send", "main", script("say I begin.", "wait 600000"));
    await mine.clearCookies();
    const page = await open(mine, (await hive.skep("link", "--role", "viewer", "--name", "Vera")).link);
    await link(page, "Work").first().click();
    await lane(page, "Running").getByRole("link").first().click();
    await page.locator(".wf li").first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0);
    faultless(page);
});
