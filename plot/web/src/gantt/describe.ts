// Describes in words what is under the pointer, and the selected job.
import { duration, exact, since } from "../shared/axis.js";
import {
  lanesOf,
  planned,
  runsAtZero,
  runsNow,
  setupAt,
  shapesOf,
  spanAt,
  type Chart,
  type Job,
  type Lane,
} from "./data.js";
import type { Groups } from "./groups.js";
import type { FoldedRow } from "./use.js";

// spot describes what lane l does at t. k is the lane's span at t, −1 for none; shown is
// the number of microseconds on the screen.
export function spot(chart: Chart, l: Lane, k: number, t: number, shown: number): string {
  if (k < 0) {
    const reserved = reservationAt(chart, l, t, shown);
    const next = setupAt(l, t, 0);
    if (next >= 0) {
      const [from, start] = [l.start[next]! - l.setup(next), l.start[next]!];
      return [
        chart.jobs[l.job(next)]!.id,
        `${l.gpu} · setup of the GPU for the job`,
        `${exact(from, shown)} to ${exact(start, shown)} (${duration(start - from)})`,
        reserved,
      ]
        .filter(Boolean)
        .join("\n");
    }
    for (let i = 0; i < l.away.length; i += 2) {
      if (t >= l.away[i]! && t < l.away[i + 1]!) return `${l.gpu} · out of service or busy`;
    }
    return [`${l.gpu} · idle`, reserved].filter(Boolean).join("\n");
  }
  const j = chart.jobs[l.job(k)]!;
  const { now } = chart.data;
  if (now !== undefined) {
    const [start, end] = [l.start[k]!, l.end(k)];
    return [
      j.id,
      `${l.gpu} · ${chart.data.types[l.type]}`,
      planned(chart.data, l, k) ? "planned" : runsNow(chart.data, l, k) ? "runs" : "",
      `${since(start, now)} to ${since(end, now)} (${duration(end - start)})`,
    ]
      .filter(Boolean)
      .join("\n");
  }
  const { kinds } = chart;
  const kind = l.kind[k]!;
  const [rounds, period] = [kinds.rounds[kind]!, kinds.period[kind]!];
  const [hold, tasks, spread] = [kinds.hold[kind]!, kinds.tasks[kind]!, kinds.spread[kind]!];
  const shape = j.shapes[l.shape(k)];
  const r =
    rounds > 1 && period > 0 ? Math.max(0, Math.min(rounds - 1, Math.floor((t - l.start[k]!) / period))) : 0;
  const from = l.start[k]! + r * period;
  const share = tasks > 1 ? `, ${whole(tasks)} of its ${whole(shape?.tasks ?? j.tasks)} tasks here` : "";
  const arrives = j.release ? `, arrives ${exact(j.release, shown)}` : "";
  const gpus = shape?.gpus ?? j.gpus;
  const first = l.round[k]! + r * (shape?.counts ?? 1) + 1;
  const last = Math.min(j.rounds, first + (shape?.counts ?? 1) - 1);
  const running = runsAtZero(chart.jobs, l, k);
  return [
    j.id,
    running
      ? `runs at time 0, since ${duration(j.elapsed)} before`
      : last > first
        ? `units ${whole(first)} to ${whole(last)} of ${whole(j.rounds)}${share}`
        : `${j.shapes.length ? "unit" : "round"} ${whole(first)} of ${whole(j.rounds)}${share}`,
    [
      l.gpu,
      chart.data.types[l.type],
      chart.nodes[l.node]?.racks.filter(Boolean).join("/"),
      gpus > 1 ? `one of the ${whole(gpus)} GPUs of a task` : "",
    ]
      .filter(Boolean)
      .join(" · "),
    [
      shape ? shapeOf(j, l.shape(k)) : "",
      spread >= 0 ? `spread: ${levelOf(chart, spread)}` : "",
      r === 0 && l.setup(k) > 0 ? `after a setup of ${duration(l.setup(k))}` : "",
    ]
      .filter(Boolean)
      .join(" · "),
    `${exact(from, shown)} to ${exact(from + hold, shown)} (${duration(hold)})`,
    `job: ${j.sync}, weight ${j.weight}${arrives}, runs ${exact(j.start, shown)} to ${exact(j.end, shown)}`,
    deadlineOf(j),
    reservationAt(chart, l, t, shown),
  ]
    .filter(Boolean)
    .join("\n");
}

