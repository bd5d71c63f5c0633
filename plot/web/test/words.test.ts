import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, ahead, clock, notBefore, percent, seconds, span } from "../src/console/words.js";

const now = new Date(2026, 10, 25, 13, 35).getTime(); // a Wednesday
const later = (s: number) => now + s * 1e3;

test("durations have at most two units, and seconds below two minutes only", () => {
  for (const [s, words] of [
    [-3, "0 s"],
    [0.2, "1 s"],
    [119, "119 s"],
    [120, "2 min"],
    [1800, "30 min"],
    [3590, "1 h"],
    [7500, "2 h 5 min"],
    [86400, "24 h"],
    [200_000, "2 d 8 h"],
    [3e6, "35 d"],
  ] as const)
    assert.equal(span(s), words);
});

test("times of day have the day where it is another one", () => {
  assert.equal(clock(later(1800), now), "14:05");
  assert.equal(clock(later(86400), now), "Thu 13:35");
  assert.equal(clock(later(10 * 86400), now), "5 Dec 13:35");
  assert.equal(clock(later(400 * 86400), now), "30 Dec 2027");
});

test("plans are about, proofs are not before, and neither is rounded the wrong way", () => {
  assert.equal(ahead(later(1800), now), "in about 30 min, 14:05");
  assert.equal(ahead(later(-60), now), "about now");
  assert.equal(notBefore(later(1859), now), "14:05");
  assert.equal(notBefore(later(-1), now), "now");
  assert.equal(ago(later(-300), now), "5 min ago");
  assert.equal(percent(0.03312, true), "3.4 %");
  assert.equal(percent(0.5), "50 %");
});

test("durations in filters", () => {
  assert.equal(seconds("90s"), 90);
  assert.equal(seconds("30"), 1800);
  assert.equal(seconds("1.5 h"), 5400);
  assert.ok(isNaN(seconds("soon")));
});
