// The installed package against hare serve at HARE_URL.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { EventRefused, generated, Hare, isDone, Problem } from "hare-client";

const read = (name) => JSON.parse(readFileSync(`${process.env.HARE_ROOT}/${name}`, "utf8"));
const readme = read("client/conformance/readme.instance.json");
const three = read("testdata/examples/three-jobs.instance.json");
const kept = "/v1/solves/{id}" in read("openapi/openapi.json").paths;
const hare = new Hare({ url: process.env.HARE_URL, key: process.env.HARE_KEY, insecure: true });

test("the example of the README", async () => {
  const result = await hare.solve(readme);
  assert.deepEqual(
    [result.value, result.bound, result.gap, result.status, result.termination],
    [30, 30, 0, "succeeded", "optimal"],
  );
  assert.equal((await hare.verify(readme, result)).ok, true);
  result.schedule.lanes[0].start_us[0]++;
  const report = await hare.verify(readme, result);
  assert.equal(report.ok, false);
  assert.ok(report.faults[0].constraint);
});

test("nodes, running work, deadlines and setups", async () => {
  const instance = {
    hare: "instance/v1",
    objective: "jct_and_tardiness",
    cluster: {
      topology: ["rack"],
      nodes: [{ name: "a", gpus: { A100: 2 }, cpus: 8, labels: { rack: "r1" } }],
      reservations: [{ nodes: { rack: "r1" }, until_s: 10, users: ["ann"] }],
    },
    quota: [{ user: "ann", gpus: 2 }],
    jobs: [
      {
        id: "run",
        sync: "rigid",
        on: { A100: { compute_s: 15 } },
        progress: { gpus: ["a/0"], elapsed_s: 10 },
      },
      {
        id: "train",
        sync: "gang",
        user: "ann",
        within: "rack",
        deadline_s: 10,
        late_weight: 1,
        shapes: [{ tasks: 2, counts: 2, on: { A100: { compute_s: 9, sync_s: { node: 1, any: 2 }, switch_s: 3 } } }],
      },
    ],
  };
  const result = await hare.solve(instance, { bound: "critical_path" });
  assert.equal((await hare.verify(instance, result)).ok, true);
  const { deadlines, setups } = result.metrics;
  assert.deepEqual([result.value, result.constant], [18 + 8, 5]);
  assert.deepEqual([deadlines.jobs, deadlines.met, deadlines.tardiness_s], [1, 0, 8]);
  assert.deepEqual([setups.count, setups.time_s], [2, 6]);
});

test("a session with nodes and quotas", async () => {
  const s = await hare.createSession({ nodes: [{ name: "a", gpus: { A100: 2 } }] }, { policy: "fifo" });
  const job = { user: "ann", sync: "gang", gpus_per_task: 2, on: { A100: { compute_s: 5 } } };
  const answers = await hare.apply(s.id, [
    { seq: 1, at_s: 0, type: "set_quota", quota: { user: "ann", gpus: 2 } },
    { seq: 2, at_s: 0, type: "job_arrived", job: { ...job, id: "x" } },
    { seq: 3, at_s: 0, type: "node_joined", node: "b", gpus: { A100: 2 }, cpus: 8 },
    { seq: 4, at_s: 0, type: "job_arrived", job: { ...job, id: "y" } },
    { seq: 5, at_s: 1, type: "set_quota", quota: { user: "ann", gpus: 4 } },
  ]);
  const started = answers.map((a) => a.decisions.map((d) => [d.job, d.gpus]));
  assert.deepEqual(started, [[], [["x", ["a/0", "a/1"]]], [], [], [["y", ["b/0", "b/1"]]]]);
  await hare.deleteSession(s.id);
});

test("planning again", async () => {
  const first = await hare.solve(readme);
  const again = await hare.solve(readme, undefined, { replan: { previous: first, at_s: 5, stability: 0.5 } });
  assert.notEqual(again.instance_sha256, first.instance_sha256); // of what is left
  assert.notEqual(again.value, null);
});

test("bound", async () => {
  const b = await hare.bound(readme, "critical_path");
  assert.deepEqual([b.bound, b.certified, b.certificate.bound], [30, true, "30.000000"]);
});

test("faults have pointers", async () => {
  const wrong = structuredClone(readme);
  wrong.jobs[0].weight = -3;
  await assert.rejects(hare.solve(wrong, { gap: 7 }), (p) => {
    assert.ok(p instanceof Problem && p.requestId);
    assert.deepEqual([p.status, p.code], [422, "out_of_range"]);
    assert.deepEqual(
      p.errors.map((e) => e.pointer),
      ["/instance/jobs/0/weight", "/options/gap"],
    );
    return true;
  });
});

