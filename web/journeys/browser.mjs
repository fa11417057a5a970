// Real Chromium. A page that logs an error, breaks the policy or asks another host fails its test.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
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
    page.faults = [];
    page.expected = [];
    page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
    page.on("console", (message) => {
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

/** A colour on its way to another is not looked at: what stays is. */
export async function accessible(page, what) {
    await page.evaluate(axe.source);
    let said = await violations(page);
    if (said.length > 0) said = await violations(page);
    assert.deepEqual(said, [], what);
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
