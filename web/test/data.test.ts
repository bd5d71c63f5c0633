import assert from "node:assert/strict";
import { test } from "node:test";
import { about, spot } from "../src/gantt/describe.js";
import { above, chartOf, lanesOf, spanAt, type PageData } from "../src/gantt/data.js";

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
    ["n/0", 0, [], [0, 0, 3, 8, 6, 1, 0, 1, 1, 24, 1, 0, 8, 0, 0, 1]],
    ["n/1", 0, [0, 10, 40, -1], [0, 12, 1, 0, 6, 1, 2, 2]],
  ],
};

const chart = chartOf(data);
const [first, second] = [chart.lanes[0]!, chart.lanes[1]!];

test("spans are decoded into microseconds", () => {
  assert.deepEqual([...first.start], [0, 6 * S]);
  assert.deepEqual([...first.end], [5.5 * S, 8 * S]);
  assert.deepEqual([...first.job], [0, 1]);
  assert.deepEqual([first.period[0], first.hold[0], first.sync[0]], [2 * S, 1.5 * S, 0.25 * S]);
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
  assert.deepEqual(lanesOf(chart.lanes, 0), [0, 1]);
  assert.deepEqual(lanesOf(chart.lanes, 1), [0]);
  assert.deepEqual(lanesOf(chart.lanes, 2), []);
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
