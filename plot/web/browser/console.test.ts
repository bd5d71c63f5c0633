// Tests the console in Chromium, on a server with a node and jobs.
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { hare, launch, need, pages, phone, serve, type Server, violations } from "./browser.js";

const wide: BrowserContextOptions = { viewport: { width: 1440, height: 900 } };
const large: BrowserContextOptions = { viewport: { width: 2560, height: 1440 } };
const hostile = `<img src=x onerror="document.title='bad'"> ${"x".repeat(60)} a|night \u05d0\u05d1 rtl`;

let browser: Browser;
let server: Server;
let agent: ChildProcess;
let port = 0;
let data = "";

function freePort(): Promise<number> {
  return new Promise(found => {
    const s = createServer();
    s.listen(0, "127.0.0.1", () => {
      const { port } = s.address() as { port: number };
      s.close(() => found(port));
    });
  });
}

const start = () =>
  serve("--listen", `127.0.0.1:${port}`, "--data-dir", data, "--agent-lease", "30s", "--grace", "0s");

async function api<T>(path: string, body?: object): Promise<T> {
  const init = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const r = await fetch(server.url + path, init);
  assert.ok(r.ok, `${path}: ${r.status}`);
  return (await r.json()) as T;
}

async function until(what: string, f: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 200; i++) {
    if (await f()) return;
    await new Promise(done => setTimeout(done, 50));
  }
  assert.fail(`never ${what}`);
}

interface Preview {
  reason: string;
  delays: { job: string }[];
}

interface Counts {
  agents: number;
  gpus: number;
  jobs: Record<string, number>;
}

before(async () => {
  port = await freePort();
  data = mkdtempSync(join(pages, "console-"));
  server = await start();
  const devices = ["--devices", "V100=4,T4=4", "--name", "n1", "--directory", join(data, "n1")];
  agent = spawn(need("HARE"), ["agent", "--server", server.url, "--cluster", "lab", ...devices], {
    stdio: "ignore",
  });
  await until("a node", async () => (await fetch(`${server.url}/v1/clusters/lab`)).ok);
  const submit = (more: object) =>
    api("/v1/clusters/lab/jobs", { command: ["train"], on: { V100: 600, T4: 900 }, ...more });
  await submit({
    name: "loud",
    on: {},
    command: ["sh", "-c", "echo first words; seq 60000; echo last words; exit 3"],
    weight: 1e6,
  });
  for (let i = 0; i < 12; i++)
    await submit({
      name: `night-${i}`,
      gpus: 1 + (i % 3),
      class: { user: i % 2 ? "ann" : "bob" },
      weight: 1 + i,
    });
  await submit({ name: hostile, gpus: 4 });
  const history = {
    hare: "instance/v1",
    cluster: { nodes: [{ name: "a", gpus: { V100: 1 } }] },
    jobs: [0, 1, 2].map(i => ({ id: `j${i}`, rounds: 9, sync: "gang", on: { V100: { compute_s: 1200 } } })),
  };
  const tags = { labels: { team: "vision" }, name: hostile };
  const made = async (path: string, body: object): Promise<string> => {
    const r = await fetch(server.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    assert.ok(r.ok, `${path}: ${await r.text()}`);
    return r.headers.get("Location")!.split("/").pop()!;
  };
  const change = { id: "more", add_gpus: { type: "V100", count: 1 } };
  const whatIf = { base: { instance: history }, scenarios: [change], options: { work_limit: 50 } };
  VIEWS.push([`#/reports/what-if%2F${await made("/v1/what-if", { ...whatIf, ...tags })}`, "save the answer"]);
  const ask = { instance: history, time_limit_s: 30 };
  VIEWS.push([
    `#/reports/simulation%2F${await made("/v1/simulations", { ...ask, policies: ["srtf"], name: "the night" })}`,
    "the page",
  ]);
  const plan = {
    ...ask,
    options: ["V100=2"],
    prices: { V100: 2.5 },
    goal: "p95 wait <= 1h",
    weeks: 2,
    days: 1,
  };
  VIEWS.push([
    `#/reports/capacity%2F${await made("/v1/capacity", { ...plan, name: "next year" })}`,
    "V100=2 under now (slurm) reaches",
  ]);
  await until(
    "jobs that run",
    async () => ((await api<Counts>("/v1/clusters/lab")).jobs["running"] ?? 0) > 2,
  );
  browser = await launch();
});

after(async () => {
  agent?.kill();
  await server?.stop();
  await browser?.close();
});

interface Visit {
  page: Page;
  faults: string[];
}

async function visit(hash: string, options: BrowserContextOptions, url = server.url): Promise<Visit> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", e => faults.push(e.message));
  page.on("console", m => {
    if (m.type() === "error" || m.type() === "warning") faults.push(m.text());
  });
  page.on("request", r => {
    if (!r.url().startsWith(url)) faults.push(`request to ${r.url()}`);
  });
  await page.goto(url + "/" + hash);
  await page.locator("h1").first().waitFor();
  return { page, faults };
}

