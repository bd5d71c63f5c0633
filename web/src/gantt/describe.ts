// Describes in words what is under the pointer, and the selected job.
import { duration, exact } from "../shared/axis.js";
import { lanesOf, type Chart, type Lane } from "./data.js";

// spot describes what lane l does at t. k is the lane's span at t, −1 for none; shown is
// the number of microseconds on the screen.
export function spot(chart: Chart, l: Lane, k: number, t: number, shown: number): string {
  if (k < 0) {
    for (let i = 0; i < l.away.length; i += 2) {
      if (t >= l.away[i]! && t < l.away[i + 1]!) return `${l.gpu} · out of service or busy`;
    }
    return `${l.gpu} · idle`;
  }
  const j = chart.jobs[l.job[k]!]!;
  const [rounds, period, hold, tasks] = [l.rounds[k]!, l.period[k]!, l.hold[k]!, l.tasks[k]!];
  const r =
    rounds > 1 && period > 0 ? Math.max(0, Math.min(rounds - 1, Math.floor((t - l.start[k]!) / period))) : 0;
  const from = l.start[k]! + r * period;
  const share = tasks > 1 ? `, ${whole(tasks)} of its ${whole(j.tasks)} tasks here` : "";
  const arrives = j.release ? `, arrives ${exact(j.release, shown)}` : "";
  return [
    j.id,
    `round ${whole(l.round[k]! + r + 1)} of ${whole(j.rounds)}${share}`,
    [
      l.gpu,
      chart.data.types[l.type],
      chart.nodes[l.node]?.rack,
      j.gpus > 1 ? `one of the ${whole(j.gpus)} GPUs of a task` : "",
    ]
      .filter(Boolean)
      .join(" · "),
    `${exact(from, shown)} to ${exact(from + hold, shown)} (${duration(hold)})`,
    `job: ${j.sync}, weight ${j.weight}${arrives}, runs ${exact(j.start, shown)} to ${exact(j.end, shown)}`,
  ].join("\n");
}

// about describes a job in one line.
export function about(chart: Chart, job: number): string {
  const j = chart.jobs[job]!;
  const gpus = lanesOf(chart.lanes, job).length;
  if (!gpus) return `${j.id} · ${j.sync} · weight ${j.weight} · none of the GPUs of this page runs it`;
  return [
    j.id,
    j.sync,
    `weight ${j.weight}`,
    `${count(j.rounds, "round")} of ${count(j.tasks, "task")}` +
      (j.gpus > 1 ? ` of ${count(j.gpus, "GPU")}` : ""),
    j.release ? `arrives ${duration(j.release)}` : "",
    `runs ${duration(j.start)} to ${duration(j.end)}`,
    `done ${duration(j.end - j.release)} after its arrival`,
    `on ${count(gpus, "GPU")}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function count(n: number, what: string): string {
  return `${whole(n)} ${what}${n === 1 ? "" : "s"}`;
}

function whole(n: number): string {
  return n.toLocaleString("en");
}
