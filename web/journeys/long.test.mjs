// A session of ten thousand messages.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { context, faultless, launch, open } from "./browser.mjs";
import { Hive } from "./hive.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const MESSAGES = 10_000;
// Longer than this a frame is noticed as a jerk.
const FRAME_MS = 100;
// The machine is shared, and noise only ever adds: one quiet stretch is enough.
const STRETCHES = 5;

test("ten thousand messages scroll", async (t) => {
    const hive = await Hive.start();
    const mine = await context(browser);
    t.after(async () => {
        await mine.close();
        await hive.end();
    });
    const words = (seq) => "Some words to fill the line. ".repeat(1 + (seq % 7));
    const texts = Array.from({ length: MESSAGES }, (_, at) => `Message ${at + 1}. ${words(at + 1)}`);
    const session = await hive.import(texts);

    const page = await open(mine, await hive.link());
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.goto(`${hive.url}/#/chat/main?session=${session}`);
    await page.getByText(`Message ${MESSAGES}.`).waitFor();
    const scroll = page.getByRole("region", { name: "Messages" });

    // Up to the very first, page by page, as a person would.
    const begun = Date.now();
    await page.waitForFunction(
        () => {
            const box = document.querySelector(".scroll");
            box.scrollTop = 0;
            return document.querySelector(".stream")?.textContent?.includes("Message 1.");
        },
        undefined,
        { timeout: 120_000, polling: 50 },
    );
    t.diagnostic(`reached the first message after ${Date.now() - begun} ms`);

    // Frames while it is scrolled through: none takes longer than a person notices.
    const slowest = [];
    while (slowest.length === 0 || slowest.at(-1) > FRAME_MS) {
        assert.ok(slowest.length < STRETCHES, `slowest frames ${slowest} ms`);
        slowest.push(Math.round(await scroll.evaluate(scrolled)));
    }
    t.diagnostic(`slowest frames ${slowest} ms`);
    const drawn = await page.locator(".stream .say").count();
    assert.ok(drawn < 1500, `only what is near is drawn: ${drawn}`);
    await page.getByRole("button", { name: "Go to newest" }).click();
    await page.getByText(`Message ${MESSAGES}.`).waitFor();
    faultless(page);
});

// Scrolls a stretch, a step each frame; how long the slowest frame took.
async function scrolled(box) {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    await frame();
    let last = performance.now();
    let worst = 0;
    for (let step = 0; step < 120; step++) {
        box.scrollTop += 400;
        await frame();
        const now = performance.now();
        worst = Math.max(worst, now - last);
        last = now;
    }
    return worst;
}
