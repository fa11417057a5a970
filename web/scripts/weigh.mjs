// Compresses what the build made, once, beside each file, and refuses a page that grew too heavy.
// Usage: node scripts/weigh.mjs FOLDER
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LARGEST = 300_000;
const root = process.argv[2] ?? "dist";
let total = 0;
for (const name of readdirSync(root, { recursive: true })) {
    const path = join(root, name);
    if (!statSync(path).isFile() || path.endsWith(".gz")) continue;
    const zipped = gzipSync(readFileSync(path), { level: 9 });
    writeFileSync(`${path}.gz`, zipped);
    total += zipped.length;
}
console.log(
    `the page weighs ${(total / 1000).toFixed(1)} kB compressed (${LARGEST / 1000} at most)`,
);
if (total > LARGEST) process.exit(1);
