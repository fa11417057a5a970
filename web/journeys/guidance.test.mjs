// What guides an agent, on Team: its rules with where they come from, its exact prompt, its skills.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, picture } from "./browser.mjs";
import { sign, SIZES } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const HOME = {
    "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n",
    "rules/hive.md": "# Manners\nBe brief.\n",
    "teams/main/config.yaml": "allowed_tools: ['*']\n",
    "teams/cto/config.yaml": "parent: main\nallowed_tools: ['*']\n",
    "teams/cto/org-rules/style.md": "# Style\nWrite tests first.\n",
    "teams/api/config.yaml": "parent: cto\nallowed_tools: [read, use_skill]\n",
    "teams/api/team-rules/own.md": "# Style\nTabs, not blanks. <b>No markup.</b>\n",
    "teams/api/skills/deploy.md":
        "---\nname: deploy\ndescription: Puts a version on the servers\n" +
        "allowed-tools: read, bash\n---\nRun the checks first.\n",
    "teams/api/skills/broken.md": "Neither this nor that.\n",
};

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`rules, prompt and skills of an agent ${where}`, async (t) => {
        const colorScheme = size === "phone" ? "dark" : "light";
        const { hive, page } = await sign(browser, t, { ...options, colorScheme }, HOME);
        await page.goto(`${hive.url}/#/team/api/rules`);
        await page.getByText("3 files").waitFor();
        const parts = page.locator(".part");
        const from = await page.locator(".part .tag").allTextContents();
        assert.deepEqual(from, ["hive", "from cto", "own"]);
        // Two rules have one heading: the reader is told before the model is confused.
        await page.locator(".notice.warn", { hasText: "Style" }).first().waitFor();
        await parts.nth(2).locator("summary").click();
        await parts.nth(2).getByText("<b>No markup.</b>").waitFor();
        await parts.nth(2).getByText("teams/api/team-rules/own.md").waitFor();
        await accessible(page, `rules ${where}`);
        await picture(page, `team-rules-${size}`);

        // A changed rule of somebody above is there at once.
        hive.write("teams/cto/org-rules/more.md", "# More\nAsk before you delete.\n");
        await page.getByText("4 files").waitFor();

        await page.getByRole("link", { name: "Prompt", exact: true }).click();
        await page.getByRole("heading", { name: "Exact prompt" }).waitFor();
        const tools = parts.first();
        await tools.locator("summary").click();
        await tools.getByText('"name":"use_skill"').waitFor();
        await accessible(page, `a prompt ${where}`);
        await picture(page, `team-prompt-${size}`);
        const { width } = page.viewportSize();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `nothing is out of sight at the side: ${wide}`);

        await page.getByRole("link", { name: "Skills", exact: true }).click();
        await page.getByText("Puts a version on the servers").waitFor();
        await page.getByText("Needs tools that the agent does not have: bash").waitFor();
        await page.locator(".notice.warn", { hasText: "broken.md" }).waitFor();
        await accessible(page, `skills ${where}`);
        await picture(page, `team-skills-${size}`);
        faultless(page);
    });
}
