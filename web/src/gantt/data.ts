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
    gpus?: number, // of a task; absent: 1
  ][];
  // away: from, to (−1: for ever), …; spans: FIELDS numbers each.
  lanes: [gpu: string, type: number, away: number[], spans: number[]][];
  // The nodes of the lanes, in their order, where nodes matter to the instance. A node
  // with GPUs of two types is here twice. rack may be empty.
  nodes?: [name: string, rack: string, lanes: number][];
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
  gpus: number; // of a task
}

// A span is FIELDS numbers of the data: job, start after the span before,
// rounds, period, hold, sync, first round, tasks.
export const FIELDS = 8;

// ABOVE and BELOW say that the lane above or below has a span of the same task: the spans
// are drawn as one block.
export const ABOVE = 1;
export const BELOW = 2;

// Lane is one GPU. Span k runs from start[k] to end[k].
export interface Lane {
  gpu: string;
  node: number; // index in Chart.nodes; −1 where nodes do not matter
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
  block: Uint8Array; // ABOVE, BELOW, or both
  blockLanes: Uint16Array; // the lanes of the block that begins with the span, at least 1
}

// Node holds the adjacent lanes of one node and type.
export interface Node {
  name: string;
  rack: string;
  first: number; // lane
  lanes: number;
}

export interface Chart {
  data: PageData;
  jobs: Job[];
  lanes: Lane[];
  nodes: Node[];
}

export function chartOf(data: PageData): Chart {
  const jobs = data.jobs.map(([id, weight, sync, rounds, tasks, release, start, end, gpus]) => ({
    id,
    weight,
    sync,
    rounds,
    tasks,
    release,
    start,
    end,
    gpus: gpus ?? 1,
  }));
  const lanes = data.lanes.map(l => laneOf(l, data.unit));
  let first = 0;
  const nodes = (data.nodes ?? []).map(([name, rack, n], i) => {
    const node = { name, rack, first, lanes: n };
    for (let l = first; l < first + n; l++) lanes[l]!.node = i;
    first += n;
    joinBlocks(jobs, lanes.slice(node.first, first));
    return node;
  });
  return { data, jobs, lanes, nodes };
}

// joinBlocks marks the equal spans of one task on adjacent lanes of a node. The tasks of
// a job of g GPUs take g lanes each.
function joinBlocks(jobs: readonly Job[], lanes: readonly Lane[]): void {
  const taken = lanes.map(l => new Uint8Array(l.n));
  lanes.forEach((l, i) => {
    for (let k = 0; k < l.n; k++) {
      const g = jobs[l.job[k]!]!.gpus;
      if (g === 1 || taken[i]![k]) continue;
      for (let n = 1, at = k; n < g && i + n < lanes.length; n++) {
        const next = sameSpan(l, k, lanes[i + n]!);
        if (next < 0 || taken[i + n]![next]) break;
        taken[i + n]![next] = 1;
        l.blockLanes[k] = n + 1;
        lanes[i + n - 1]!.block[at]! |= BELOW;
        lanes[i + n]!.block[next]! |= ABOVE;
        at = next;
      }
    }
  });
}

// sameSpan returns the span of lane b that equals span k of lane a; −1 where there is none.
function sameSpan(a: Lane, k: number, b: Lane): number {
  const i = above(b.start, b.n, a.start[k]!) - 1;
  const equal =
    i >= 0 &&
    b.start[i] === a.start[k] &&
    b.job[i] === a.job[k] &&
    b.round[i] === a.round[k] &&
    b.rounds[i] === a.rounds[k] &&
    b.period[i] === a.period[k] &&
    b.tasks[i] === a.tasks[k];
  return equal ? i : -1;
}

function laneOf([gpu, type, away, s]: PageData["lanes"][number], unit: number): Lane {
  const n = s.length / FIELDS;
  const column = (at: number, scale: number) =>
    Float64Array.from({ length: n }, (_, i) => s[i * FIELDS + at]! * scale);
  const lane: Lane = {
    gpu,
    node: -1,
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
    block: new Uint8Array(n),
    blockLanes: new Uint16Array(n).fill(1),
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