// use describes how many GPUs of a row that stands for several are busy at t, and with what.
export function use(chart: Chart, row: FoldedRow, groups: Groups, t: number, shown: number): string {
  const counts = new Map<number, number>();
  let busy = 0;
  for (const l of chart.lanes.slice(row.first, row.first + row.lanes)) {
    const k = spanAt(l, t, 0);
    if (k < 0) continue;
    busy++;
    const group = groups.of[l.job(k)]!;
    counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, 4);
  return [
    row.name,
    `${whole(busy)} of ${count(row.lanes, "GPU")} busy at ${exact(t, shown)}`,
    ...(groups.names.length ? most.map(([g, n]) => `${groups.names[g]!}: ${whole(n)}`) : []),
    "press to unfold",
  ].join("\n");
}

// reservationAt says for whom the GPU of a lane is reserved at t; "" where it is not.
function reservationAt(chart: Chart, l: Lane, t: number, shown: number): string {
  for (const i of chart.nodes[l.node]?.reserved ?? []) {
    const { from, to, who } = chart.reserved[i]!;
    if (from <= t && t < to) return `${who}, ${exact(from, shown)} to ${exact(to, shown)}`;
  }
  return "";
}

// shapeOf describes a shape of a job by its position, which counts from 0.
function shapeOf(j: Job, i: number): string {
  const { tasks, gpus } = j.shapes[i]!;
  return `shape ${i}: ${count(tasks, "task")}${gpus > 1 ? ` of ${count(gpus, "GPU")}` : ""}`;
}

// levelOf names a level over which a round spreads.
function levelOf(chart: Chart, level: number): string {
  const levels = chart.data.levels!;
  const name = levels[level]!;
  return level === levels.length - 1 ? name : `one ${name.slice(name.lastIndexOf("/") + 1)}`;
}

// deadlineOf says how a job stands to its deadline; "" where it has none.
export function deadlineOf(j: Job): string {
  if (!j.deadline) return "";
  const late = j.late ? `late by ${duration(j.late)}` : "met";
  return `deadline ${duration(j.deadline)}: ${late}`;
}

// about describes a job in one line.
export function about(chart: Chart, job: number): string {
  const j = chart.jobs[job]!;
  const gpus = lanesOf(chart, job).length;
  const { now } = chart.data;
  if (now !== undefined)
    return `${j.id} · ${since(j.start, now)} to ${since(j.end, now)} · on ${count(gpus, "GPU")}`;
  if (!gpus) return `${j.id} · ${j.sync} · weight ${j.weight} · none of the GPUs of this page runs it`;
  return [
    j.id,
    j.sync,
    `weight ${j.weight}`,
    j.shapes.length
      ? `${count(j.rounds, "unit")} in ${shapesOf(chart, job)
          .map(i => shapeOf(j, i))
          .join(" and ")}`
      : `${count(j.rounds, "round")} of ${count(j.tasks, "task")}` +
        (j.gpus > 1 ? ` of ${count(j.gpus, "GPU")}` : ""),
    j.elapsed >= 0 ? `runs at time 0, since ${duration(j.elapsed)} before` : "",
    j.release ? `arrives ${duration(j.release)}` : "",
    `runs ${duration(j.start)} to ${duration(j.end)}`,
    `done ${duration(j.end - j.release)} after its arrival`,
    deadlineOf(j),
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
