// Tests all other pages in Chromium: reports, what-ifs, and the pages of the server.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { desk, hare, keepsTheRules, launch, open, pages, phone, serve, type Server } from "./browser.js";

let browser: Browser;
let server: Server;

before(async () => {
  const t4 = { T4: { compute_s: 20, sync_s: 2 } };
  const jobs = Array.from({ length: 6 }, (_, i) => ({
    id: `job-${i}`,
    rounds: 200 + 50 * i,
    tasks: 2,
    sync: "gang",
    on: { V100: { compute_s: 8, sync_s: 2 }, ...t4 },
  }));
  const cluster = {
    nodes: [
      { name: "n1", gpus: { V100: 4 } },
      { name: "n2", gpus: { T4: 4 } },
    ],
  };
  writeFileSync(join(pages, "base.json"), JSON.stringify({ hare: "instance/v1", cluster, jobs }));
  hare(
    "whatif",
    "base.json",
    "--add",
    "V100=4",
    "--remove-gpus",
    "n1=2",
    "--drop-node",
    "n2@600",
    "--scale-weight",
    "job-1=3",
    "--work-limit",
    "20",
    "-q",
    "--plot",
    "whatif.html",
  );
  hare(
    "simulate",
    "--policy",
    "fifo,hlas",
    "--trace",
    "gavel_trace_small_test.csv",
    "--gpus",
    "v100=4,p100=4,k80=4",
    "-o",
    "runs",
  );
  const plan = [
    "--days",
    "1",
    "--weeks",
    "2",
    "--option",
    "V100=4",
    "--price",
    "V100=2,T4=1",
    "-q",
    "-o",
    "plan",
  ];
  hare("capacity", "base.json", ...plan);
  browser = await launch();
  server = await serve();
});
after(async () => {
  await server?.stop();
  await browser?.close();
});

test("what-ifs explain their bars and speak of hours", async () => {
  await keepsTheRules(browser, "whatif.html");
  const { page } = await open(browser, "whatif.html", phone);
  const text = await page.locator("body").innerText();
  assert.match(text, /gets better, for certain/);
  assert.match(text, /best plan [−+]\d+ (h|min)/);
  assert.match(await page.locator(".axis").innerText(), /\d h/);
  // Each bar lies within its row, on the side of 0 that the text of the row states.
  const sides = await page.evaluate(() =>
    [...document.querySelectorAll(".scenarios li:not(.axis)")].map(li => {
      const [bar, zero, track] = [".bar", ".zero", ".track"].map(s =>
        li.querySelector(s)!.getBoundingClientRect(),
      );
      return {
        words: (li.lastElementChild as HTMLElement).innerText,
        left: bar!.left - zero!.left,
        right: bar!.right - zero!.left,
        inside: bar!.left >= track!.left - 1 && bar!.right <= track!.right + 1,
      };
    }),
  );
  assert.equal(sides.length, 4);
  for (const s of sides) {
    assert.ok(s.inside, s.words);
    const known = /^best plan (at least |at most |exactly )?([−+])/.exec(s.words);
    if (known && !known[1]) assert.equal(s.left < 0, known[2] === "−", s.words);
  }
  await page.context().close();
});

test("reports of simulations", async () => {
  await keepsTheRules(browser, "runs/report.html");
  // The picture switches between light and dark with the page.
  const shades = await Promise.all(
    (["light", "dark"] as const).map(async colorScheme => {
      const { page } = await open(browser, "runs/report.html", { ...desk, colorScheme });
      const shade = await page.evaluate(() => getComputedStyle(document.querySelector("svg text")!).fill);
      await page.context().close();
      return shade;
    }),
  );
  assert.notEqual(shades[0], shades[1]);
});

test("plans of what to buy", async () => keepsTheRules(browser, "plan/index.html"));

test("/docs shows every call, finds them, and tries them", async () => {
  const { page, faults } = await open(browser, `${server.url}/docs/`, desk); // redirects to /docs
  assert.equal(page.url(), `${server.url}/docs`);
  await page.locator("article").first().waitFor();
  const spec = await (await page.request.get(`${server.url}/openapi.json`)).json();
  const calls = Object.values(spec.paths as Record<string, object>)
    .flatMap(v => Object.values(v))
    .map(o => (o as { operationId: string }).operationId);
  for (const id of calls) assert.equal(await page.locator(`article[id="${id}"]`).count(), 1, id);
  const tall = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(tall < 20_000, `the page is ${tall} px tall`);
  const version = page.locator("article#version");
  await page.locator("nav a[href='#version']").click();
  await version.getByRole("button", { name: "Try it" }).click();
  await version.locator("pre", { hasText: "200 OK" }).waitFor();
  const result = page.locator("article#getResult, article#getSolve").first();
  await result.locator("summary").click();
  await result.getByRole("button", { name: "Try it" }).click();
  assert.match(await result.locator("pre").last().innerText(), /^Fill in id first/);
  await page.locator("#filter").pressSequentially("simulat");
  assert.ok(await version.isHidden());
  assert.ok(await page.locator("article", { hasText: "/v1/simulations" }).first().isVisible());
  await page.locator("#filter").fill("");
  assert.ok(await version.isVisible());
  assert.deepEqual(faults, []);
  await page.context().close();
  await keepsTheRules(browser, `${server.url}/docs`);
});
