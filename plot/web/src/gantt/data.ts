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
  // away: from, to (−1: for ever), …; spans: how many of the binary data are the lane's.
  lanes: [gpu: string, type: number, away: number[], spans: number][];
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
  user?: string;
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
  user: string;
}

export interface Shape {
  tasks: number;
  gpus: number; // of a task
  counts: number; // units of a round
}

// ABOVE and BELOW say that the lane above or below has a span of the same task: the spans
// are drawn as one block.
export const ABOVE = 1;
export const BELOW = 2;

// Kinds are what spans have in common: a schedule of millions of spans has few of them.
export class Kinds {
  readonly job: Int32Array;
  readonly rounds: Float64Array;
  readonly period: Float64Array;
  readonly hold: Float64Array;
  readonly sync: Float64Array;
  readonly tasks: Float64Array;
  readonly setup: Float64Array; // of the GPU for the job, before start
  readonly shape: Int32Array;
  readonly spread: Int32Array; // index in the levels; −1 for none
  readonly length: Float64Array; // from start to end

  constructor(readonly n: number) {
    const floats = () => new Float64Array(n);
    const ints = () => new Int32Array(n);
    [this.job, this.shape, this.spread] = [ints(), ints(), ints()];
    [this.rounds, this.period, this.hold, this.sync] = [floats(), floats(), floats(), floats()];
    [this.tasks, this.setup, this.length] = [floats(), floats(), floats()];
  }
}

// Lane is one GPU. Its n spans are in order, from number `first` of all spans on.
export class Lane {
  node = -1; // index in Chart.nodes; −1 where nodes do not matter

  constructor(
    readonly gpu: string,
    readonly type: number,
    readonly away: number[], // from, to, …
    readonly n: number,
    readonly kinds: Kinds,
    readonly start: Float64Array,
    readonly round: Float64Array,
    readonly kind: Int32Array,
    readonly block: Uint8Array, // ABOVE, BELOW, or both
    readonly blockLanes: Uint16Array, // the lanes of the block that begins with the span, at least 1
  ) {}

  end(k: number): number {
    return this.start[k]! + this.kinds.length[this.kind[k]!]!;
  }

  job(k: number): number {
    return this.kinds.job[this.kind[k]!]!;
  }

  setup(k: number): number {
    return this.kinds.setup[this.kind[k]!]!;
  }

  shape(k: number): number {
    return this.kinds.shape[this.kind[k]!]!;
  }

  // after returns the first span that ends after t; n where there is none.
  after(t: number): number {
    const k = above(this.start, this.n, t);
    return k > 0 && this.end(k - 1) > t ? k - 1 : k;
  }
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
  kinds: Kinds;
  jobs: Job[];
  lanes: Lane[];
  nodes: Node[];
  reserved: Reservation[];
}

// chartOf decodes a page. spans are base64 of whole numbers, as plot/spans.go says.
export function chartOf(data: PageData, spans: string): Chart {
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
    user: more?.user ?? "",
  }));
  const [kinds, lanes] = decode(data, bytesOf(spans));
  const wide = jobs.some(j => j.gpus > 1 || j.shapes.some(s => s.gpus > 1));
  let first = 0;
  const nodes = (data.nodes ?? []).map(([name, racks, n, reserved], i) => {
    const node = { name, racks, first, lanes: n, reserved };
    for (let l = first; l < first + n; l++) lanes[l]!.node = i;
    first += n;
    if (wide) joinBlocks(jobs, lanes.slice(node.first, first));
    return node;
  });
  const reserved = (data.reserved ?? []).map(([from, to, who]) => ({ from, to, who }));
  return { data, kinds, jobs, lanes, nodes, reserved };
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
  return data.now !== undefined && l.start[k]! < data.now && l.end(k) > data.now;
}

// runsAtZero says whether span k of a lane is work that runs at time 0.
export function runsAtZero(jobs: readonly Job[], l: Lane, k: number): boolean {
  return k === 0 && l.start[0] === 0 && jobs[l.job(0)]!.elapsed >= 0;
}