const VIEWS: [hash: string, seen: string][] = [
  ["#/c/lab", "Is it well?"],
  ["#/c/lab/queue", "night-3"],
  ["#/c/lab/nodes", "n1"],
  ["#/c/lab/gantt", "colour by"],
  ["#/c/lab/submit", "A new job"],
  ["#/c/lab/jobs/j5", "How do you know?"],
  ["#/solves", "No solve is kept"],
  ["#/sessions", "rolling"],
  ["#/reports", "the night"],
  ["#/start", "Submit a job"],
];

for (const [size, options] of [
  ["wide", wide],
  ["phone", phone],
  ["large", large],
] as const) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`every view, ${size}, ${colorScheme}`, async () => {
      const { page, faults } = await visit("", { ...options, colorScheme });
      for (const [hash, seen] of VIEWS) {
        const where = `${hash}, ${size}, ${colorScheme}`;
        await page.evaluate(h => void (location.hash = h), hash);
        await page.getByText(seen).first().waitFor();
        await page.screenshot({
          path: join(pages, `console${hash.replace(/\W+/g, "-")}-${size}-${colorScheme}.png`),
        });
        assert.deepEqual(await violations(page), [], where);
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          `${where}: sideways`,
        );
        assert.equal(await page.locator("h1").count(), 1, `${where}: one head`);
      }
      assert.deepEqual(faults, []);
      assert.notEqual(await page.title(), "bad");
      await page.context().close();
    });
  }
}

test("the first screen says what the server says", async () => {
  const { page } = await visit("#/c/lab", wide);
  const figure = (name: string) => page.locator(".figure", { hasText: name }).locator("dd").innerText();
  await page.getByText("All is well").waitFor();
  await until("equal figures", async () => {
    const c = await api<Counts>("/v1/clusters/lab");
    const said = await Promise.all(
      ["nodes in service", "GPUs in service", "waiting", "running", "failed"].map(figure),
    );
    const states = ["waiting", "running", "failed"].map(s => c.jobs[s] ?? 0);
    return said.join() === [c.agents, c.gpus, ...states].join();
  });
  await page.context().close();
});

