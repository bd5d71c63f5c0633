import assert from "node:assert/strict";
import { test } from "node:test";
import { argv, EMPTY, Fault, jobOf, smaller } from "../src/console/newjob.js";

test("a command is split at spaces, apart from quoted ones", () => {
  const cases: [string, string[]][] = [
    ["", []],
    ["  python  train.py ", ["python", "train.py"]],
    [`sh -c "echo 'a b'" ''`, ["sh", "-c", "echo 'a b'", ""]],
    [String.raw`a\ b "\"" '\'`, ["a b", '"', "\\"]],
    ["--name='a b'c", ["--name=a bc"]],
  ];
  for (const [text, want] of cases) assert.deepEqual(argv(text), want, text);
  assert.throws(() => argv("echo 'a"), Fault);
});

test("a form makes the document of a job", () => {
  const form = {
    ...EMPTY,
    command: "train",
    gpus: "2",
    times: { V100: "45 min", T4: "?", K80: "" },
    user: " ann ",
    labels: "team=vision, night a=b=c",
  };
  assert.deepEqual(jobOf(form), {
    command: ["train"],
    gpus: 2,
    on: { V100: 2700, T4: 0 },
    user: "ann",
    labels: { team: "vision", night: "", a: "b=c" },
  });
  assert.deepEqual(jobOf({ ...EMPTY, command: "a" }), { command: ["a"], gpus: 1 });
  for (const bad of [{ gpus: "0" }, { gpus: "1.5" }, { times: { T4: "45" } }, { times: { T4: "soon" } }])
    assert.throws(() => jobOf({ ...EMPTY, ...bad }), Fault, JSON.stringify(bad));
});

test("a smaller job is told by what differs", () => {
  const job = JSON.stringify({ command: ["a"], gpus: 4 });
  assert.equal(smaller({ on: ["T4", "V100"] }, job), "T4 or V100 allowed as well");
  assert.equal(smaller({ tasks: 2 }, job), "2 tasks");
  assert.equal(smaller({ gpus: 2 }, job), "2 GPUs, if it then takes 2 times as long,");
  assert.equal(smaller({ gpus: 1, nodes: 1 }, job), "1 GPU on 1 node, if it then takes 4 times as long,");
});
