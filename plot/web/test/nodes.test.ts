import assert from "node:assert/strict";
import { test } from "node:test";
import { ABOVE, BELOW, chartOf, type PageData } from "../src/gantt/data.js";
import { brackets, foldsOf, nodeGaps, Rows } from "../src/gantt/view.js";
import { spansOf } from "./spans.js";

test("nodes have gaps and brackets, and the GPUs of a task are one block", () => {
  // Two nodes of two A100s in one rack, one of another rack, and one of two T4s.
  const lane = (gpu: string, type: number): [string, number, number[], number] => [gpu, type, [], 1];
  const data: PageData = {
    title: "",
    figures: "",
    size: "",
    unit: 1,
    end: 10,
    counts: ["8", "1"],
    palette: ["#cc6677"],
    legend: [],
    legendHead: "",
    types: ["A100", "T4"],
    jobs: [
      ["pair", "1", "rigid", 1, 4, 0, 0, 10, { gpus: 2 }],
      ["one", "1", "rigid", 1, 2, 0, 0, 10],
    ],
    lanes: [
      lane("a/0", 0),
      lane("a/1", 0),
      lane("b/0", 0),
      lane("b/1", 0),
      lane("b/2", 0),
      lane("b/3", 0),
      lane("c/0", 0),
      lane("c/1", 0),
      lane("t/0", 1),
    ],
    nodes: [
      ["a", ["e", "r1"], 2, []],
      ["b", ["e", "r1"], 4, []],
      ["c", ["w", "r1"], 2, []],
      ["t", ["", ""], 1, []],
    ],
  };
  const spans = [0, 0, 0, 0, 0, 0, 1, 1, 1].map(job => [job, 0, 1, 0, 10, 0, 0, 1]);
  const chart = chartOf(data, spansOf(8, spans));
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
  // Racks without a name cannot be rows.
  const folds = foldsOf(chart.lanes, chart.nodes, data.types);
  assert.deepEqual(
    folds.map(f => [f.name, ...f.rows.map(r => `${r.name} ${r.first} ${r.lanes}`)]),
    [
      ["nodes", "a 0 2", "b 2 4", "c 6 2", "t 8 1"],
      ["types", "A100 0 8", "T4 8 1"],
    ],
  );
  assert.deepEqual(foldsOf(chart.lanes, [], data.types), folds);
  const folding = new Rows(types, nodeGaps(types, chart.nodes), folds);
  folding.resize(-1, 0, 100);
  assert.deepEqual([folding.fold, folding.zoom, folding.height], [2, -1, 10]);
  assert.deepEqual([folding.total, ...[79, 95].map(y => folding.foldedAt(folding.at(y)))], [100, 0, 1]);
  folding.resize(0, 0, 18); // has no room for rows of four pixels
  assert.deepEqual([folding.fold, folding.total > 18, folding.foldedAt(5)], [1, true, 1]);
  folding.resize(5);
  assert.deepEqual([folding.fold, folding.zoom], [0, 5]);
});
