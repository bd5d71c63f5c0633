import assert from "node:assert/strict";
import { test } from "node:test";
import { counted, Index } from "../src/gantt/search.js";

const index = new Index(["bert", "Bert-large", "small-bert", "vgg"], ["node-1/0", "node-1/1", "bert/0"]);

test("the best come first: equal, begins with, contains; jobs before GPUs", () => {
  assert.deepEqual(
    index.find("BERT", 10).hits.map(h => h.text),
    ["bert", "Bert-large", "bert/0", "small-bert"],
  );
});

test("all are counted and marked, however few are listed", () => {
  const found = index.find("bert", 2);
  assert.deepEqual([found.hits.length, found.jobs, found.gpus], [2, 3, 1]);
  assert.deepEqual([...found.marked], [1, 1, 1, 0]);
  assert.equal(counted(found), "3 jobs, 1 GPU");
});

test("GPUs are found", () => {
  const found = index.find("1/1", 10);
  assert.deepEqual(found.hits, [{ kind: "gpu", index: 1, text: "node-1/1" }]);
  assert.equal(counted(found), "1 GPU");
});

test("nothing", () => {
  assert.equal(index.find("  ", 10).hits.length, 0);
  assert.equal(counted(index.find("zzz", 10)), "no job and no GPU has this in its name");
});

test("100,000 names are searched while one types", () => {
  const names = Array.from({ length: 100_000 }, (_, i) => `train-${i}`);
  const found = new Index(names, []).find("999", 50);
  assert.equal(found.hits.length, 50);
  assert.equal(found.hits[0]!.text, "train-999");
});
