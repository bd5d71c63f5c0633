// Builds the bundles that package web embeds: node build.mjs [FOLDER]. Without a
// folder the script writes them to dist, which is committed. The same sources and the
// pinned esbuild give the same bytes on every machine.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/shared/theme.ts", out: "theme" },
    { in: "src/shared/report.css", out: "report" },
    { in: "src/gantt/main.ts", out: "gantt" },
    { in: "src/gantt/page.css", out: "gantt" },
    { in: "src/docs/main.ts", out: "docs" },
    { in: "src/docs/page.css", out: "docs" },
    { in: "src/console/main.tsx", out: "console" },
    { in: "src/console/page.css", out: "console" },
    { in: "src/console/icon.svg", out: "icon" },
  ],
  outdir: process.argv[2] ?? join(here, "dist"),
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "copy" },
  logLevel: "warning",
});
