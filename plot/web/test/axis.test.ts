import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, exact, marks, since, time } from "../src/shared/axis.js";

const S = 1e6;
const labels = (from: number, to: number, most = 7) =>
  marks(from, to, most)
    .map(m => m.label)
    .join(", ");

test("marks stand at round times", () => {
  assert.equal(labels(0, 1.5 * S), "0, 0.5 s, 1 s, 1.5 s");
  assert.equal(labels(0, 100 * S), "0, 15 s, 30 s, 45 s, 1 min, 1 min 15 s, 1 min 30 s");
  assert.equal(labels(0, 3 * 3600 * S), "0, 30 min, 1 h, 1 h 30 min, 2 h, 2 h 30 min, 3 h");
  assert.equal(labels(0, 60 * 3600 * S), "0, 12 h, 24 h, 36 h, 2 d, 2 d 12 h");
  assert.equal(labels(3 * S, 10 * S), "3 s, 4 s, 5 s, 6 s, 7 s, 8 s, 9 s, 10 s");
});

test("marks before 0 are left out, and no more come than were asked for", () => {
  assert.equal(marks(-5 * S, 5 * S, 7)[0]!.at, 0);
  for (let to = 1; to < 2 ** 53; to *= 3) {
    const all = marks(0, to, 7);
    assert.ok(all.length >= 1 && all.length <= 8, `${to}: ${all.length}`);
  }
});

test("times carry on", () => {
  assert.equal(time(59.7 * S, S), "60 s");
  assert.equal(time(119.9 * S, S), "2 min");
  assert.equal(time(3599.9 * S, S), "1 h");
  assert.equal(time(3661 * S, S), "1 h 1 min 1 s");
  assert.equal(time(90061 * S, 60 * S), "25 h 1 min");
  assert.equal(time(200000 * S, 60 * S), "2 d 7 h 33 min");
  assert.equal(time(200000 * S, 3600 * S), "2 d 8 h");
});

test("durations are never nothing for something", () => {
  assert.equal(duration(0), "0");
  assert.equal(duration(1), "0.000001 s");
  assert.equal(duration(1.25 * S), "1.25 s");
  assert.equal(duration(90 * S), "90 s");
  assert.equal(duration(5400 * S), "1 h 30 min");
  assert.equal(duration(30 * 86400 * S), "30 d");
});

test("a zoomed view is more exact", () => {
  assert.equal(exact(5400.25 * S, 1 * S), "90 min 0.25 s");
  assert.equal(exact(5400.25 * S, 7200 * S), "1 h 30 min");
});

test("a timeline has marks before and after now", () => {
  assert.equal(
    marks(-60 * S, 90 * S, 6, 15 * S)
      .map(m => `${m.at / S} ${m.label}`)
      .join(),
    "-45 −1 min,-15 −30 s,15 now,45 +30 s,75 +1 min",
  );
  assert.deepEqual(
    [since(5 * S, 15 * S), since(15 * S, 15 * S), since(75 * S, 15 * S)],
    ["10 s ago", "now", "in about 60 s"],
  );
});
