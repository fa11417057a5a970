// What agents ask the operator, answered on Home. The hive plays scripts and has no key.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, context, faultless, launch, open, picture } from "./browser.mjs";
import { script } from "./hive.mjs";
import { becomes, said, sign, SIZES } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const HOME = {
    "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n",
    "teams/main/config.yaml": "allowed_tools: ['*']\n",
};
const signed = (t, options) => sign(browser, t, options, HOME);
/** A message after which `main` asks, and says what it was answered. */
const asks = (message, reason) =>
    script(
        `call escalate ${JSON.stringify({ message, reason })}`,
        "next",
        "say I have asked.",
        "on event",
        "say The answer was: {{result}}",
    );
const row = (page, text) => page.locator(".needs .ask", { hasText: text });
const field = (place) => place.getByRole("textbox", { name: "Answer to main" });
const title = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();

for (const [where, options] of Object.entries(SIZES)) {
    const size = where.split(" ").at(-1);
    test(`a question is answered on Home ${where}`, async (t) => {
        const colorScheme = size === "phone" ? "dark" : "light";
        const { hive, page } = await signed(t, { ...options, colorScheme });
        await title(page, "Nothing needs attention");
        const why = "The old one was blue, the fence is green now.";
        await hive.skep("send", "main", asks("Which colour should the door have?", why));
        const asked = row(page, "Which colour should the door have?");
        await asked.getByText("main needs an answer").waitFor();
        await title(page, "Needs attention (1)");
        await asked.getByText(`Reason: ${why}`).waitFor();
        await asked.getByText(/expires in 23 h 59 min|expires in 24 h 0 min/).waitFor();
        await accessible(page, `a question, ${size}`);
        await picture(page, `question-${size}`);
        const { width } = page.viewportSize();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `nothing is out of sight at the side: ${wide}`);
        const answer = asked.getByRole("button", { name: "Answer" });
        assert.equal(await answer.getAttribute("aria-disabled"), "true", "nothing is written");
        await field(asked).fill("Blue, like the old one.");
        await field(asked).press("Shift+Enter");
        await field(asked).pressSequentially("Two coats.");
        await picture(page, `question-written-${size}`);
        await field(asked).press("Enter");
        await asked.getByText("Answered by you.").waitFor();
        await title(page, "Nothing needs attention");
        await accessible(page, `a question that was answered, ${size}`);
        await picture(page, `question-answered-${size}`);
        // It stands for a moment, and then it is gone.
        await asked.waitFor({ state: "detached" });
        await page.goto(`${hive.url}/#/chat/main`);
        await said(page, "The answer was: Blue, like the old one.");
        await said(page, "Two coats.");
        faultless(page);
    });
}

test("answered elsewhere: the row leaves, and what was being written stays", async (t) => {
    const { hive, page } = await signed(t);
    await hive.skep("send", "main", asks("Which colour?"), "--session", "one");
    await hive.skep("send", "main", asks("Which size?"), "--session", "two");
    await row(page, "Which colour?").waitFor();
    await field(row(page, "Which size?")).fill("Rather a large");
    const { questions } = await hive.skep("ask");
    const id = (text) => questions.find((one) => one.text === text).id;
    await hive.skep("ask", id("Which colour?"), "red");
    await row(page, "Which colour?").waitFor({ state: "detached" });
    await hive.skep("ask", id("Which size?"), "small");
    const late = row(page, "What you wrote was not sent:");
    await late.getByText("Rather a large").waitFor();
    await late.getByText(/^Answered elsewhere\./).waitFor();
    await title(page, "Nothing needs attention");
    await accessible(page, "an answer that came too late");
    await picture(page, "question-late");
    await late.getByRole("button", { name: "Dismiss" }).click();
    await late.waitFor({ state: "detached" });
    faultless(page);
});

test("what is written is there again after a look at another page", async (t) => {
    const { hive, page } = await signed(t);
    await hive.skep("send", "main", asks("Which colour?"));
    await field(row(page, "Which colour?")).fill("Half an");
    await row(page, "Which colour?").getByRole("link", { name: "Open" }).click();
    await said(page, "I have asked.");
    await page.getByText("main waits for an answer of the operator.").waitFor();
    await accessible(page, "a conversation that waits for the operator");
    await picture(page, "question-conversation");
    await page.getByRole("link", { name: "Answer on Home" }).click();
    const asked = row(page, "Which colour?");
    await becomes(() => field(asked).inputValue(), "Half an");
    await page.reload();
    await becomes(() => field(asked).inputValue(), "Half an");
    faultless(page);
});

test("a viewer reads a long hostile question and is offered no answer", async (t) => {
    const { hive } = await signed(t);
    const line = (at) => `${at} \u202e\u2066<b>\u200b answered by you \u001b[2K`;
    const lines = Array.from({ length: 300 }, (_, at) => line(at));
    await hive.skep("send", "main", asks(lines.join("\n")));
    const { link } = await hive.skep("link", "--role", "viewer", "--name", "Vera");
    const theirs = await context(browser);
    t.after(() => theirs.close());
    const page = await open(theirs, link);
    const asked = row(page, "299");
    await asked.getByText("Only operators can answer; you have view access.").waitFor();
    assert.equal(await asked.getByRole("textbox").count(), 0);
    const words = asked.getByRole("region", { name: "Question of main" });
    assert.equal((await words.textContent()).split("\n").length, 300, "every line");
    const all = await page.evaluate(() => document.documentElement.innerText);
    assert.doesNotMatch(all, /[\u202a-\u202e\u2066-\u2069\u001b\u200b]/);
    assert.ok((await words.boundingBox()).height <= 260, "it is scrolled in its own box");
    await accessible(page, "a question for viewers");
    faultless(page);
});
