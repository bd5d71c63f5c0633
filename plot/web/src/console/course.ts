// The course of solves over time, and how two of them differ.
import type { Line } from "./lines.js";

export interface Event {
  seq: number;
  at_s: number;
  type: string;
  value?: number;
  bound?: number;
}

// Course is lines over one axis of seconds.
export interface Course {
  x: number[];
  lines: Line[];
}

const COLOURS = ["link", "late"];

// courseOf draws the value and the bound of each solve, which stay what they are until an event changes them.
export function courseOf(solves: readonly { name: string; events: readonly Event[] }[]): Course {
  const told = solves.map(s => s.events.filter(e => e.value !== undefined || e.bound !== undefined));
  const x = [...new Set(told.flat().map(e => e.at_s))].sort((a, b) => a - b);
  const lines = solves.flatMap(({ name }, i) =>
    (["value", "bound"] as const).map((what, k): Line => {
      let [at, last]: [number, number | null] = [0, null];
      const events = told[i]!;
      const values = x.map(t => {
        for (; at < events.length && events[at]!.at_s <= t; at++) last = events[at]![what] ?? last;
        return last;
      });
      const text = k ? "bound: no plan is below" : "best plan so far";
      return {
        name: name ? `${name}, ${k ? "bound" : "plan"}` : text,
        values,
        colour: COLOURS[name ? i : k]!,
        steps: true,
        dashed: k === 1,
      };
    }),
  );
  return { x, lines };
}

// Ends is when a job ends in a plan.
export interface Ends {
  job: string;
  end_s: number;
}

export interface Moved {
  sooner: number;
  later: number;
  equal: number;
  most: { job: string; first: number; second: number }[]; // those that differ, the most first
}

// moved compares the ends of the jobs that are in both lists.
export function moved(a: readonly Ends[], b: readonly Ends[]): Moved {
  const out: Moved = { sooner: 0, later: 0, equal: 0, most: [] };
  const before = new Map(a.map(j => [j.job, j.end_s]));
  for (const { job, end_s: second } of b) {
    const first = before.get(job);
    if (first === undefined) continue;
    if (first === second) {
      out.equal++;
      continue;
    }
    if (second < first) out.sooner++;
    else out.later++;
    out.most.push({ job, first, second });
  }
  out.most.sort((x, y) => Math.abs(y.second - y.first) - Math.abs(x.second - x.first));
  return out;
}

// optionsOf lists the options in which two solves differ.
export function optionsOf(
  a: Record<string, unknown>,
  b: Record<string, unknown>,
): [name: string, a: string, b: string][] {
  const text = (v: unknown): string => (v === undefined ? "" : typeof v === "string" ? v : JSON.stringify(v));
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .sort()
    .map((k): [string, string, string] => [k, text(a[k]), text(b[k])])
    .filter(([, x, y]) => x !== y);
}
