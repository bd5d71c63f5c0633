// Decodes the data of a page, which package plot writes, into a chart.

// PageData is the JSON in the page. Times of lanes are multiples of unit
// microseconds; all others are microseconds.
export interface PageData {
  title: string;
  figures: string;
  size: string;
  unit: number;
  end: number;
  types: string[];
  counts: string[];
  palette: string[];
  legend: number[];
  legendHead: string;
  jobs: [
    id: string,
    weight: string,
    sync: string,
    rounds: number,
    tasks: number,
    release: number,
    start: number,
    end: number,
  ][];
  // away: from, to (−1: for ever), …; spans: FIELDS numbers each.
  lanes: [gpu: string, type: number, away: number[], spans: number[]][];
}

export interface Job {
  id: string;
  weight: string;
  sync: string;
  rounds: number;
  tasks: number;
  release: number;
  start: number;
  end: number;
}

// A span is FIELDS numbers of the data: job, start after the span before,
// rounds, period, hold, sync, first round, tasks.
export const FIELDS = 8;

// Lane is one GPU. Span k runs from start[k] to end[k].
export interface Lane {
  gpu: string;
  type: number;
  away: number[]; // from, to, …
  n: number;
  start: Float64Array;
  end: Float64Array;
  job: Int32Array;
  rounds: Float64Array;
  period: Float64Array;
  hold: Float64Array;
  sync: Float64Array;
  round: Float64Array;
  tasks: Float64Array;
}

export interface Chart {
  data: PageData;
  jobs: Job[];
  lanes: Lane[];
}

export function chartOf(data: PageData): Chart {
  const jobs = data.jobs.map(([id, weight, sync, rounds, tasks, release, start, end]) => ({
    id,
    weight,
    sync,
    rounds,
    tasks,
    release,
    start,
    end,
  }));
  return { data, jobs, lanes: data.lanes.map(l => laneOf(l, data.unit)) };
}

function laneOf([gpu, type, away, s]: PageData["lanes"][number], unit: number): Lane {
  const n = s.length / FIELDS;
  const column = (at: number, scale: number) =>
    Float64Array.from({ length: n }, (_, i) => s[i * FIELDS + at]! * scale);
  const lane: Lane = {
    gpu,
    type,
    away: away.map(t => (t < 0 ? Infinity : t * unit)),
    n,
    start: new Float64Array(n),
    end: new Float64Array(n),
    job: Int32Array.from({ length: n }, (_, i) => s[i * FIELDS]!),
    rounds: column(2, 1),
    period: column(3, unit),
    hold: column(4, unit),
    sync: column(5, unit),
    round: column(6, 1),
    tasks: column(7, 1),
  };
  for (let i = 0, t = 0; i < n; i++) {
    t += s[i * FIELDS + 1]!;
    lane.start[i] = t * unit;
    lane.end[i] = lane.start[i]! + (lane.rounds[i]! - 1) * lane.period[i]! + lane.hold[i]!;
  }
  return lane;
}

// above returns the first index of the ascending array a whose value is greater than v.
export function above(a: ArrayLike<number>, n: number, v: number): number {
  let lo = 0;
  let hi = n;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (a[mid]! > v) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

// spanAt returns the span of a lane that holds the GPU at t, with a tolerance of slack;
// −1 where there is none.
export function spanAt(l: Lane, t: number, slack: number): number {
  const k = above(l.start, l.n, t + slack) - 1;
  return k >= 0 && l.end[k]! + slack >= t ? k : -1;
}

// lanesOf returns the lanes that a job runs on.
export function lanesOf(lanes: readonly Lane[], job: number): number[] {
  const out: number[] = [];
  lanes.forEach((l, i) => {
    if (l.job.includes(job)) out.push(i);
  });
  return out;
}
