// Draws the PNG icons of the manifest from our own SVG files. Usage: node scripts/icons.mjs
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const executablePath = process.env.SKEP_CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const name of ["icon", "icon-maskable"]) {
    const style = "<style>* { margin: 0 } svg { display: block; height: 100vh }</style>";
    const svg = readFileSync(`public/${name}.svg`, "utf8");
    for (const size of [192, 512]) {
        const page = await browser.newPage({ viewport: { width: size, height: size } });
        await page.setContent(style + svg);
        await page.screenshot({ path: `public/${name}-${size}.png`, omitBackground: true });
    }
}
await browser.close();
