// Decodes the data of a page, which package plot writes, into a chart.

// PageData is the JSON in the page. Times of lanes are multiples of unit
// microseconds; all others are microseconds.
export interface PageData {
  title: string;
  figures: string;
  size: string;
  unit: number;
  end: number;
  now?: number; // of a timeline: what begins later is planned
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
    more?: MoreOfJob,
  ][];
  // away: from, to (−1: for ever), …; spans: `fields` numbers each.
  lanes: [gpu: string, type: number, away: number[], spans: number[]][];
  fields: number;
  // The nodes of the lanes, in their order, where nodes matter to the instance. A node
  // with GPUs of two types is here twice. racks are its domains, coarse to fine, each of
  // which may be empty; reserved are positions in the reservations.
  nodes?: [name: string, racks: string[], lanes: number, reserved: number[]][];
  levels?: string[]; // fine to coarse, where the spread of rounds matters
  reserved?: [from: number, to: number, who: string][];
  late?: number[]; // jobs that end after their deadlines, the latest first
}

// MoreOfJob is what few jobs have.
export interface MoreOfJob {
  gpus?: number; // of a task; absent: 1
  deadline?: number;
  shapes?: [tasks: number, gpus: number, counts: number][];
  elapsed?: number; // how long ago the work began that runs at time 0
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
  gpus: number; // of a task, where the job has no shapes
  deadline: number; // 0: none
  late: number; // by how much the job ends after its deadline
  shapes: Shape[]; // empty where all rounds are alike
  elapsed: number; // −1 where nothing of the job runs at time 0
}

export interface Shape {
  tasks: number;
  gpus: number; // of a task
  counts: number; // units of a round
}

// A span is `fields` numbers of the data: job, start after the span before, rounds, period,
// hold, sync, first round, tasks, and where some span needs them setup, shape, and the level
// of the spread counted from 1 (0: none).

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
  setup: Float64Array; // of the GPU for the job, before start
  shape: Int32Array;
  spread: Int32Array; // index in the levels; −1 for none
  block: Uint8Array; // ABOVE, BELOW, or both
  blockLanes: Uint16Array; // the lanes of the block that begins with the span, at least 1
}

// Node holds the adjacent lanes of one node and type.
export interface Node {
  name: string;
  racks: string[]; // coarse to fine
  first: number; // lane
  lanes: number;
  reserved: number[];
}

// Reservation keeps most jobs off its nodes.
export interface Reservation {
  from: number;
  to: number;
  who: string;
}

export interface Chart {
  data: PageData;
  jobs: Job[];
  lanes: Lane[];
  nodes: Node[];
  reserved: Reservation[];
}

export function chartOf(data: PageData): Chart {
  const jobs = data.jobs.map(([id, weight, sync, rounds, tasks, release, start, end, more]) => ({
    id,
    weight,
    sync,
    rounds,
    tasks,
    release,
    start,
    end,
    gpus: more?.gpus ?? 1,
    deadline: more?.deadline ?? 0,
    late: more?.deadline ? Math.max(0, end - more.deadline) : 0,
    shapes: (more?.shapes ?? []).map(([tasks, gpus, counts]) => ({ tasks, gpus, counts })),
    elapsed: more?.elapsed ?? -1,
  }));
  const lanes = data.lanes.map(l => laneOf(l, data.unit, data.fields));
  let first = 0;
  const nodes = (data.nodes ?? []).map(([name, racks, n, reserved], i) => {
    const node = { name, racks, first, lanes: n, reserved };
    for (let l = first; l < first + n; l++) lanes[l]!.node = i;
    first += n;
    joinBlocks(jobs, lanes.slice(node.first, first));
    return node;
  });
  const reserved = (data.reserved ?? []).map(([from, to, who]) => ({ from, to, who }));
  return { data, jobs, lanes, nodes, reserved };
}

