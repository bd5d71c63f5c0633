import assert from "node:assert/strict";
import { test } from "node:test";
import { messages } from "../src/console/api.js";
import { faultsOf, goodness, queueLine, useOf, wellness } from "../src/console/health.js";
import { rowOf } from "../src/console/jobs.js";
import { choices, colouring } from "../src/console/colouring.js";
import { chartFrom, chartOf, lanesOf, runs } from "../src/console/spans.js";
import type { Agent } from "../src/console/store.js";

const now = Date.parse("2026-11-25T12:00:00Z");

function agent(name: string, type: string, more: Partial<Agent> = {}): Agent {
  const device = (i: number) => ({ gpu: `${name}/${i}`, type, state: "free" as const });
  return {
    name,
    version: "1",
    state: "ready",
    seen_s: 1,
    heard: now - 1e3,
    devices: [device(0), device(1)],
    ...more,
  };
}

const typeOf = (gpu: string) => (gpu.startsWith("a") ? "V100" : "T4");
const runningOn = (...gpus: string[]) => [
  { attempt: 1, ordered: "", tasks: [{ task: 0, agent: "a", gpus, state: "running" }] },
];

test("server-sent events, however they are cut", () => {
  const text = 'id: 4\nevent: changes\ndata: {"seq":4,\ndata: "jobs":[]}\n\n: heartbeat\n\ndata: x\r\n\r\n';
  const want = [
    { id: "4", event: "changes", data: '{"seq":4,\n"jobs":[]}' },
    { id: "", event: "message", data: "x" },
  ];
  for (let cut = 0; cut <= text.length; cut++) {
    const split = messages();
    if (text[cut] === "\n" && text[cut - 1] === "\r") continue;
    assert.deepEqual([...split(text.slice(0, cut)), ...split(text.slice(cut))], want, `cut at ${cut}`);
  }
});

test("the first screen says what is wrong, in words", () => {
  const well = [agent("a", "V100"), agent("b", "T4")];
  assert.deepEqual(wellness({ agents: well, session: null }), {
    well: true,
    text: "All is well: 2 nodes are in service.",
  });
  const b = agent("b", "T4");
  b.devices[1] = { ...b.devices[1]!, state: "quarantined", reason: "XID 79" };
  const bad = [agent("a", "V100", { state: "lost", heard: now - 300e3 }), b];
  assert.equal(
    wellness({ agents: bad, session: null }).text,
    "Not all is well: a is lost and 1 GPU is in quarantine.",
  );
  assert.deepEqual(faultsOf(bad, now), ["a is lost: not heard for 5 min", "b/1 is in quarantine: XID 79"]);
  assert.deepEqual(useOf(bad), [
    { type: "T4", inService: 1, busy: 0, faulty: 1 },
    { type: "V100", inService: 0, busy: 0, faulty: 2 },
  ]);
  // A GPU at fault has its job until the job has ended.
  const ill = agent("c", "T4");
  ill.devices[0] = { ...ill.devices[0]!, state: "busy", reason: "XID 79", job: "j1" };
  assert.equal(wellness({ agents: [ill], session: null }).well, false);
  assert.deepEqual(useOf([ill]), [{ type: "T4", inService: 1, busy: 0, faulty: 1 }]);
  const rows = [600, 7200].map((s, i) =>
    rowOf({ id: `j${i}`, state: "waiting", submitted: "", gpus: 2, expected_in_s: s }, now, typeOf),
  );
  assert.match(
    queueLine(rows, now),
    /^2 jobs wait for 4 GPUs\. The next one starts in about 10 min, .*; the last at about \d/,
  );
  const unplanned = rowOf({ id: "j9", state: "waiting", submitted: "", gpus: 1 }, now, typeOf);
  assert.match(queueLine([...rows, unplanned], now), /; the last at about .*\. 1 job has no time yet\.$/);
  assert.equal(queueLine([], now), "Nothing waits.");
  assert.equal(goodness({ gap: 0.033101 }), "Proved: the plan is at most 3.4 % above the best possible one.");
  assert.equal(goodness(null), "This policy makes no plan.");
});

