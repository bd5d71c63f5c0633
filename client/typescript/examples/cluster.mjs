import { Hare } from "hare-client";

const on = (compute_s) => ({ A100: { compute_s } });
const instance = {
  hare: "instance/v1",
  objective: "jct_and_tardiness",
  cluster: { nodes: [{ name: "a", gpus: { A100: 3 }, cpus: 32 }] },
  jobs: [
    // This job has run for half a minute, and needs a minute more.
    { id: "slurm-7", sync: "rigid", on: on(90), progress: { gpus: ["a/0"], elapsed_s: 30 } },
    { id: "prep", sync: "rigid", user: "ann", on: on(20) },
    {
      id: "train",
      sync: "rigid",
      user: "ann",
      gpus_per_task: 2,
      cpus_per_task: 16,
      after: ["prep"],
      deadline_s: 55,
      late_weight: 2,
      on: on(40),
    },
  ],
};
const scenarios = [
  { id: "train in half the time", scale_durations: { train: 0.5 } },
  {
    id: "train on a node more, without prep",
    add_nodes: [{ name: "b", gpus: { A100: 2 } }],
    drop_after: { job: "train" },
  },
  { id: "one GPU for ann", set_quota: [{ user: "ann", gpus: 1 }] },
];
const hare = new Hare({ url: process.env.HARE_URL, key: process.env.HARE_KEY });
const result = await hare.solve(instance, { seed: 12 });
const { deadlines } = result.metrics;
console.log("value", result.value, "bound", result.bound, "and", result.constant, "of running work");
console.log(deadlines.met, "of", deadlines.jobs, "deadlines met,", deadlines.tardiness_s, "s late in total");
for await (const line of hare.whatIf({ base: { instance }, scenarios, ordered: true })) {
  if (line.line !== "scenario") continue;
  console.log(line.id, "value", line.value, ...(line.reasons ?? []).map((reason) => reason.code));
}
