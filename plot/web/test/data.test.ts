import assert from "node:assert/strict";
import { test } from "node:test";
import { about, spot } from "../src/gantt/describe.js";
import {
  above,
  chartOf,
  freePlace,
  lanesOf,
  setupAt,
  spanAt,
  type MoreOfJob,
  type PageData,
} from "../src/gantt/data.js";
import { spansOf } from "./spans.js";

const S = 1e6;

// There are two GPUs; times are in quarters of a second. Job a has three rounds, which
// begin 2 s apart and are 1.5 s long; job b follows. The second GPU is away for the
// first 2.5 s and from 10 s on.
const data: PageData = {
  title: "t",
  figures: "f",
  size: "s",
  unit: S / 4,
  end: 8 * S,
  types: ["V100"],
  counts: ["2"],
  palette: ["#cc6677"],
  legend: [0, 1],
  legendHead: "",
  jobs: [
    ["a", "2", "gang", 3, 2, 0, 0, 5.5 * S],
    ["b", "1", "relaxed", 1, 1, S, 6 * S, 8 * S],
    ["elsewhere", "1", "rigid", 1, 1, 0, 0, 0],
  ],
  lanes: [
    ["n/0", 0, [], 2],
    ["n/1", 0, [0, 10, 40, -1], 1],
  ],
};

const chart = chartOf(
  data,
  spansOf(8, [
    [0, 0, 3, 8, 6, 1, 0, 1, 1, 24, 1, 0, 8, 0, 0, 1],
    [0, 12, 1, 0, 6, 1, 2, 2],
  ]),
);
const [first, second] = [chart.lanes[0]!, chart.lanes[1]!];

test("spans are decoded into microseconds", () => {
  assert.deepEqual([...first.start], [0, 6 * S]);
  assert.deepEqual([first.end(0), first.end(1)], [5.5 * S, 8 * S]);
  assert.deepEqual([first.job(0), first.job(1)], [0, 1]);
  const { period, hold, sync } = chart.kinds;
  const kind = first.kind[0]!;
  assert.deepEqual([period[kind], hold[kind], sync[kind]], [2 * S, 1.5 * S, 0.25 * S]);
  assert.deepEqual(second.away, [0, 2.5 * S, 10 * S, Infinity]);
});

test("above finds the first value above another", () => {
  for (const [v, want] of [
    [-1, 0],
    [0, 1],
    [1, 1],
    [5, 3],
    [9, 3],
  ] as const)
    assert.equal(above([0, 2, 5], 3, v), want);
  assert.equal(above([], 0, 1), 0);
});

test("the span at a time", () => {
  assert.equal(spanAt(first, 1 * S, 0), 0);
  assert.equal(spanAt(first, 5.7 * S, 0), -1); // idle between a and b
  assert.equal(spanAt(first, 5.7 * S, 0.25 * S), 0); // within a pixel of a
  assert.equal(spanAt(first, 6 * S, 0), 1);
  assert.equal(spanAt(first, 9 * S, 0), -1);
});

test("the GPUs of a job", () => {
  assert.deepEqual(lanesOf(chart, 0), [0, 1]);
  assert.deepEqual(lanesOf(chart, 1), [0]);
  assert.deepEqual(lanesOf(chart, 2), []);
});

test("what lies under the pointer", () => {
  const at = (lane: typeof first, t: number) => spot(chart, lane, spanAt(lane, t, 0), t, 8 * S);
  assert.match(
    at(first, 2.1 * S),
    /^a\nround 2 of 3\nn\/0 · V100\n2 s to 3\.5 s \(1\.5 s\)\njob: gang, weight 2, runs 0 to 5\.5 s$/,
  );
  assert.match(at(second, 3.5 * S), /round 3 of 3, 2 of its 2 tasks here/);
  assert.match(at(first, 7 * S), /weight 1, arrives 1 s, runs/);
  assert.equal(at(second, 1 * S), "n/1 · out of service or busy");
  assert.equal(at(second, 5.9 * S), "n/1 · idle");
  assert.equal(at(second, 99 * S), "n/1 · out of service or busy");
});

