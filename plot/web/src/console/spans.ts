// What a chart of a cluster shows: GPUs, and what they did, do and will do.
import type { Row } from "./jobs.js";
import type { Agent, Gantt } from "./store.js";

export interface Lane {
  gpu: string;
  type: string;
  node: string;
}

// Span is a job on some lanes. Times are milliseconds of the epoch.
export interface Span {
  job: string;
  num: number;
  name: string;
  user: string;
  weight: number; // NaN where it is not known
  cause: string; // why it waits; "" for what does not
  lanes: number[]; // ascending
  from: number;
  to: number;
  open: boolean; // nobody expects an end: the job runs, and `to` is only now
  kind: "past" | "now" | "plan";
  earliest: number; // the proved earliest end; NaN where there is none
}

export interface Chart {
  lanes: Lane[];
  spans: Span[];
  now: number;
}

const MOST_PLANNED = 1000; // jobs for which a place is looked for

const byName = new Intl.Collator("en", { numeric: true });

export function lanesOf(agents: readonly Agent[]): Lane[] {
  const lanes = agents.flatMap(a => a.devices.map(d => ({ gpu: d.gpu, type: d.type, node: a.name })));
  const of = (l: Lane): string => `${l.type}\n${l.node}\n${l.gpu}`;
  return lanes.sort((a, b) => byName.compare(of(a), of(b)));
}

// chartOf makes a chart of what the page knows, where the server has none: what waits is put on
// the GPUs of its type that are free first.
export function chartOf(rows: Iterable<Row>, lanes: Lane[], now: number): Chart {
  const at = new Map(lanes.map((l, i) => [l.gpu, i]));
  const free = lanes.map(() => now);
  const spans: Span[] = [];
  const waiting: Row[] = [];
  for (const r of rows) {
    if (r.state === "waiting") {
      if (!isNaN(r.start)) waiting.push(r);
      continue;
    }
    const on = r.where.map(g => at.get(g)).filter(i => i !== undefined);
    if (!on.length || isNaN(r.start)) continue;
    const past = r.state === "succeeded" || r.state === "failed" || r.state === "cancelled";
    const ends = Math.max(past ? r.end : now, isNaN(r.end) ? (isNaN(r.earliest) ? now : r.earliest) : r.end);
    if (isNaN(ends)) continue;
    for (const i of on) if (!past) free[i] = Math.max(free[i]!, ends);
    spans.push({
      ...head(r),
      lanes: on.sort((a, b) => a - b),
      from: r.start,
      to: ends,
      open: !past && isNaN(r.end),
      kind: past ? "past" : "now",
    });
  }
  waiting.sort((a, b) => a.start - b.start || a.num - b.num);
  for (const r of waiting.slice(0, MOST_PLANNED)) {
    const fits = lanes.map((_, i) => i).filter(i => !r.types.length || r.types.includes(lanes[i]!.type));
    const ready = fits.filter(i => free[i]! <= r.start + 1000);
    const pool = ready.length >= r.gpus ? ready : fits.sort((a, b) => free[a]! - free[b]! || a - b);
    const on = pool.slice(0, Math.max(1, r.gpus)).sort((a, b) => a - b);
    if (on.length < r.gpus || !on.length) continue;
    const from = Math.max(now, r.start);
    const to = isNaN(r.end) ? (isNaN(r.earliest) ? from : Math.max(from, r.earliest)) : r.end;
    for (const i of on) free[i] = Math.max(free[i]!, to);
    spans.push({ ...head(r), lanes: on, from, to, open: isNaN(r.end), kind: "plan" });
  }
  return { lanes, spans, now };
}

function head(r: Row): Pick<Span, "job" | "num" | "name" | "earliest"> & Told {
  return { job: r.id, num: r.num, name: r.name, earliest: r.earliest, ...told(r) };
}

type Told = Pick<Span, "user" | "weight" | "cause">;

function told(r: Row | undefined): Told {
  if (!r) return { user: "", weight: NaN, cause: "" };
  return {
    user: r.user,
    weight: r.weight,
    cause: r.state === "waiting" ? r.code.replace(/_/g, " ") || "not known" : "",
  };
}

// chartFrom reads the chart that a server makes. rowOf is what the page knows of a job.
export function chartFrom(g: Gantt, rowOf: (job: string) => Row | undefined): Chart {
  const now = Date.parse(g.now);
  const order = g.rows.map((_, i) => i);
  const of = (i: number): string => `${g.rows[i]!.type}\n${g.rows[i]!.node}\n${g.rows[i]!.gpu}`;
  order.sort((a, b) => byName.compare(of(a), of(b)));
  const at = new Map(order.map((from, i) => [from, i]));
  const spans = g.spans.map((s): Span => {
    const to = Date.parse(s.to);
    const earliest = s.earliest_end ? Date.parse(s.earliest_end) : NaN;
    const open = s.kind !== "past" && to <= now;
    return {
      job: s.job,
      num: Number(s.job.replace(/^j/, "")) || 0,
      name: s.name || s.job,
      ...told(rowOf(s.job)),
      lanes: s.rows.map(i => at.get(i)!).sort((a, b) => a - b),
      from: Date.parse(s.from),
      to: open && earliest > now ? earliest : to,
      open,
      kind: s.kind,
      earliest,
    };
  });
  return { lanes: order.map(i => g.rows[i]!), spans, now };
}

// runs splits ascending lanes into ranges of neighbours.
export function runs(lanes: readonly number[]): [first: number, last: number][] {
  const out: [number, number][] = [];
  for (const i of lanes) {
    const last = out[out.length - 1];
    if (last && last[1] === i - 1) last[1] = i;
    else out.push([i, i]);
  }
  return out;
}
