// Team: agents appear, work, wait and end while somebody looks; they are made, paused, stopped and
// removed by hand.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, context, faultless, launch, open, picture } from "./browser.mjs";
import { call, say } from "./model.mjs";
import { becomes, sign, SIZES, withModel } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const REHEARSAL = { "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n" };
const HOME = {
    "skep.yaml": "defaults:\n  policy: {write: ask}\n",
    "teams/main/config.yaml":
        "description: Personal assistant\nallowed_tools: ['*']\nbudgets: {cost_per_day: 5}\n" +
        "policy:\n  - {effect: allow, tool: spawn_team}\n  - {effect: allow, tool: shutdown_team}\n" +
        "  - {effect: allow, tool: delegate_task}\n",
};
/** What is read of an agent at the moment in which it is removed. */
const GONE = /status of 404/;
const node = (page, name) => page.locator(`#node-${name}`);
const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const panel = (page, name) => page.getByRole("complementary", { name });
const fits = async (page, what) => {
    const { width } = page.viewportSize();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${what}: nothing is out of sight at the side: ${wide}`);
};
/** What an agent shows: its mark, and what it does. */
const shows = async (page, name, mark, words = "") => {
    const shown = node(page, name);
    await shown.locator(`.st-${mark}`).waitFor();
    if (words) await shown.getByText(words).first().waitFor();
};

const agentOf = ({ system }) => /You are the agent `([a-z0-9-]+)`/.exec(JSON.stringify(system))?.[1];
/** `main` makes a team, gives it work, hears the result and ends it; the model waits to be let. */
function organisation(model) {
    const steps = {};
    const gates = {};
    const gate = (name) => {
        gates[name] ??= {};
        gates[name].passed ??= new Promise((resolve) => (gates[name].open = resolve));
        return gates[name];
    };
    model.answerWith(async (request) => {
        const agent = agentOf(request);
        const last = JSON.stringify(request.messages.at(-1));
        if (last.includes("You lead the new team")) return [say("Ready.")];
        const step = (steps[agent] = (steps[agent] ?? 0) + 1);
        if (agent === "research") {
            if (step > 1) return [say("The colour is blue.")];
            await gate("work").passed;
            return [call("write", { file_path: "colour.md", content: "blue\n" })];
        }
        const team = { team: "research", task: "find the colour" };
        const wish = {
            name: "research",
            description: "Looks things up",
            scope_accepts: ["colours"],
            allowed_tools: ["read", "write"],
        };
        if (step === 1) return [call("spawn_team", wish)];
        if (step === 2) return [call("delegate_task", team)];
        if (step === 3) return [say("They work at it.")];
        await gate("end").passed;
        if (step === 4) return [call("shutdown_team", { name: "research" })];
        return [say("All is done.")];
    });
    return { open: (name) => (gate(name), gates[name].open()) };
}

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`a team appears, works, waits and ends ${where}`, async (t) => {
        const colorScheme = size === "phone" ? "dark" : "light";
        const { hive, model, page } = await withModel(browser, t, { ...options, colorScheme }, HOME);
        const gates = organisation(model);
        await page.locator(".nav a:visible, .tabs a:visible", { hasText: "Team" }).click();
        await page.getByRole("heading", { name: "Team", level: 1 }).waitFor();
        await shows(page, "main", "idle", "Personal assistant");
        await page.getByText("1 agent: none running").waitFor();
        await node(page, "main").getByText("$0.00 of $5").waitFor();
        await accessible(page, `one agent ${where}`);

        // It appears, below the agent that made it, and works.
        await hive.skep("send", "main", "Find the colour.");
        await shows(page, "research", "run", "find the colour");
        assert.equal(await node(page, "research").getAttribute("aria-level"), "2");
        await page.getByText(/2 agents: 1 running/).waitFor();
        await picture(page, `team-runs-${size}`);

        // It waits for a person, and says for what.
        gates.open("work");
        await shows(page, "research", "wait", "Approval: change colour.md");
        await node(page, "research").click();
        const one = panel(page, "research");
        await one.getByText("wants to change").waitFor();
        await one.getByText("Reports to").getByRole("link", { name: "main" }).waitFor();
        await one.getByText("read write").waitFor();
        await accessible(page, `an agent that waits ${where}`);
        await fits(page, `an agent that waits ${where}`);
        await picture(page, `team-waits-${size}`);
        await one.getByRole("link", { name: "Review" }).click();
        // With the key beside its words on a desktop.
        await page.getByRole("button", { name: /^Approve once/ }).click();

        // Its result is in, and it is removed: the panel says so.
        await page.goto(`${hive.url}/#/team/research`);
        await panel(page, "research").getByText("Nothing is queued.").waitFor();
        gates.open("end");
        await panel(page, "research").getByText("There is no agent of this name.").waitFor();
        await panel(page, "research").getByRole("link", { name: "Close" }).click();
        await node(page, "research").waitFor({ state: "detached" });
        await shows(page, "main", "idle");
        await node(page, "main").getByText(/^\$0\.\d\d of \$5$/).waitFor();
        await accessible(page, `after the end ${where}`);
        faultless(page, GONE);
    });

    test(`an agent by hand, from its form to its end ${where}`, async (t) => {
        const { hive, page } = await sign(browser, t, options, REHEARSAL);
        await page.goto(`${hive.url}/#/team`);
        await press(page, "New agent");
        const form = page.getByRole("dialog", { name: "New agent" });
        const fill = (name, text) => form.getByLabel(name, { exact: true }).fill(text);
        await accessible(page, `the form of an agent ${where}`);
        await fits(page, `the form of an agent ${where}`);
        await fill("Name", "Books!");
        await press(page, "Create agent");
        await form.getByRole("alert").waitFor();
        await picture(page, `team-new-${size}`);
        await fill("Name", "books");
        await form.getByLabel("Reports to").selectOption("main");
        await fill("Description", "Keeps the books: invoices, and refunds");
        await fill("Tools", "read, grep");
        await fill("Keywords", "invoices refunds");
        await press(page, "Create agent");
        const one = panel(page, "books");
        await one.getByText("Keeps the books: invoices, and refunds").waitFor();
        await becomes(async () => (await hive.skep("agent", "show", "books")).parent, "main");
        assert.match(hive.read("teams/books/config.yaml"), /allowed_tools: \["read", "grep"\]/);

        // One more below it, from its menu.
        await one.locator("summary.btn").click();
        await press(page, "New agent below…");
        assert.equal(await form.getByLabel("Reports to").inputValue(), "books");
        await fill("Name", "stamps");
        await press(page, "Create agent");
        await panel(page, "stamps").getByText("Nothing is queued.").waitFor();
        await page.goto(`${hive.url}/#/team/books`);

        const status = async () => (await hive.skep("agent", "show", "books")).status;
        await press(page, "Pause");
        await one.getByRole("button", { name: "Start" }).waitFor();
        assert.equal(await status(), "paused");
        await one.locator("header .st-pause").waitFor();
        await press(page, "Stop");
        await one.locator("header .st-stop").waitFor();
        assert.equal(await status(), "stopped");
        await picture(page, `team-stopped-${size}`);
        // What is sent meanwhile waits in its queue.
        await hive.skep("send", "books", "Later, please.");
        await one.getByRole("link", { name: "Later, please." }).waitFor();
        await press(page, "Start");
        await press(page, "Pause");
        await becomes(status, "paused");

        // Its name is typed before it is gone, with everybody below it.
        await one.locator("summary.btn").click();
        await press(page, "Remove…");
        const sure = page.getByRole("dialog", { name: "Remove books" });
        await sure.getByText("1 agent below it is removed too: stamps.").waitFor();
        await accessible(page, `before an agent is removed ${where}`);
        await fits(page, `before an agent is removed ${where}`);
        await picture(page, `team-remove-${size}`);
        const remove = sure.getByRole("button", { name: "Remove" });
        assert.equal(await remove.getAttribute("aria-disabled"), "true");
        await sure.getByRole("textbox").fill("book");
        await sure.getByRole("textbox").press("Enter");
        assert.equal((await hive.skep("agent", "list")).agents.length, 3);
        await sure.getByRole("textbox").fill("books");
        await remove.click();
        await sure.waitFor({ state: "detached" });
        await page.getByText("1 agent: none running").waitFor();
        await becomes(async () => (await hive.skep("agent", "list")).agents.length, 1);
        faultless(page, GONE, /status of 400/);
    });
}

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`a team from a template ${where}`, async (t) => {
        const { hive, page } = await sign(browser, t, options, REHEARSAL);
        await page.goto(`${hive.url}/#/team`);
        await press(page, "New agent");
        const agent = page.getByRole("dialog", { name: "New agent" });
        const focused = () => page.evaluate(() => document.activeElement.id);
        await becomes(focused, "agent-name");
        await agent.getByRole("button", { name: "New from template…" }).press("Enter");
        const form = page.getByRole("dialog", { name: "New from template" });
        await agent.waitFor({ state: "detached" });
        // By keyboard alone: what is chosen is told with its agents and a first task.
        const chosen = (name) => form.getByRole("radio", { name: new RegExp(`^${name}`) });
        await chosen("engineering").focus();
        await form.getByText("engineering-reviewer").waitFor();
        await page.keyboard.press("ArrowDown");
        assert.ok(await chosen("research").isChecked());
        await form.getByText("First task to try: How does a swarm of bees find").waitFor();
        await accessible(page, `the form of a team ${where}`);
        await fits(page, `the form of a team ${where}`);
        await page.keyboard.press("Tab");
        assert.equal(await focused(), "team-name");
        await page.keyboard.type("Bees");
        await page.keyboard.press("Enter");
        await form.getByRole("alert").getByText("`Bees` cannot be an agent's name").waitFor();
        await form.getByLabel("Name", { exact: true }).fill("main");
        await page.keyboard.press("Enter");
        await form.getByText("the agent main is there already").waitFor();
        await picture(page, `team-template-${size}`);
        assert.equal((await hive.skep("agent", "list")).agents.length, 1);
        await form.getByLabel("Name", { exact: true }).fill("bees");
        await form.getByText("bees-scout").waitFor();
        await press(page, "Create team");
        await form.waitFor({ state: "detached" });
        const lead = panel(page, "bees");
        await lead.getByText("Answers questions with sources").waitFor();
        assert.match(page.url(), /#\/team\/bees$/);
        const names = (await hive.skep("agent", "list")).agents.map(({ name }) => name);
        assert.deepEqual(names.sort(), ["bees", "bees-checker", "bees-scout", "main"]);
        await becomes(() => page.locator("[role=treeitem]").count(), 4);
        assert.equal(await node(page, "bees").getAttribute("aria-selected"), "true");
        await accessible(page, `a team from a template ${where}`);
        await picture(page, `team-from-template-${size}`);
        faultless(page, /status of 400/, /status of 409/);
    });
}

