import assert from "node:assert/strict";
import { test } from "node:test";
import { chartOf, type PageData } from "../src/gantt/data.js";
import { choices, groupsOf, nameOf } from "../src/gantt/groups.js";
import { Use } from "../src/gantt/use.js";
import { spansOf } from "./spans.js";

// Two rows of three GPUs and of one, with spans at random places of [0, 1000].
let seed = 7;
const random = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
const flat = Array.from({ length: 4 }, () => {
  const out: number[] = [];
  for (let at = 0, before = 0; ; ) {
    const start = at + random(20);
    const hold = 1 + random(30);
    if (start + hold > 1000) return out;
    out.push(random(3), start - before, 1, 0, hold, 0, 0, 1);
    [before, at] = [start, start + hold];
  }
});
const job = (id: string, weight: string, user?: string): PageData["jobs"][number] => [
  id,
  weight,
  "rigid",
  1,
  1,
  0,
  0,
  1000,
  ...(user ? [{ user }] : []),
] as PageData["jobs"][number]; // prettier-ignore
const chart = chartOf(
  {
    title: "",
    figures: "",
    size: "",
    unit: 1,
    end: 1000,
    counts: ["4"],
    palette: ["#cc6677", "#332288"],
    legend: [],
    legendHead: "",
    types: ["A100"],
    jobs: [job("bert-1", "1", "ann"), job("bert-2", "3"), job("lm-3", "2", "ann"), job("bert-4", "1")],
    lanes: flat.map((spans, i) => [`a/${i}`, 0, [], spans.length / 8]),
  },
  spansOf(8, flat),
);
const rows = [
  { name: "x", first: 0, lanes: 3 },
  { name: "y", first: 3, lanes: 1 },
];

test("use is what the spans say, from the sums and from the spans", () => {
  const cats = { of: Uint8Array.from([0, 1, 1, 0]), n: 2 };
  const use = new Use(chart, rows, cats);
  for (const [from, to, columns] of [
    [0, 1000, 10],
    [-20, 1020, 13],
    [330, 470, 70],
    [401, 402, 300], // columns are narrower than what the sums know
    [990, 1010, 4],
  ] as const) {
    const got = use.during(0, 2, from, to, columns);
    const wide = (to - from) / columns;
    for (let r = 0; r < 2; r++)
      for (let cat = 0; cat < 2; cat++)
        for (let c = 0; c < columns; c++) {
          let want = 0;
          for (const lane of chart.lanes.slice(rows[r]!.first, rows[r]!.first + rows[r]!.lanes))
            for (let k = 0; k < lane.n; k++)
              if (cats.of[lane.job(k)] === cat) {
                const a = Math.max(lane.start[k]!, from + c * wide);
                const b = Math.min(lane.end(k), from + (c + 1) * wide);
                want += Math.max(0, b - a) / wide;
              }
          const at = got[(r * 2 + cat) * columns + c]!;
          assert.ok(Math.abs(at - want) < 0.02, `${at} for ${want}: ${[from, to, r, cat, c].join()}`);
        }
  }
  assert.equal(use.during(1, 2, 0, 1000, 10).length, 20);
});

test("jobs are coloured by what they have in common, where they differ in it", () => {
  assert.deepEqual(choices(chart), ["job", "user", "name", "weight"]);
  assert.deepEqual(["a-b-12", "j7", "7", "x"].map(nameOf), ["a-b", "j", "7", "x"]);
  const by = (b: Parameters<typeof groupsOf>[1]) => groupsOf(chart, b);
  assert.deepEqual([...by("job").colour], [0, 1, 0, 1]);
  assert.deepEqual(by("user").names, ["ann", "no user"]);
  assert.deepEqual([...by("user").of], [0, 1, 0, 1]);
  assert.deepEqual(by("name").names, ["bert", "lm"]);
  assert.deepEqual(by("weight").names, ["1", "2", "3"]);
  assert.deepEqual([...by("weight").of], [0, 2, 1, 0]);
  const many = {
    ...chart,
    jobs: Array.from({ length: 100 }, (_, i) => ({ ...chart.jobs[0]!, weight: String(i) })),
  };
  assert.deepEqual(groupsOf(many, "weight").names, [
    "0 to 19",
    "20 to 39",
    "40 to 59",
    "60 to 79",
    "80 to 99",
  ]);
});