test("a chart of what the page knows", () => {
  const lanes = lanesOf([agent("b10", "T4"), agent("b9", "T4"), agent("a1", "V100")]);
  assert.deepEqual(
    lanes.map(l => l.gpu),
    ["b9/0", "b9/1", "b10/0", "b10/1", "a1/0", "a1/1"],
  );
  const job = (id: string, more: object) =>
    rowOf({ id, state: "waiting", submitted: "", ...more }, now, typeOf);
  const chart = chartOf(
    [
      job("j1", {
        state: "running",
        started: "2026-11-25T11:00:00Z",
        attempts: runningOn("a1/0", "a1/1"),
        gpus: 2,
        expected_end_in_s: 600,
      }),
      job("j2", {
        expected_in_s: 600,
        expected_end_in_s: 900,
        earliest_end_in_s: 300,
        gpus: 2,
        on: { V100: 300 },
      }),
      job("j3", {
        state: "succeeded",
        started: "2026-11-25T10:00:00Z",
        ended: "2026-11-25T11:00:00Z",
        attempts: runningOn("b9/0"),
      }),
    ],
    lanes,
    now,
  );
  const of = (id: string) => chart.spans.find(s => s.job === id)!;
  assert.deepEqual([of("j1").kind, of("j1").lanes, of("j1").open], ["now", [4, 5], false]);
  assert.deepEqual([of("j2").kind, of("j2").lanes, of("j2").earliest], ["plan", [4, 5], now + 300e3]);
  assert.equal(of("j3").kind, "past");
  assert.deepEqual(runs([0, 1, 4, 6, 7]), [
    [0, 1],
    [4, 4],
    [6, 7],
  ]);
});

test("a chart that the server makes keeps its rows, in the page's order", () => {
  const chart = chartFrom(
    {
      now: "2026-11-25T12:00:00Z",
      rows: [
        { gpu: "z/0", type: "V100", node: "z" },
        { gpu: "a/0", type: "T4", node: "a" },
      ],
      spans: [
        {
          job: "j5",
          rows: [0],
          from: "2026-11-25T12:10:00Z",
          to: "2026-11-25T13:00:00Z",
          kind: "plan",
          earliest_end: "2026-11-25T12:50:00Z",
        },
      ],
    },
    () =>
      rowOf(
        { id: "j5", state: "waiting", submitted: "", user: "ann", reason_code: "planned_later" },
        now,
        typeOf,
      ),
  );
  assert.deepEqual(
    chart.lanes.map(l => l.gpu),
    ["a/0", "z/0"],
  );
  assert.deepEqual(chart.spans[0]!.lanes, [1]);
  assert.equal(chart.spans[0]!.earliest, now + 3000e3);
  assert.deepEqual([chart.spans[0]!.user, chart.spans[0]!.cause], ["ann", "planned later"]);
});

test("spans are coloured by what jobs have in common", () => {
  const rows = [1, 2, 2, 3, 5, 8, 13].map((weight, i) =>
    rowOf(
      {
        id: `j${i}`,
        state: "waiting",
        submitted: "2026-11-25T11:00:00Z",
        user: i % 3 ? "ann" : "bob",
        weight,
        expected_in_s: 60,
        ...(i ? { reason_code: "busy" } : {}),
      },
      now,
      typeOf,
    ),
  );
  const lanes = [0, 1].map(i => ({ gpu: `a/${i}`, type: "V100", node: "a" }));
  const { spans } = chartOf(rows, lanes, now);
  assert.equal(spans.length, 7);
  assert.deepEqual(choices(spans, "job"), ["job", "user", "name", "weight", "cause"]);
  assert.deepEqual(choices(spans.slice(1, 2), "cause"), ["job", "name", "cause"]);
  const user = colouring(spans, "user");
  assert.deepEqual(
    user.key.map(([text]) => text),
    ["ann", "bob"],
  );
  assert.equal(user.of(spans[1]!), user.key[0]![1]);
  const weight = colouring(spans, "weight");
  assert.deepEqual(
    weight.key.map(([text]) => text),
    ["1 to 2", "3", "5", "8", "13"],
  );
  assert.deepEqual(
    spans.map(s => weight.of(s)),
    [0, 0, 0, 1, 2, 3, 4].map(i => weight.key[i]![1]),
  );
  assert.deepEqual(
    colouring(spans, "cause").key.map(([text]) => text),
    ["busy", "not known"],
  );
});
