import assert from "node:assert/strict";
import { test } from "node:test";
import { contrast, hex, inkOn, mix, onDark, rgb, shadesOf } from "../src/shared/colour.js";
import { HUES } from "../src/shared/palette.js";

const ground = rgb("#1d232a");

test("colours are read as sheets and browsers write them", () => {
  assert.deepEqual(rgb("#0a80ff"), [10, 128, 255]);
  assert.deepEqual(rgb("rgb(10, 128, 255)"), [10, 128, 255]);
  assert.equal(hex(mix([0, 0, 0], [255, 255, 255], 0.5)), "#808080");
});

test("contrast is that of WCAG", () => {
  assert.equal(contrast([0, 0, 0], [255, 255, 255]), 21);
  assert.equal(contrast([9, 9, 9], [9, 9, 9]), 1);
  assert.ok(Math.abs(contrast(rgb("#777777"), [255, 255, 255]) - 4.48) < 0.01);
});

test("every job stands out from a dark ground, and bright ones stay as they are", () => {
  for (const c of HUES) assert.ok(contrast(onDark(rgb(c), ground), ground) >= 3, c);
  assert.equal(hex(onDark(rgb("#88ccee"), ground)), "#88ccee");
  assert.notEqual(hex(onDark(rgb("#332288"), ground)), "#332288");
});

test("text on bars reads, light or dark", () => {
  for (const page of ["#f3f5f8", "#1d232a"]) {
    for (const s of shadesOf(HUES, rgb(page)))
      assert.ok(contrast(rgb(s.ink), rgb(s.fill)) >= 4, `${s.ink} on ${s.fill}`);
  }
  assert.deepEqual(inkOn([255, 255, 255]), [20, 20, 20]);
});

test("a light page has the palette as it is", () => {
  assert.deepEqual(
    shadesOf(HUES, rgb("#f3f5f8")).map(s => s.fill),
    HUES,
  );
});