test("generated operations", async () => {
  const { data } = await generated.version({ client: hare.api });
  assert.deepEqual(data, await hare.version());
});

test("session", async () => {
  const s = await hare.createSession(readme.cluster, { policy: "fifo" });
  const events = [
    { seq: 1, at_s: 0, type: "job_arrived", job: { id: "bert", on: { V100: {} } } },
    { seq: 2, at_s: 1, type: "tick" },
  ];
  const answers = await hare.apply(s.id, events);
  assert.equal(answers[0].decisions[0].gpu, "a/0");
  assert.deepEqual(await hare.apply(s.id, events), answers); // recorded
  await assert.rejects(
    hare.apply(s.id, [{ seq: 9, at_s: 2, type: "tick" }]),
    (e) => e instanceof EventRefused && e.error.expected === 3,
  );
  for await (const change of hare.sessionChanges(s.id)) {
    assert.deepEqual([change.reset, change.gpus], [true, []]);
    break;
  }
  for await (const a of hare.decisions(s.id, 1)) {
    assert.deepEqual(a, answers[1]);
    break;
  }
  assert.equal((await hare.session(s.id)).last_seq, 2);
  const regret = await hare.regret(s.id, "srtf");
  assert.deepEqual([regret.jobs.running, regret.against.policy, regret.against.stalled], [1, "srtf", 0]);
  await assert.rejects(hare.regret(s.id, "srft"), { status: 400 });
  const ids = [];
  for await (const x of hare.sessions()) ids.push(x.id);
  assert.ok(ids.includes(s.id));
  await assert.rejects(hare.sessionPlan(s.id), { status: 404, code: "no_plan" });
  await assert.rejects(hare.previewSessionJob(s.id, { id: "new", on: { V100: {} } }), { code: "no_plan" });
  await hare.deleteSession(s.id);
  await assert.rejects(hare.session(s.id), { status: 404 });
});

// The test is the agent of a node.
test("a job of a managed cluster", async () => {
  const lab = `lab-ts-${process.pid}`;
  assert.equal((await hare.createCluster({ name: lab, policy: "fifo" })).policy, "fifo");
  const bert = { command: ["train"], gpus: 1, on: { T4: 0 }, name: "bert" };
  const job = await hare.submitJob(lab, bert, "one");
  assert.deepEqual([(await hare.submitJob(lab, bert, "one")).id, job.state], [job.id, "waiting"]);
  let after = 0;
  for await (const change of hare.clusterChanges(lab)) {
    assert.deepEqual([change.reset, change.removed], [true, []]);
    after = change.seq;
    break;
  }
  const later = await hare.submitJob(lab, { command: ["true"] });
  const held = await hare.changeJob(lab, later.id, { hold: true, labels: { team: "a", x: null }, reason: "night" });
  assert.deepEqual([held.reason_code, held.labels.team, held.changes[0].reason], ["held", "a", "night"]);
  await assert.rejects(hare.previewChange(lab, later.id, { weight: 3 }), { code: "no_plan" });
  await hare.cancelJob(lab, later.id);
  for await (const change of hare.clusterChanges(lab, after)) {
    assert.equal(change.reset, false);
    if (change.removed.includes(later.id)) break;
  }
  const history = await hare.clusterHistory(lab, { from: new Date(Date.now() - 3600e3), stepS: 3600 });
  assert.ok(history.at(-1).waiting_gpus > 0 && history.at(-1).started === 0);
  await assert.rejects(hare.jobLog(lab, job.id).next(), { code: "not_started" });
  await assert.rejects(hare.submitJob(lab, {}), (e) => e instanceof Problem && e.errors[0].pointer === "/command");

  const call = { client: hare.api, path: { cluster: lab, agent: "n1" } };
  const me = { protocol: 4, version: "test", name: "n1", incarnation: "0123456789abcdef" };
  const { data: registered } = await generated.registerAgent({ ...call, body: { ...me, devices: [{ type: "T4" }] } });
  call.headers = { "Hare-Agent-Secret": registered.secret };
  const sync = { epoch: registered.epoch, wait_s: 2, reports_after: 0, orders_seen: 0 };
  let orders;
  while (!orders?.length) orders = (await generated.syncAgent({ ...call, body: sync })).data.orders;
  const { job: id, attempt, task, number } = orders[0];
  const print = async (offset, text) => {
    const query = new URLSearchParams({ job: id, attempt, task, epoch: sync.epoch, stream: "stdout", offset });
    const headers = { ...call.headers, "Content-Type": "application/octet-stream" };
    if (process.env.HARE_KEY) headers.Authorization = `Bearer ${process.env.HARE_KEY}`;
    const url = `${process.env.HARE_URL}/v1/clusters/${lab}/agents/n1/logs?${query}`;
    assert.equal((await fetch(url, { method: "POST", body: text, headers })).status, 200);
  };
  await print(0, "epoch 1\n");
  const follow = hare.jobLog(lab, job.id, { follow: true });
  assert.equal(Buffer.from((await follow.next()).value).toString(), "epoch 1\n");
  assert.deepEqual((await hare.drain(lab, "n1", "new fans")).map((a) => a.state), ["draining"]);
  await print(8, "epoch 2\n");
  const reports = [{ job: id, attempt, task, state: "ended", exit_code: 0 }];
  await generated.syncAgent({ ...call, body: { ...sync, wait_s: 0, orders_seen: number, reports } });
  let rest = "";
  for await (const piece of follow) rest += Buffer.from(piece);
  assert.equal(rest, "epoch 2\n");
  assert.equal((await hare.waitJob(lab, job.id, AbortSignal.timeout(60_000))).state, "succeeded");
  assert.deepEqual((await hare.agents(lab)).map((a) => a.state), ["drained"]);
  assert.deepEqual((await hare.undrain(lab, "n1")).map((a) => a.state), ["ready"]);
  const names = [];
  for await (const j of hare.clusterJobs(lab, "succeeded")) names.push(j.name);
  assert.deepEqual(names, ["bert"]);
  assert.equal((await hare.cancelJob(lab, job.id)).state, "succeeded");
  assert.equal((await hare.cluster(lab)).free_gpus, 1);
  assert.ok((await hare.clusters()).some((c) => c.name === lab));
  await hare.deleteCluster(lab);
  await assert.rejects(hare.cluster(lab), { status: 404 });
});