test("a job in one line", () => {
  assert.equal(
    about(chart, 0),
    "a · gang · weight 2 · 3 rounds of 2 tasks · runs 0 to 5.5 s · done 5.5 s after its arrival · on 2 GPUs",
  );
  assert.match(about(chart, 1), /arrives 1 s · runs 6 s to 8 s · done 7 s after its arrival · on 1 GPU$/);
  assert.match(about(chart, 2), /none of the GPUs/);
});

// One GPU of a node that is reserved from 4 s on, with three spans: work that runs at time 0 to
// 2 s, then after a setup of 1 s job s in its shape 1, two units a round, from 4 s to 8 s.
const late: MoreOfJob = {
  deadline: 6 * S,
  shapes: [
    [1, 1, 1],
    [4, 2, 2],
  ],
};
const full = chartOf(
  {
    ...data,
    unit: S,
    end: 10 * S,
    jobs: [
      ["r", "1", "rigid", 5, 1, 0, 0, 2 * S, { elapsed: 60 * S }],
      ["s", "1", "gang", 3, 1, 0, 4 * S, 8 * S, late],
    ],
    legend: [0, 1],
    lanes: [["n/0", 0, [], 2]],
    nodes: [["n", ["e", "r1"], 1, [0]]],
    levels: ["node", "x.io/rack", "any"],
    reserved: [[5 * S, 9 * S, "reserved for ops"]],
  },
  spansOf(11, [[0, 0, 1, 0, 2, 0, 0, 1, 0, 0, 0, 1, 4, 2, 2, 2, 1, 0, 1, 1, 1, 2]]),
);
const lane = full.lanes[0]!;

test("setups, shapes, spread, running work, deadlines and reservations in words", () => {
  const at = (t: number) => spot(full, lane, spanAt(lane, t, 0), t, 10 * S);
  assert.equal(
    at(1 * S),
    "r\nruns at time 0, since 60 s before\nn/0 · V100 · e/r1\n0 to 2 s (2 s)\njob: rigid, weight 1, runs 0 to 2 s",
  );
  assert.equal(at(3.5 * S), "s\nn/0 · setup of the GPU for the job\n3 s to 4 s (1 s)");
  assert.equal(
    at(7 * S),
    "s\nunit 3 of 3\nn/0 · V100 · e/r1 · one of the 2 GPUs of a task\n" +
      "shape 1: 4 tasks of 2 GPUs · spread: one rack\n6 s to 8 s (2 s)\njob: gang, weight 1, runs 4 s to 8 s\n" +
      "deadline 6 s: late by 2 s\nreserved for ops, 5 s to 9 s",
  );
  assert.match(at(4.5 * S), /^s\nunits 1 to 2 of 3\n.*\n.* · spread: one rack · after a setup of 1 s\n/);
  assert.equal(at(8.5 * S), "n/0 · idle\nreserved for ops, 5 s to 9 s");
  assert.match(
    about(full, 1),
    /3 units in shape 1: 4 tasks of 2 GPUs · .* · deadline 6 s: late by 2 s · on 1 GPU$/,
  );
  assert.match(about(full, 0), /runs at time 0, since 60 s before/);
});

test("free places have no span and no setup", () => {
  assert.deepEqual(freePlace(lane, 0, 10 * S), [8 * S, 10 * S]);
  assert.deepEqual(freePlace(lane, 0, 8 * S), [2 * S, 3 * S]);
  assert.deepEqual(freePlace(lane, 4 * S, 8 * S), [4 * S, 4 * S]);
  assert.equal(setupAt(lane, 2.9 * S, 0), -1);
  assert.equal(setupAt(lane, 3 * S, 0), 1);
  assert.equal(setupAt(lane, 9 * S, 0), -1);
});
