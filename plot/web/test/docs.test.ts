import assert from "node:assert/strict";
import { test } from "node:test";
import { indent } from "../src/docs/indent.js";
import { fill, kind, limits } from "../src/docs/schema.js";

test("indent keeps every digit and string, and plain lists on a line", () => {
  assert.equal(
    indent('{"a":[1,2.000000000000000001],"b":{"c":"x, {y}: \\"z\\""},"d":[],"e":{}}'),
    '{\n "a": [1, 2.000000000000000001],\n "b": {\n  "c": "x, {y}: \\"z\\""\n },\n "d": [],\n "e": {}\n}',
  );
  assert.equal(indent('["a,b",1]'), '["a,b", 1]');
  assert.equal(indent(""), "");
});

test("values in words", () => {
  assert.deepEqual(kind({ $ref: "#/components/schemas/Job" }), [{ name: "Job" }]);
  assert.deepEqual(kind({ type: "array", items: { $ref: "#/x/Job" } }), ["array of ", { name: "Job" }]);
  assert.deepEqual(kind({ type: ["number", "null"] }), ["number or null"]);
  assert.deepEqual(kind({ enum: ["a", 1] }), ['"a" | 1']);
  assert.deepEqual(kind({}), ["anything"]);
  assert.equal(limits({ default: 1, minimum: 0, maximum: 9 }), "default 1, ≥ 0, ≤ 9");
});

test("places of a path are filled and escaped", () => {
  assert.deepEqual(fill("/v1/solves/{id}/jobs/{job}", { id: "s-1", job: "a/b c" }), {
    path: "/v1/solves/s-1/jobs/a%2Fb%20c",
    missing: [],
  });
  assert.deepEqual(fill("/v1/solves/{id}", {}), { path: "/v1/solves/{id}", missing: ["id"] });
});