// taskGPUs returns the GPUs of a task of span k.
function taskGPUs(job: Job, shape: number): number {
  return job.shapes[shape]?.gpus ?? job.gpus;
}

// planned says whether span k of a lane begins at the now of a timeline or later, and runsNow whether it goes on.
export function planned(data: PageData, l: Lane, k: number): boolean {
  return data.now !== undefined && l.start[k]! >= data.now;
}

export function runsNow(data: PageData, l: Lane, k: number): boolean {
  return data.now !== undefined && l.start[k]! < data.now && l.end[k]! > data.now;
}

// runsAtZero says whether span k of a lane is work that runs at time 0.
export function runsAtZero(jobs: readonly Job[], l: Lane, k: number): boolean {
  return k === 0 && l.start[0] === 0 && jobs[l.job[0]!]!.elapsed >= 0;
}

// joinBlocks marks the equal spans of one task on adjacent lanes of a node. The tasks of
// a job of g GPUs take g lanes each.
function joinBlocks(jobs: readonly Job[], lanes: readonly Lane[]): void {
  const taken = lanes.map(l => new Uint8Array(l.n));
  lanes.forEach((l, i) => {
    for (let k = 0; k < l.n; k++) {
      const g = taskGPUs(jobs[l.job[k]!]!, l.shape[k]!);
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
    b.tasks[i] === a.tasks[k] &&
    b.shape[i] === a.shape[k] &&
    b.setup[i] === a.setup[k];
  return equal ? i : -1;
}

function laneOf([gpu, type, away, s]: PageData["lanes"][number], unit: number, fields: number): Lane {
  const n = s.length / fields;
  const all = fields > 8;
  const column = (at: number, scale: number) =>
    Float64Array.from({ length: n }, (_, i) => s[i * fields + at]! * scale);
  const lane: Lane = {
    gpu,
    node: -1,
    type,
    away: away.map(t => (t < 0 ? Infinity : t * unit)),
    n,
    start: new Float64Array(n),
    end: new Float64Array(n),
    job: Int32Array.from({ length: n }, (_, i) => s[i * fields]!),
    rounds: column(2, 1),
    period: column(3, unit),
    hold: column(4, unit),
    sync: column(5, unit),
    round: column(6, 1),
    tasks: column(7, 1),
    setup: all ? column(8, unit) : new Float64Array(n),
    shape: all ? Int32Array.from(column(9, 1)) : new Int32Array(n),
    spread: all ? Int32Array.from(column(10, 1), v => v - 1) : new Int32Array(n).fill(-1),
    block: new Uint8Array(n),
    blockLanes: new Uint16Array(n).fill(1),
  };
  for (let i = 0, t = 0; i < n; i++) {
    t += s[i * fields + 1]!;
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

// setupAt returns the span for which a lane is set up at t, with a tolerance of slack; −1 where
// there is none.
export function setupAt(l: Lane, t: number, slack: number): number {
  const k = above(l.start, l.n, t);
  return k < l.n && l.setup[k]! > 0 && l.start[k]! - l.setup[k]! <= t + slack ? k : -1;
}

// freePlace returns the longest time between `from` and `to` in which no span, with its setup,
// holds the GPU of a lane.
export function freePlace(l: Lane, from: number, to: number): [from: number, to: number] {
  let best: [number, number] = [from, from];
  let free = from;
  for (let k = above(l.end, l.n, from); k <= l.n && free < to; k++) {
    const end = k < l.n ? Math.min(to, l.start[k]! - l.setup[k]!) : to;
    if (end - free > best[1] - best[0]) best = [free, end];
    if (k < l.n) free = Math.max(free, l.end[k]!);
  }
  return best;
}

// lanesOf returns the lanes that a job runs on.
export function lanesOf(lanes: readonly Lane[], job: number): number[] {
  const out: number[] = [];
  lanes.forEach((l, i) => {
    if (l.job.includes(job)) out.push(i);
  });
  return out;
}
