// Team with a thousand agents: soon there, and no frame that is noticed.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, faultless, launch, open, picture, SLOW } from "./browser.mjs";
import { start } from "./person.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const AGENTS = 1000;
// Longer than this is noticed as a jerk.
const FRAME_MS = 100 * SLOW;
const PAINT_MS = 1000 * SLOW;
// The machine is shared, and noise only ever adds: what is done again until it was fast enough once
// is slow every time if the page itself takes too long.
const TRIES = 5;

/** Ten leads below `main`, each with nine teams of ten. */
function home() {
    const files = { "providers.yaml": "profiles:\n  default: {provider: rehearsal}\n" };
    for (let at = 0; at < AGENTS - 1; at++) {
        const name = (number) => `a${String(number).padStart(3, "0")}`;
        const parent = at < 10 ? "main" : name(Math.floor((at - 10) / 10));
        files[`teams/${name(at)}/config.yaml`] =
            `parent: ${parent}\ndescription: Works at part ${at}\nbudgets: {cost_per_day: 5}\n`;
    }
    return files;
}

for (const [where, options] of Object.entries({
    "on a desktop": {},
    "on a phone": { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: "dark" },
})) {
    test(`a thousand agents ${where}`, async (t) => {
        const { hive, mine } = await start(browser, t, options, home());
        const page = await open(mine, await hive.link());
        await page.getByRole("heading", { level: 1 }).waitFor();

        const paints = [];
        do {
            assert.ok(paints.length < TRIES, `painted after ${paints} ms`);
            await page.goto("about:blank");
            await page.goto(`${hive.url}/#/team`);
            await page.locator(".node").first().waitFor();
            paints.push(await page.evaluate(painted));
        } while (paints.at(-1) > PAINT_MS);
        t.diagnostic(`painted after ${paints} ms`);
        await page.getByText(`${AGENTS} agents: none running`).waitFor();
        const drawn = await page.locator(".node").count();
        assert.ok(drawn < 100, `only what is near is drawn: ${drawn}`);

        // It is scrolled through from the first agent to the last one.
        await smooth(t, page, "scrolling", scrolled);
        await page.locator("#node-a998").waitFor();
        // Events come in while somebody looks: agents are paused, started and changed.
        const busy = async () => {
            // The last one is in view.
            for (const name of ["a000", "a500", "a109"]) {
                await hive.skep("agent", "pause", name);
                if (name === "a109") await page.locator("#node-a109 .st-pause").waitFor();
                await hive.skep("agent", "start", name);
            }
            const file = "teams/a010/config.yaml";
            hive.write(file, hive.read(file).replace(/description: .*/, `description: ${Date.now()}`));
        };
        await smooth(t, page, "live changes", watched, busy);
        // One is found, and looked at.
        const find = page.getByRole("searchbox", { name: "Find agent" });
        const typing = async () => {
            await find.fill("a99");
            await page.locator("#node-a997").waitFor();
            await find.fill("");
            await page.locator("#node-main").waitFor();
        };
        await smooth(t, page, "searching", watched, typing);
        await find.fill("part 997");
        await page.locator("#node-a997").click();
        await page.getByRole("complementary", { name: "a997" }).getByText("Works at part 997").waitFor();
        await accessible(page, `a thousand agents ${where}`);
        await picture(page, `team-many-${where.split(" ").at(-1)}`);
        faultless(page);
    });
}

/** The same is done until each frame was fast enough once. */
async function smooth(t, page, what, frames, act = async () => {}) {
    const slowest = [];
    do {
        assert.ok(slowest.length < TRIES, `${what}: slowest frames ${slowest} ms`);
        const taking = page.evaluate(frames);
        await act();
        await page.evaluate(() => (window.enough = true));
        slowest.push(await taking);
    } while (slowest.at(-1) > FRAME_MS);
    t.diagnostic(`${what}: slowest frames ${slowest} ms`);
}

/** When the first agents were on the screen, from the beginning of the loading on. */
async function painted() {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return Math.round(performance.now());
}

/** Scrolls from the top to the end in steps, one a frame; the longest frame. */
async function scrolled() {
    const canvas = document.querySelector(".canvas");
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    canvas.scrollTop = 0;
    for (let rest = 0; rest < 5; rest++) await frame();
    let [slowest, last] = [0, performance.now()];
    for (let step = 0; step < 120; step++) {
        canvas.scrollTop += canvas.scrollHeight / 100;
        await frame();
        const now = performance.now();
        [slowest, last] = [Math.max(slowest, now - last), now];
    }
    return Math.round(slowest);
}

/** The longest frame until enough was seen. */
async function watched() {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    window.enough = false;
    await frame();
    let [slowest, last, rest] = [0, performance.now(), 60];
    // What was done shows itself a little later.
    while (rest > 0) {
        await frame();
        const now = performance.now();
        [slowest, last] = [Math.max(slowest, now - last), now];
        if (window.enough) rest -= 1;
    }
    return Math.round(slowest);
}
