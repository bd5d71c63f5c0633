import assert from "node:assert/strict";
import { test } from "node:test";
import { courseOf, moved, optionsOf } from "../src/console/course.js";
import { link, parse } from "../src/console/route.js";

const event = (at_s: number, more: object = {}) => ({ seq: 1, at_s, type: "incumbent", ...more });

test("value and bound stay until an event changes them", () => {
  const one = [event(0), event(1, { value: 9 }), event(3, { bound: 4 }), event(5, { value: 8, bound: 5 })];
  const { x, lines } = courseOf([{ name: "", events: one }]);
  assert.deepEqual(x, [1, 3, 5]);
  assert.deepEqual(
    lines.map(l => l.values),
    [
      [9, 9, 8],
      [null, 4, 5],
    ],
  );
  const both = courseOf([
    { name: "first", events: one },
    { name: "second", events: [event(2, { value: 7, bound: 6 })] },
  ]);
  assert.deepEqual(both.x, [1, 2, 3, 5]);
  assert.deepEqual(
    both.lines.map(l => [l.name, ...l.values]),
    [
      ["first, plan", 9, 9, 9, 8],
      ["first, bound", null, null, 4, 5],
      ["second, plan", null, 7, 7, 7],
      ["second, bound", null, 6, 6, 6],
    ],
  );
});

test("who ends sooner and who later", () => {
  const ends = (of: Record<string, number>) => Object.entries(of).map(([job, end_s]) => ({ job, end_s }));
  const m = moved(ends({ a: 1, b: 5, c: 7, gone: 1 }), ends({ a: 1, b: 2, c: 8, new: 3 }));
  assert.deepEqual([m.sooner, m.later, m.equal, m.most.map(j => j.job)], [1, 1, 1, ["b", "c"]]);
});

test("options that differ, and the address of a comparison", () => {
  assert.deepEqual(optionsOf({ gap: 0.01, order: "price" }, { gap: 0.01, order: "paper", seed: 2 }), [
    ["order", "price", "paper"],
    ["seed", "", "2"],
  ]);
  const route = parse(link("lab", "compare", "", "a=x&b=y"));
  assert.deepEqual([route.page, route.cluster, route.query.get("b")], ["compare", "", "y"]);
});
