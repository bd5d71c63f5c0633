import assert from "node:assert/strict";
import { test } from "node:test";
import { ABOVE, BELOW, chartOf } from "../src/gantt/data.js";
import { brackets, nodeGaps, Rows } from "../src/gantt/view.js";

test("nodes have gaps and brackets, and the GPUs of a task are one block", () => {
  // Two nodes of two A100s in one rack, one of another rack, and one of two T4s.
  const span = (job: number) => [job, 0, 1, 0, 10, 0, 0, 1];
  const lane = (gpu: string, type: number, job: number): [string, number, number[], number[]] => [
    gpu,
    type,
    [],
    span(job),
  ];
  const chart = chartOf({
    title: "",
    figures: "",
    size: "",
    unit: 1,
    end: 10,
    counts: ["8", "1"],
    palette: ["#cc6677"],
    legend: [],
    legendHead: "",
    fields: 8,
    types: ["A100", "T4"],
    jobs: [
      ["pair", "1", "rigid", 1, 4, 0, 0, 10, { gpus: 2 }],
      ["one", "1", "rigid", 1, 2, 0, 0, 10],
    ],
    lanes: [
      lane("a/0", 0, 0),
      lane("a/1", 0, 0),
      lane("b/0", 0, 0),
      lane("b/1", 0, 0),
      lane("b/2", 0, 0),
      lane("b/3", 0, 0),
      lane("c/0", 0, 1),
      lane("c/1", 0, 1),
      lane("t/0", 1, 1),
    ],
    nodes: [
      ["a", ["e", "r1"], 2, []],
      ["b", ["e", "r1"], 4, []],
      ["c", ["w", "r1"], 2, []],
      ["t", ["", ""], 1, []],
    ],
  });
  const types = chart.lanes.map(l => l.type);
  assert.deepEqual(nodeGaps(types, chart.nodes), [0, 0, 2, 0, 0, 0, 6, 0, 0]);
  // Racks of one name in two zones have brackets of their own.
  assert.deepEqual(
    brackets(types, chart.nodes, n => n.racks[1]!, 1),
    [
      { name: "r1", first: 0, last: 5 },
      { name: "r1", first: 6, last: 7 },
    ],
  );
  assert.deepEqual(
    brackets(types, chart.nodes, n => n.racks[0]!),
    [
      { name: "e", first: 0, last: 5 },
      { name: "w", first: 6, last: 7 },
    ],
  );
  assert.deepEqual(
    chart.lanes.map(l => l.block[0]),
    [BELOW, ABOVE, BELOW, ABOVE, BELOW, ABOVE, 0, 0, 0],
  );
  assert.deepEqual(
    chart.lanes.map(l => l.blockLanes[0]),
    [2, 1, 2, 1, 2, 1, 1, 1, 1],
  );
  const rows = new Rows(types, nodeGaps(types, chart.nodes));
  rows.resize(10);
  assert.deepEqual([...rows.tops], [0, 10, 22, 32, 42, 52, 68, 78, 98]);
  assert.equal(rows.at(21), -1);
  assert.equal(rows.at(98), 8);
});