test("arrows lead through the tree, and who may not change it sees it", async (t) => {
    const agent = (parent, description = "") => `parent: ${parent}\ndescription: "${description}"\n`;
    const { hive, page } = await sign(browser, t, {}, {
        ...REHEARSAL,
        "teams/cto/config.yaml": agent("main", "Leads the work"),
        "teams/api/config.yaml": agent("cto"),
        "teams/web/config.yaml": agent("cto"),
        "teams/lab/config.yaml": "engine: warp\n",
        "teams/release/config.yaml": "sandbox: {level: host}\n",
    });
    await page.goto(`${hive.url}/#/team`);
    await shows(page, "lab", "fail", "config.yaml:1:9");
    await node(page, "release").getByText("no walls").waitFor();
    await accessible(page, "a tree of agents");
    await picture(page, "team-tree");
    await node(page, "main").focus();
    const focused = () => page.evaluate(() => document.activeElement.id.replace("node-", ""));
    for (const [key, at] of [
        ["ArrowDown", "cto"],
        ["ArrowRight", "api"],
        ["ArrowDown", "web"],
        ["ArrowLeft", "cto"],
        ["End", "release"],
        ["Home", "main"],
    ]) {
        await page.keyboard.press(key);
        assert.equal(await focused(), at, key);
    }
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await panel(page, "cto").getByText("Leads the work").waitFor();
    // A change on the disk is seen at once.
    hive.write("teams/docs/config.yaml", agent("cto"));
    await node(page, "docs").waitFor();

    const { link } = await hive.skep("link", "--role", "viewer", "--name", "Ines");
    const viewer = await open(await context(browser), link);
    t.after(() => viewer.context().close());
    await viewer.goto(`${hive.url}/#/team/cto`);
    await panel(viewer, "cto").getByText("Leads the work").waitFor();
    for (const name of ["New agent", "Pause", "Stop"]) {
        assert.equal(await viewer.getByRole("button", { name, exact: true }).count(), 0, name);
    }
    await viewer.goto(`${hive.url}/#/team/cto/settings`);
    const text = viewer.getByRole("textbox", { name: "Text of teams/cto/config.yaml" });
    assert.equal(await text.getAttribute("readonly"), "");
    assert.match(await text.inputValue(), /Leads the work/);
    await accessible(viewer, "settings, for a viewer");
    faultless(viewer);
    faultless(page);
});
