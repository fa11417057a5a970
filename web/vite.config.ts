import { defineConfig } from "vite";
import solid from "vite-plugin-solid";

// Everything is a file of our own: no inline script, no inline style, so that the page lives
// under `default-src 'none'; script-src 'self'; style-src 'self'`.
export default defineConfig({
  plugins: [solid()],
  base: "/",
  build: {
    target: "es2023",
    outDir: "dist",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
  },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
