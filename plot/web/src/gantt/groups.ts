// What jobs are coloured by.
import { LEVELS } from "../shared/palette.js";
import type { Chart } from "./data.js";

export type By = "job" | "user" | "name" | "weight";

// Groups are the classes of jobs that have a colour each, the largest first, or the lightest.
export interface Groups {
  by: By;
  of: Uint16Array; // by job; its position where jobs are coloured one by one
  names: string[]; // empty where jobs are coloured one by one
  colour: Uint8Array; // by job: position in the palette
  colours: number[]; // of the groups in order, where they have some; they repeat
}

// nameOf is the id of a job without the number at its end.
export function nameOf(id: string): string {
  return id.replace(/[-_.#/]?\d+$/, "") || id;
}

const textOf = (chart: Chart, by: By): string[] =>
  chart.jobs.map(j => (by === "user" ? j.user || "no user" : by === "name" ? nameOf(j.id) : j.weight));

// choices are what the jobs of a chart differ in.
export function choices(chart: Chart): By[] {
  const differ = (["user", "name", "weight"] as const).filter(by => {
    const n = new Set(textOf(chart, by)).size;
    return n > 1 && (by !== "name" || 2 * n <= chart.jobs.length);
  });
  return ["job", ...differ];
}

export function groupsOf(chart: Chart, by: By): Groups {
  const n = chart.jobs.length;
  const size = Math.max(1, chart.data.palette.length);
  const groups: Groups = { by, of: new Uint16Array(n), names: [], colour: new Uint8Array(n), colours: [] };
  if (by === "job") {
    for (let j = 0; j < n; j++) groups.colour[j] = j % size;
    return groups;
  }
  const texts = textOf(chart, by);
  const counts = new Map<string, number>();
  for (const t of texts) counts.set(t, (counts.get(t) ?? 0) + 1);
  const place = new Map<string, number>();
  if (by === "weight") {
    const order = [...counts].sort(([a], [b]) => Number(a) - Number(b));
    const bins: string[][] = [];
    let seen = 0;
    for (const [text, jobs] of order) {
      const bin = order.length <= LEVELS.length ? bins.length : Math.floor((seen / n) * LEVELS.length);
      seen += jobs;
      if (!bins.length || (bin >= bins.length && bins.length < LEVELS.length)) bins.push([]);
      bins[bins.length - 1]!.push(text);
      place.set(text, bins.length - 1);
    }
    const short = (text: string): string => String(Number(Number(text).toPrecision(3)));
    groups.names = bins.map(b => (b.length > 1 ? `${short(b[0]!)} to ${short(b[b.length - 1]!)}` : b[0]!));
  } else {
    groups.names = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([text]) => text);
    groups.names.forEach((text, i) => place.set(text, i));
  }
  groups.colours = by === "weight" ? LEVELS.map(c => c % size) : [...Array(size).keys()];
  texts.forEach((text, j) => {
    groups.of[j] = place.get(text)!;
    groups.colour[j] = groups.colours[groups.of[j]! % groups.colours.length]!;
  });
  return groups;
}
