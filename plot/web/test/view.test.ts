import assert from "node:assert/strict";
import { test } from "node:test";
import { LEAST_ROW, MOST_ROW, Rows, TimeView } from "../src/gantt/view.js";

function view(end = 1000): TimeView {
  const v = new TimeView(end);
  v.left = 100;
  v.width = 500;
  return v;
}

const near = (a: number, b: number) =>
  assert.ok(Math.abs(a - b) < 1e-6 * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test("a time's pixel and a pixel's time are inverse", () => {
  const v = view();
  assert.equal(v.px(0), 100);
  assert.equal(v.px(1000), 600);
  v.zoom(0.3, 250);
  for (const t of [0, 17, 999]) near(v.time(v.px(t)), t);
});

test("zoom keeps the time under the pointer", () => {
  const v = view();
  const t = v.time(350);
  v.zoom(0.25, 350);
  near(v.time(350), t);
  near(v.span, 250);
});

test("the gutter counts as the left edge", () => {
  const v = view();
  v.zoom(0.5, 20);
  near(v.from, 0);
});

test("zoom and pan stay within the schedule", () => {
  const v = view();
  for (let i = 0; i < 50; i++) v.zoom(3);
  assert.ok(v.span <= 1020 + 1e-9 && v.from <= 0 && v.to >= 1000);
  for (let i = 0; i < 100; i++) v.zoom(0.5);
  near(v.span, 20); // microseconds; the view cannot be zoomed further
  for (let i = 0; i < 1000; i++) v.pan(400);
  assert.ok(v.to <= 1020 + 1e-9 && v.to > 1000);
  for (let i = 0; i < 1000; i++) v.pan(-400);
  assert.ok(v.from >= -0.02 * v.span - 1e-9 && v.from <= 0);
});

test("a schedule of one microsecond can be shown", () => {
  const v = view(1);
  v.zoom(0.1);
  assert.ok(v.span >= 1 && Number.isFinite(v.px(1)));
});

test("show leaves room on both sides, all shows everything", () => {
  const v = view();
  v.show(400, 500);
  near(v.from, 385);
  near(v.to, 515);
  v.show(70, 70);
  assert.ok(v.from < 70 && v.to > 70);
  v.all();
  assert.deepEqual([v.from, v.to], [0, 1000]);
});

test("rows stack by type, with a gap between", () => {
  const r = new Rows([0, 0, 0, 1, 1]);
  r.resize(10);
  assert.deepEqual([...r.tops], [0, 10, 20, 40, 50]);
  assert.deepEqual(r.groups, [
    { type: 0, first: 0, y: 0, height: 30 },
    { type: 1, first: 3, y: 40, height: 20 },
  ]);
  assert.equal(r.total, 60);
});

test("heads stand above every type", () => {
  const r = new Rows([0, 1]);
  r.resize(10, 18);
  assert.deepEqual([...r.tops], [18, 46]);
  assert.equal(r.total, 56);
  assert.equal(r.groups[1]!.height, 10);
});

test("the row at a pixel is the one that is drawn there", () => {
  const r = new Rows([0, 0, 1]);
  r.resize(10);
  assert.deepEqual(
    [-1, 0, 9.9, 10, 19.9, 20, 29.9, 30, 39.9, 40].map(y => r.at(y)),
    [-1, 0, 0, 1, 1, -1, -1, 2, 2, -1],
  );
  const many = new Rows(Array.from({ length: 2000 }, (_, i) => Math.floor(i / 700)));
  many.resize(3.5, 18);
  for (let i = 0; i < 2000; i++) assert.equal(many.at(many.tops[i]! + 1), i);
});

test("rows fill the room where they fit, and are scrolled where not", () => {
  const few = new Rows([0, 0, 1]);
  assert.equal(few.fitting(600), 22);
  const some = new Rows(Array.from({ length: 100 }, () => 0));
  const h = some.fitting(600);
  some.resize(h);
  assert.ok(some.total <= 600 && some.total > 550);
  const many = new Rows(Array.from({ length: 2000 }, () => 0));
  many.resize(many.fitting(600));
  assert.equal(many.height, 2);
  assert.equal(many.total, 4000); // every row has its place, one below another
});

test("heights keep to their range", () => {
  const r = new Rows([0]);
  r.resize(1e9);
  assert.equal(r.height, MOST_ROW);
  r.resize(-1);
  assert.equal(r.height, LEAST_ROW);
  const none = new Rows([]);
  none.resize(5);
  assert.deepEqual([none.total, none.at(0), none.groups.length], [0, -1, 0]);
});
