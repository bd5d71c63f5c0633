import { readFileSync } from "node:fs";
import { Hare } from "hare-client";

const instance = JSON.parse(readFileSync("instance.json", "utf8"));
const hare = new Hare({ url: process.env.HARE_URL, key: process.env.HARE_KEY });
const solve = await hare.submit(instance, { seed: 6 });
let last;
for await (const event of hare.events(solve.id)) {
  if (event.type === "incumbent") console.log("a schedule of value", event.value);
  last = event;
}
console.log(last.type, last.status, last.termination);
console.log("value", (await hare.result(solve.id)).value);
await hare.delete(solve.id);