test("the chart has weeks of the plan, coloured by what jobs have in common", async () => {
  const { page, faults } = await visit("#/c/lab/gantt", phone);
  // Asked once more: the answer to what the page asks is gone where the page is loaded again meanwhile.
  const asked = page.waitForRequest(r => r.url().includes("/gantt?"));
  await page.reload();
  const answer = await page.request.get((await asked).url());
  const { now, to } = (await answer.json()) as { now: string; to: string };
  assert.ok(Date.parse(to) - Date.parse(now) > 28 * 86400e3, to);
  const by = page.getByLabel("colour by");
  await by.locator("option[value=cause]").waitFor({ state: "attached" });
  assert.deepEqual(await by.locator("option").allInnerTexts(), [
    "job",
    "user",
    "name",
    "weight",
    "cause of waiting",
  ]);
  const key = (what: string) => page.getByRole("group", { name: `Colours by ${what}` });
  await by.selectOption("user");
  assert.match(await key("user").innerText(), /ann[^]*bob|bob[^]*ann/);
  await by.selectOption("name");
  assert.ok((await key("name").innerText()).includes("night-"));
  await by.selectOption("cause");
  await key("cause").waitFor();
  assert.deepEqual(await violations(page), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("one of several clusters is chosen, and an empty one teaches", async () => {
  await api("/v1/clusters", { name: "second" });
  const { page, faults } = await visit("#/c/lab", wide);
  await page.getByLabel("Cluster").selectOption("second");
  await page.getByText("Cluster second is empty").waitFor();
  assert.match(page.url(), /#\/c\/second$/);
  assert.match(await page.locator(".copy pre").first().innerText(), /--cluster second /);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("the queue is filtered, ordered and grouped, and the address says how", async () => {
  const { page, faults } = await visit("#/c/lab/queue", wide);
  const ids = () => page.locator("tbody tr[data-id] td:first-child").allInnerTexts();
  await page.getByText("14 jobs").waitFor();
  await page.getByLabel(/^Filter User/).fill("ann");
  await page.getByText("6 of 14 jobs").waitFor();
  await page.getByRole("button", { name: "GPUs" }).click();
  await page.getByRole("button", { name: "GPUs" }).click();
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "GPUs ↓");
  assert.match(page.url(), /user=ann&sort=-gpus/);
  const ordered = await ids();
  const { page: again } = await visit(page.url().slice(server.url.length + 1), wide);
  await again.getByText("6 of 14 jobs").waitFor();
  assert.deepEqual(await again.locator("tbody tr[data-id] td:first-child").allInnerTexts(), ordered);
  await again.context().close();
  await page.getByRole("button", { name: "clear 1 filter" }).click();
  await page.getByLabel("group").selectOption("user");
  assert.match(await page.locator("tr.group").first().innerText(), /ann\s*6 jobs, \d+ GPUs/);
  await page.locator("tr.group button").first().click();
  assert.equal((await ids()).length, 6);
  // The table says how long it is, and names of jobs are text.
  assert.equal(await page.locator("table").getAttribute("aria-rowcount"), "10");
  await page.getByLabel("group").selectOption("");
  await page.getByLabel("Search jobs").fill("<img");
  await page.getByText("1 of 14 jobs").waitFor();
  assert.equal(await page.locator("td.name bdi").innerText(), hostile);
  // The button in a cell asks for all of its value, whatever that has in it.
  await page.locator("td.name").getByRole("button").click();
  await page.getByLabel("Search jobs").fill("");
  await page.getByRole("button", { name: "clear 1 filter" }).waitFor();
  await page.getByText("1 of 14 jobs").waitFor();
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("rows stay where they are under the pointer, and by keyboard", async () => {
  const { page } = await visit("#/c/lab/queue?sort=-id", wide);
  const first = () => page.locator("tbody tr[data-id]").first().getAttribute("data-id");
  await page.getByText("14 jobs").waitFor();
  const before = await first();
  await page.locator("tbody tr[data-id]").nth(2).hover();
  const { id } = await api<{ id: string }>("/v1/clusters/lab/jobs", {
    command: ["late"],
    on: { V100: 60 },
    weight: 1e-3,
  });
  await page.getByRole("button", { name: /^\d+ changes?$/ }).waitFor();
  assert.equal(await first(), before);
  await page.getByLabel("Search jobs").hover();
  await until("the new job", async () => (await first()) === id);
  await page.locator("tbody a").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByText("The same by command line").waitFor();
  assert.match(page.url(), new RegExp(`/jobs/${before}$`));
  await page.context().close();
});

test("a job says why and when, what it printed, and whom its end serves", async () => {
  const { page, faults } = await visit("#/c/lab/queue?name=loud", wide);
  await page.locator("tbody a").first().click();
  // A long output is read from its end.
  await page.locator(".log", { hasText: "last words" }).waitFor();
  await page.getByText("These are the last 200,000 bytes.").waitFor();
  assert.doesNotMatch(await page.locator(".log").innerText(), /first words/);
  await page.getByText("exit code 3").first().waitFor();
  const list = await api<{ jobs: { id: string }[] }>("/v1/clusters/lab/jobs?state=running");
  const id = list.jobs[0]!.id;
  await page.evaluate(h => void (location.hash = h), `#/c/lab/jobs/${id}`);
  await page.getByText("How do you know?").click();
  await page.getByText(/^hare online plan --server/).waitFor();
  await page.getByRole("button", { name: "cancel the job" }).click();
  await page.getByText(/Those who may start sooner: .*night/).waitFor();
  await page.getByRole("button", { name: `cancel ${id}` }).click();
  await page.locator(".title .state.cancelled").waitFor();
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("a new job: what is expected is said as one types, by keyboard alone on a phone", async () => {
  const { page, faults } = await visit("#/c/lab/submit", phone);
  await page.getByLabel("Command").focus();
  const type = async (text: string) => {
    await page.keyboard.type(text);
    await page.keyboard.press("Tab");
  };
  await type("train 'a b'");
  await type("3");
  await type("");
  await type("2 h");
  await page.getByText(/^It starts in about \d/).waitFor();
  const body = { command: ["train", "a b"], gpus: 3, on: { V100: 7200 } };
  const said = await api<Preview>("/v1/clusters/lab/jobs:preview", body);
  await page.getByText(said.reason).waitFor();
  const rows = await page.locator("tbody tr").allInnerTexts();
  assert.deepEqual(
    rows.map(r => r.split(/\s/)[0]).sort(),
    said.delays
      .map(d => d.job)
      .slice(0, 10)
      .sort(),
  );
  assert.deepEqual(await violations(page), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.screenshot({ path: join(pages, "console-submit-phone.png"), fullPage: true });
  await type(hostile);
  await type("ann");
  await type("team=vision night");
  await page.keyboard.press("Enter");
  await page.getByText("Why does it wait?").waitFor();
  const id = /j\d+$/.exec(page.url())![0];
  const job = await api<{ name: string; user: string; labels: object; on: object }>(
    `/v1/clusters/lab/jobs/${id}`,
  );
  assert.deepEqual(
    [job.name, job.user, job.labels, job.on],
    [hostile, "ann", { team: "vision", night: "" }, body.on],
  );
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("a new job by pointer, from JSON: faults are said, and two clicks make one job", async () => {
  const { page, faults } = await visit("#/c/lab", wide);
  await page.getByRole("link", { name: "Submit" }).click();
  await page.getByRole("button", { name: "as JSON" }).click();
  const document = page.getByLabel("Document of the job");
  await document.fill("{");
  await page.getByText(/^This is not JSON: /).waitFor();
  await document.fill('{"command": ["train"], "gpux": 2}');
  await page.getByText('did you mean "gpus"?').waitFor();
  const before = (await api<{ total: number }>("/v1/clusters/lab/jobs")).total;
  await document.fill('{"command": ["train"], "gpus": 4, "on": {"T4": 60}, "weight": 1e5}');
  await page.getByText(/^\d+ jobs? would end later/).waitFor();
  await page.getByRole("button", { name: "Submit" }).dblclick();
  await page.getByText("The same by command line").waitFor();
  assert.equal((await api<{ total: number }>("/v1/clusters/lab/jobs")).total, before + 1);
  assert.deepEqual(
    faults.filter(f => !/422/.test(f)),
    [],
  );
  await page.context().close();
});

test("a solve shows its proof and how to check it", async () => {
  const instance = {
    hare: "instance/v1",
    cluster: { nodes: [{ name: "a", gpus: { V100: 2 } }] },
    jobs: [{ id: "bert", rounds: 3, tasks: 2, sync: "gang", on: { V100: { compute_s: 2, sync_s: 1 } } }],
  };
  await api("/v1/solves", { instance, options: { work_limit: 50 }, name: "<b>one" });
  await api("/v1/solves", { instance, options: { work_limit: 60, order: "paper" }, name: "two" });
  const { page, faults } = await visit("#/solves", phone);
  // Two are chosen by keyboard and compared.
  await page.getByRole("checkbox", { name: "Compare <b>one" }).press("Space");
  await page.getByRole("checkbox", { name: "Compare two" }).press("Space");
  await page.getByRole("link", { name: "compare the two" }).press("Enter");
  await page.getByText("Their plans are equally good. They are at most 0 % above").waitFor();
  await page.getByText("0 jobs sooner, 0 later, 1 at the same time").waitFor();
  const row = (name: string) => page.locator("tr", { hasText: name }).locator("td").allInnerTexts();
  assert.deepEqual(await row("order"), ["price", "paper"]);
  assert.deepEqual(await row("work_limit"), ["50", "60"]);
  await page.locator(".trend canvas").waitFor();
  assert.deepEqual(await violations(page), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.getByRole("link", { name: "<b>one" }).click();
  await page.getByText(/^hare verify instance.json result.json/m).waitFor();
  await page.getByText(/^Proved: /).waitFor();
  await page.getByRole("link", { name: "the schedule as a chart" }).click();
  await page.locator("canvas").waitFor();
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("reports are searched and opened, and a plan says what to buy", async () => {
  const { page, faults } = await visit("#/reports", phone);
  assert.equal(await page.locator("tbody tr").count(), 3);
  await page.getByLabel("search").fill("NEXT");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "next year" }).press("Enter");
  await page.getByText("V100=2 under now (slurm) reaches").waitFor();
  const row = page.locator("tr", { hasText: "V100=2" });
  assert.match((await row.innerText()).replace(/\s+/g, " "), /^V100=2 now \(slurm\) 0 s 0 s .* 840 100 %$/);
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "save the table" }).click();
  assert.match(
    readFileSync(await (await saved).path(), "utf8"),
    /^option,policy,[^]*\nV100=2,now \(slurm\),0,/,
  );
  await page.getByRole("link", { name: "the page" }).click();
  await page.getByText("What this cluster needs").waitFor();
  await page.goBack();
  await page.evaluate(() => void (location.hash = "#/reports/capacity%2Fnobody"));
  await page.getByRole("alert").waitFor();
  assert.deepEqual(
    faults.filter(f => !/404/.test(f)),
    [],
  );
  await page.context().close();
});

test("a killed server: the page says since when it is stale, and recovers by itself", async () => {
  const { page } = await visit("#/c/lab", wide);
  await page.getByText("All is well").waitFor();
  await server.stop();
  await page.getByText(/No answer since \d\d:\d\d/).waitFor();
  assert.ok(await page.getByText("nodes in service").isVisible());
  server = await start();
  await page.getByText(/No answer since/).waitFor({ state: "detached" });
  await page.context().close();
});

test("keys: one is asked for, kept in memory alone, and what it may not do is not offered", async () => {
  const at = mkdtempSync(join(pages, "keys-"));
  const make = (role: string) =>
    /hare_\S+/.exec(hare("key", "create", "--data-dir", at, "--tenant", "lab", "--role", role))![0];
  const [read, solve] = [make("read"), make("solve")];
  const locked = await serve("--data-dir", at, "--require-keys");
  try {
    const headers = { Authorization: `Bearer ${solve}`, "Content-Type": "application/json" };
    const body = JSON.stringify({ command: ["train"] });
    const r = await fetch(`${locked.url}/v1/clusters/lab/jobs`, { method: "POST", headers, body });
    assert.equal(r.status, 201);
    const { page } = await visit("#/c/lab/jobs/j1", wide, locked.url);
    const enter = async (key: string) => {
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "open" }).click();
    };
    await enter("hare_nonsense");
    await page.getByRole("alert").waitFor();
    await enter(read);
    await page.getByText("Why does it wait?").waitFor();
    await page.getByText("submitted").waitFor();
    assert.equal(await page.getByRole("button", { name: "cancel the job" }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "Submit" }).count(), 0);
    await page.evaluate(() => void (location.hash = "#/c/lab/submit"));
    await page.getByText("This key may not submit jobs.").waitFor();
    await page.goBack();
    const stored = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    assert.doesNotMatch(stored, /hare_/);
    await page.getByRole("button", { name: "log out" }).click();
    await enter(solve);
    await page.getByRole("button", { name: "cancel the job" }).waitFor();
    await page.reload();
    await page.getByLabel("API key").waitFor();
    await page.context().close();
  } finally {
    await locked.stop();
  }
});

test("an empty server teaches, with its own address", async () => {
  const empty = await serve();
  try {
    const { page, faults } = await visit("", wide, empty.url);
    await page.getByText("This server is empty").waitFor();
    const commands = await page.locator(".copy pre").allInnerTexts();
    assert.equal(commands.length, 3);
    for (const c of commands) assert.ok(c.includes(`--server ${empty.url}`), c);
    assert.deepEqual(faults, []);
    await page.context().close();
  } finally {
    await empty.stop();
  }
});

test("what a helper beside Slurm keeps is the first screen, and says since when it is stale", async () => {
  const dir = mkdtempSync(join(pages, "slurm-"));
  const [bin, kept] = [join(dir, "bin"), join(dir, "kept")];
  mkdirSync(bin);
  // A Slurm of one node with two GPUs, on which one job runs and two wait.
  const job = (id: number, name: string, state: string, gpus: number, more = {}) => ({
    ...{ job_id: id, name, user_name: "ann", partition: "gpu", job_state: state, state_reason: "Priority" },
    ...{ submit_time: Math.floor(Date.now() / 1e3) - 600, time_limit: 240, node_count: 1 },
    ...{ tres_per_node: `gres:gpu:${gpus}`, ...more },
  });
  const begun = { start_time: Math.floor(Date.now() / 1e3) - 300, nodes: "n1", gres_detail: ["gpu:v100:2"] };
  const queue = {
    jobs: [
      job(101, "large", "RUNNING", 2, begun),
      job(102, hostile, "PENDING", 2),
      job(103, "small", "PENDING", 1),
    ],
  };
  const node = "NodeName=n1 CPUTot=8 AvailableFeatures=v100 Gres=gpu:v100:2 State=IDLE Partitions=gpu";
  const script = (name: string, text: string) =>
    writeFileSync(join(bin, name), "#!/bin/sh\n" + text, { mode: 0o755 });
  script(
    "scontrol",
    `case "$*" in *node*) echo "${node}" ;; *) echo "PriorityType = priority/multifactor" ;; esac\n`,
  );
  writeFileSync(join(dir, "queue.json"), JSON.stringify(queue));
  script("squeue", `[ "$1" = --json ] && cat "${dir}/queue.json"\n`);
  script("sprio", `echo "102|1|0"; echo "103|1|0"\n`);
  execFileSync(need("HARE"), ["slurm", "--once", "--interval", "1h", "--dir", kept], {
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"]}` },
  });
  const following = await serve("--follow", `slurm=${kept}`, "--follow", `ray=${join(dir, "later")}`);
  try {
    for (const options of [wide, phone]) {
      const { page, faults } = await visit("", options, following.url);
      await page.getByText("2 jobs wait. The next one starts in about").waitFor();
      await page.getByText("session.json is not there: hare ray writes it").waitFor();
      for (const text of ["102", "103", "small", "large", "n1/0 and n1/1"])
        assert.ok(await page.getByRole("cell", { name: text, exact: true }).count(), text);
      assert.equal(await page.locator("h1").count(), 1);
      await page.getByLabel("it runs for").fill("30 min");
      await page.getByText(/^It starts in about \d/).waitFor();
      assert.deepEqual(await violations(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "sideways");
      assert.notEqual(await page.title(), "bad");
      assert.deepEqual(
        faults.filter(f => !f.includes("503")), // of the session that is not there yet
        [],
      );
      if (options === phone) {
        const state = JSON.parse(readFileSync(join(kept, "session.json"), "utf8")) as { written: string };
        state.written = new Date(Date.now() - 5 * 3600e3).toISOString();
        writeFileSync(join(kept, "next"), JSON.stringify(state));
        renameSync(join(kept, "next"), join(kept, "session.json"));
        await page.getByText("hare slurm has said nothing since").waitFor();
      }
      await page.context().close();
    }
  } finally {
    await following.stop();
  }
});