test("plan of a session", async () => {
  const s = await hare.createSession(readme.cluster);
  assert.equal(s.policy, "rolling");
  assert.equal((await hare.sessionPlan(s.id)).fallback, "hgittins");
  const job = { id: "bert", on: { V100: { compute_s: 2 } } };
  await hare.apply(s.id, [{ seq: 1, at_s: 0, type: "job_arrived", job }]);
  const plan = await hare.sessionPlan(s.id);
  assert.deepEqual(
    plan.jobs.map((x) => [x.job, x.running, x.types]),
    [["bert", true, ["V100"]]],
  );
  assert.equal(plan.jobs[0].earliest_end_s, 2 * plan.jobs[0].rounds_left);
  await hare.deleteSession(s.id);
});

test("meaning", async () => {
  const { id } = await hare.submit(three, { seed: 12, work_limit: 2000 });
  await hare.wait(id);
  const listed = await hare.jobs(id, { sort: "end", limit: 2 });
  assert.deepEqual([listed.count, listed.jobs.length], [3, 2]);
  const { jobs } = await hare.result(id);
  const last = jobs.reduce((a, b) => (a.end_s > b.end_s ? a : b));
  const why = await hare.explain(id, last.id, { earlier_s: 0.5, time_limit_s: 5 });
  assert.deepEqual([why.outcome, why.end_s, why.earlier.by_s], ["scheduled", last.end_s, last.end_s - 0.5]);
  const prices = await hare.prices(id);
  assert.equal(prices.grid_s.length, prices.types[0].prices.length + 1);
  await assert.rejects(hare.explain(id, "ver/t"), { code: "no_such_job" });
  const lines = [];
  for await (const l of hare.whatIf({
    base: { solve_id: id },
    scenarios: [{ id: "x", drain: { node: "b", at_s: 9 } }],
  }))
    lines.push(l);
  assert.deepEqual(
    lines.map((l) => l.line),
    ["base", "scenario", "summary"],
  );
  const kept = (await hare.whatIfs().next()).value;
  assert.deepEqual(await hare.keptWhatIf(kept.id), lines);
  await hare.deleteWhatIf(kept.id);
  await assert.rejects(hare.keptWhatIf(kept.id), { code: "gone" });
  assert.match(await hare.schedule(id, "text/csv"), /^gpu,type,job,/);
});

