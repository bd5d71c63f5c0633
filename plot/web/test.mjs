// Runs the tests of test/ with Node's own runner: node test.mjs unit|browser.
// esbuild translates TypeScript into JavaScript that Node.js 20 can run.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] === "browser" ? "browser" : "test";
const out = mkdtempSync(join(here, "node_modules", ".tests-"));
try {
  const tests = readdirSync(join(here, folder))
    .filter(f => f.endsWith(".test.ts"))
    .sort();
  await build({
    absWorkingDir: here,
    entryPoints: tests.map(f => join(folder, f)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    logLevel: "warning",
  });
  const run = spawnSync(
    process.execPath,
    [
      "--enable-source-maps",
      "--test",
      `--test-reporter=${process.env["REPORTER"] ?? "dot"}`,
      ...readdirSync(out).map(f => join(out, f)),
    ],
    { stdio: "inherit" },
  );
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
