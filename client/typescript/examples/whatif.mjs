import { readFileSync } from "node:fs";
import { Hare } from "hare-client";

const instance = JSON.parse(readFileSync("instance.json", "utf8"));
const scenarios = [
  { id: "two V100 more", add_gpus: { type: "V100", count: 2 } },
  { id: "b leaves", drain: { node: "b", at_s: 0 } },
];
const hare = new Hare({ url: process.env.HARE_URL, key: process.env.HARE_KEY });
const solve = await hare.wait((await hare.submit(instance, { seed: 8 })).id);
for await (const line of hare.whatIf({ base: { solve_id: solve.id }, scenarios, ordered: true })) {
  if (line.line === "scenario") console.log(line.id, "value", line.value, "optimum changes by", line.optimum_change);
}
const bert = await hare.explain(solve.id, "bert");
console.log("bert ends at", bert.end_s, "and at", bert.least_s, "at best");