test("capacity", async () => {
  const ask = { instance: three, options: ["V100=2"], weeks: 2, days: 1, time_limit_s: 20 };
  const report = await hare.capacity(ask);
  assert.deepEqual(
    report.rows.map((row) => row.option),
    ["as it is", "V100=2"],
  );
  const lines = [];
  const named = { ...ask, name: "night", labels: { team: "vision" } };
  for await (const l of hare.followCapacity(named)) lines.push(l);
  assert.equal(lines[0].line, "progress");
  assert.deepEqual(lines.at(-1).report, report);
  const kept = (await hare.capacityPlans({ q: "night", label: ["team=vision"] }).next()).value;
  assert.deepEqual(await hare.keptCapacity(kept.id), report);
  await hare.deleteCapacity(kept.id);
  await assert.rejects(hare.keptCapacity(kept.id), { code: "gone" });
  const wrong = hare.capacity({ ...ask, options: ["V100=2", "more"] });
  await assert.rejects(wrong, (e) => e.errors[0].pointer === "/options/1");
});

test("simulations", async () => {
  const ask = { policies: ["srtf", "kueue"], instance: three, repeat: 2, detail: "jobs" };
  const { runs, means } = await hare.simulate(ask);
  assert.deepEqual(
    runs.map((r) => [r.policy, r.seed, r.verified]),
    [
      ["srtf", 0, true],
      ["srtf", 1, true],
      ["kueue", 0, true],
      ["kueue", 1, true],
    ],
  );
  assert.equal(Math.max(...runs[0].each.map((job) => job.end_s)), runs[0].makespan_s);
  assert.equal(means[1].figures.mean_jct_s.mean, runs[2].mean_jct_s);
  const lines = [];
  const named = { ...ask, name: "night", labels: { team: "vision" } };
  for await (const l of hare.followSimulation(named)) if (l.run) lines.push(l.run.mean_jct_s);
  assert.deepEqual(
    lines,
    runs.map((r) => r.mean_jct_s),
  );
  const kept = (await hare.simulations({ q: "night", label: ["team=vision"] }).next()).value;
  assert.deepEqual((await hare.keptSimulation(kept.id)).runs, runs);
  await hare.deleteSimulation(kept.id);
  await assert.rejects(hare.keptSimulation(kept.id), { code: "gone" });
  await assert.rejects(hare.simulate({ ...ask, policies: ["srft"] }), (e) => e.errors[0].pointer === "/policies/0");
  const elastic = { policies: ["pollux:tiresias"], trace: { name: "pollux_workload_6.csv" }, interval_s: 3600 };
  assert.equal((await hare.simulate(elastic)).runs[0].engine, "elastic");
  const wrong = hare.simulate({ ...elastic, interval_s: 0.5, prices: { T4: -1 } });
  await assert.rejects(wrong, (e) => e.errors.map((f) => f.pointer).join() === "/interval_s,/prices/T4");
});

test("keys", { skip: !process.env.HARE_KEY && "no keys" }, async () => {
  const client = hare.api;
  const { data: made } = await generated.createKey({ client, body: { role: "read", note: "of a test" } });
  const reader = new Hare({ url: process.env.HARE_URL, key: made.key });
  await assert.rejects(reader.solve(readme), { status: 403, code: "forbidden" });
  const { data: list } = await generated.listKeys({ client });
  assert.ok(list.keys.some((key) => key.id === made.id && !key.key));
  assert.equal((await generated.getQuota({ client })).data.tenant, made.tenant);
  assert.equal((await generated.revokeKey({ client, path: { id: made.id } })).response.status, 204);
  await assert.rejects(reader.session("x"), { status: 401 });
});

test("kept solves", { skip: !kept && "the specification has no asynchronous solves" }, async () => {
  const seen = [];
  const result = await hare.solve(readme, { seed: 4 }, { progress: (e) => seen.push(e) });
  assert.equal(result.value, 30);
  assert.deepEqual(
    seen.map((e) => e.id),
    seen.map((_, i) => i + 1),
  );
  assert.equal(seen.at(-1).type, "done");
  const { id } = await hare.submit(three, { time_limit_s: 60, gap: 0 });
  assert.equal((await hare.cancel(id)).id, id);
  assert.ok(isDone(await hare.wait(id)));
  const again = [];
  for await (const e of hare.events(id, 1)) again.push(e.id);
  assert.deepEqual(
    again,
    again.map((_, i) => i + 2),
  );
  await hare.delete(id);
  await assert.rejects(hare.get(id), (p) => [404, 410].includes(p.status));
});
