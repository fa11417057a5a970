// Real Chromium. A page that logs an error, breaks the policy or asks another host fails its test.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import axe from "axe-core";
import { chromium } from "playwright-core";

const ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
const CHROMIUM = process.env.SKEP_CHROMIUM ?? "/usr/bin/chromium";
/** Pictures for the README and the docs are kept where this says. */
const PICTURES = process.env.SKEP_PICTURES;
/** How many times slower than this machine the pages run. */
export const SLOW = Number(process.env.SKEP_SLOW ?? 1);
/** Pictures of pages whose journey failed. */
const FAILED = join(tmpdir(), "skep-journeys");

export async function launch() {
    return chromium.launch({ executablePath: CHROMIUM, headless: true, args: ARGUMENTS });
}

/** A browser of its own: no cookie and no key of another. */
export async function context(browser, options = {}) {
    return browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
}

/** A page that remembers what went wrong in it. */
export async function open(context, url) {
    const page = await context.newPage();
    if (SLOW > 1) {
        const session = await context.newCDPSession(page);
        await session.send("Emulation.setCPUThrottlingRate", { rate: SLOW });
    }
    page.faults = [];
    page.lines = [];
    page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
    page.on("requestfailed", (one) =>
        page.lines.push(`${one.method()} ${one.url()}: ${one.failure()?.errorText}`),
    );
    page.on("console", (message) => {
        page.lines.push(`${message.type()}: ${message.text()}`);
        if (message.type() === "error") page.faults.push(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
        const address = new URL(request.url());
        if (["data:", "blob:"].includes(address.protocol)) return;
        if (address.host !== new URL(url).host) page.faults.push(`asked ${address.host}`);
    });
    await page.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
            console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
        });
    });
    await page.goto(url);
    return page;
}

/** Nothing went wrong but what the journey did on purpose. */
export function faultless(page, ...allowed) {
    const faults = page.faults.filter((fault) => !allowed.some((one) => one.test(fault)));
    assert.deepEqual(faults, []);
}

/** While the hive is away the browser says so itself. */
export const AWAY = /Failed to load resource: net::ERR_|ERR_CONNECTION|ERR_INCOMPLETE/;

/** What is on its way to something else is not judged: what two looks in a row find is. */
export async function accessible(page, what) {
    await page.evaluate(axe.source);
    let [before, found] = [undefined, await violations(page)];
    for (let look = 0; look < 10 && found.length && !isDeepStrictEqual(found, before); look++) {
        [before, found] = [found, await violations(page)];
    }
    assert.deepEqual(found, [], what);
}

async function violations(page) {
    await page.waitForFunction(
        () => !document.getAnimations().some((one) => one instanceof CSSTransition),
    );
    const found = await page.evaluate(() =>
        window.axe.run(document, { resultTypes: ["violations"] }),
    );
    const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
    return serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
}

export async function picture(page, name) {
    if (!PICTURES) return;
    mkdirSync(PICTURES, { recursive: true });
    await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

/** Of a journey that failed: each page as text and as a picture, what it logged, the hive's log. */
export async function evidence(t, browser, hive) {
    if (t.passed) return;
    const tell = (text) => text.split("\n").slice(0, 200).forEach((line) => t.diagnostic(line));
    mkdirSync(FAILED, { recursive: true });
    const pages = browser.contexts().flatMap((one) => one.pages());
    for (const [at, page] of pages.entries()) {
        const path = join(FAILED, `${t.name.replaceAll(/\W+/g, "-")}-${at}.png`);
        await page.screenshot({ path, timeout: 5000 }).catch(() => {});
        const text = await page.locator("body").ariaSnapshot({ timeout: 5000 }).catch(String);
        tell(`page ${at} at ${page.url()}, ${path}`);
        tell([...(page.faults ?? []), ...(page.lines ?? []).slice(-20)].join("\n"));
        tell(text);
    }
    tell(hive.lastLines(30));
}