// joinBlocks marks the equal spans of one task on adjacent lanes of a node. The tasks of
// a job of g GPUs take g lanes each.
function joinBlocks(jobs: readonly Job[], lanes: readonly Lane[]): void {
  const taken = lanes.map(l => new Uint8Array(l.n));
  lanes.forEach((l, i) => {
    for (let k = 0; k < l.n; k++) {
      const g = taskGPUs(jobs[l.job(k)]!, l.shape(k));
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
  const equal = i >= 0 && b.start[i] === a.start[k] && b.kind[i] === a.kind[k] && b.round[i] === a.round[k];
  return equal ? i : -1;
}

// bytesOf decodes base64 without an end.
function bytesOf(text: string): Uint8Array {
  const value = new Uint8Array(128);
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (let i = 0; i < 64; i++) value[digits.charCodeAt(i)] = i;
  const out = new Uint8Array(Math.floor((text.length * 3) / 4));
  for (let i = 0, n = 0; n < out.length; i += 4) {
    const v =
      (value[text.charCodeAt(i)]! << 18) |
      (value[text.charCodeAt(i + 1)]! << 12) |
      (value[text.charCodeAt(i + 2) & 127]! << 6) |
      value[text.charCodeAt(i + 3) & 127]!;
    out[n++] = v >> 16;
    out[n++] = v >> 8;
    out[n++] = v;
  }
  return out;
}

function decode(data: PageData, bytes: Uint8Array): [Kinds, Lane[]] {
  let at = 0;
  const next = (): number => {
    let b = bytes[at++]!;
    let v = b & 127;
    for (let scale = 128; b > 127; scale *= 128) {
      b = bytes[at++]!;
      v += (b & 127) * scale;
    }
    return v;
  };
  const kinds = new Kinds(next());
  for (let i = 0; i < kinds.n; i++) {
    kinds.job[i] = next();
    kinds.rounds[i] = next();
    kinds.period[i] = next() * data.unit;
    kinds.hold[i] = next() * data.unit;
    kinds.sync[i] = next() * data.unit;
    kinds.tasks[i] = next();
    kinds.setup[i] = next() * data.unit;
    kinds.shape[i] = next();
    kinds.spread[i] = next() - 1;
    kinds.length[i] = (kinds.rounds[i]! - 1) * kinds.period[i]! + kinds.hold[i]!;
  }
  const all = data.lanes.reduce((sum, l) => sum + l[3], 0);
  const start = new Float64Array(all);
  const round = new Float64Array(all);
  const kind = new Int32Array(all);
  const block = new Uint8Array(all);
  const blockLanes = new Uint16Array(all).fill(1);
  let first = 0;
  const lanes = data.lanes.map(([gpu, type, away, n]) => {
    const end = first + n;
    let free = 0; // where the span before ends
    for (let i = first; i < end; i++) {
      const k = next();
      const gap = next();
      kind[i] = k;
      start[i] = free + (gap % 2 ? -(gap + 1) / 2 : gap / 2) * data.unit;
      free = start[i]! + kinds.length[k]!;
      round[i] = next();
    }
    const times = away.map(t => (t < 0 ? Infinity : t * data.unit));
    const own = <T>(a: { subarray(from: number, to: number): T }) => a.subarray(first, end);
    const columns = [own(start), own(round), own(kind), own(block), own(blockLanes)] as const;
    first = end;
    return new Lane(gpu, type, times, n, kinds, ...columns);
  });
  return [kinds, lanes];
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
  return k >= 0 && l.end(k) + slack >= t ? k : -1;
}

// setupAt returns the span for which a lane is set up at t, with a tolerance of slack; −1 where
// there is none.
export function setupAt(l: Lane, t: number, slack: number): number {
  const k = above(l.start, l.n, t);
  return k < l.n && l.setup(k) > 0 && l.start[k]! - l.setup(k) <= t + slack ? k : -1;
}

// freePlace returns the longest time between `from` and `to` in which no span, with its setup,
// holds the GPU of a lane.
export function freePlace(l: Lane, from: number, to: number): [from: number, to: number] {
  let best: [number, number] = [from, from];
  let free = from;
  for (let k = l.after(from); k <= l.n && free < to; k++) {
    const end = k < l.n ? Math.min(to, l.start[k]! - l.setup(k)) : to;
    if (end - free > best[1] - best[0]) best = [free, end];
    if (k < l.n) free = Math.max(free, l.end(k));
  }
  return best;
}

// lanesOf returns the lanes that a job runs on.
export function lanesOf(chart: Chart, job: number): number[] {
  const has = kindsOf(chart, job);
  const out: number[] = [];
  chart.lanes.forEach((l, i) => {
    if (l.kind.some(k => has[k])) out.push(i);
  });
  return out;
}

// kindsOf has 1 for the kinds of the spans of a job.
function kindsOf({ kinds }: Chart, job: number): Uint8Array {
  return Uint8Array.from(kinds.job, j => Number(j === job));
}

// shapesOf returns the shapes in which a job runs on the GPUs of the page, in order.
export function shapesOf({ kinds }: Chart, job: number): number[] {
  const found = new Set<number>();
  kinds.job.forEach((j, k) => j === job && found.add(kinds.shape[k]!));
  return [...found].sort((a, b) => a - b);
}
