import { readFileSync } from "node:fs";
import { Hare, Problem } from "hare-client";

const instance = JSON.parse(readFileSync("instance.json", "utf8"));
const hare = new Hare({ url: process.env.HARE_URL, key: process.env.HARE_KEY });
const show = (event) => {
  if (event.type === "incumbent" || event.type === "bound") console.log(event.type, event.value ?? event.bound);
};
const result = await hare.solve(instance, { seed: 10 }, { progress: show });
console.log("value", result.value, "bound", result.bound, result.termination);
console.log("verified", (await hare.verify(instance, result)).ok);
console.log("on an empty cluster at least", (await hare.bound(instance, "critical_path")).bound);
instance.jobs[0].weight = -3;
try {
  await hare.solve(instance);
} catch (problem) {
  if (!(problem instanceof Problem)) throw problem;
  console.log(problem.status, problem.code);
  for (const error of problem.errors) console.log(error.pointer, error.detail);
}
