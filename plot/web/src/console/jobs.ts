// The rows of the queue, made from the jobs of a cluster.

// Job is a job as the server describes it; a server may leave out whatever has a question mark.
export interface Job {
  id: string;
  state: string;
  name?: string;
  command?: string[];
  module?: string;
  user?: string;
  labels?: Record<string, string>;
  class?: Record<string, string>;
  gpus?: number;
  nodes?: number;
  tasks?: number;
  rounds?: number;
  round?: number;
  sync?: string;
  on?: Record<string, number>;
  weight?: number;
  retries?: number;
  submitted: string;
  started?: string;
  ended?: string;
  reason?: string;
  reason_short?: string;
  reason_code?: string;
  place?: number;
  expected_in_s?: number;
  expected_end_in_s?: number;
  earliest_end_in_s?: number;
  failures?: number;
  lost?: number;
  attempts?: Attempt[];
}

export interface Attempt {
  attempt: number;
  result?: string;
  error?: string;
  ordered: string;
  ended?: string;
  tasks: {
    task: number;
    agent: string;
    gpus: string[] | null;
    state: string;
    exit_code?: number;
    signal?: string;
    error?: string;
  }[];
}

export const ACTIVE = ["running", "starting", "stopping", "waiting"] as const;
export const ENDED = ["failed", "cancelled", "succeeded"] as const;

// Row is what the table, the grid and the chart know of a job. Times are milliseconds of the
// epoch; NaN where they are not known.
export interface Row {
  id: string;
  num: number; // of the id, by which rows are in the order of submission
  name: string;
  user: string;
  state: string;
  gpus: number;
  types: string[]; // on which it runs, is planned to run or may run
  on: string; // "V100" where it runs, "any" where it says nothing
  weight: number;
  submitted: number;
  place: number;
  start: number;
  started: boolean; // start has happened
  end: number;
  earliest: number;
  reason: string;
  short: string;
  code: string; // of the reason
  where: string[]; // GPUs that it holds or held last, node/index
  labels: string;
  text: string; // all that the search looks through
}

const time = (s: string | undefined): number => (s ? Date.parse(s) : NaN);
const after = (s: number | undefined | null, now: number): number =>
  s === undefined || s === null ? NaN : now + s * 1e3;

export const isActive = (state: string): boolean => (ACTIVE as readonly string[]).includes(state);

export function nameOf(j: Job): string {
  return j.name || j.module || (j.command ?? []).join(" ") || j.id;
}

export function userOf(j: Job): string {
  return j.user || j.class?.["user"] || "";
}

// rowOf makes the row of a job that was described at `now`, the time of the server.
export function rowOf(j: Job, now: number, typeOf: (gpu: string) => string | undefined): Row {
  const last = j.attempts?.[j.attempts.length - 1];
  const where = (last?.tasks ?? []).flatMap(t => t.gpus ?? []);
  const waits = j.state === "waiting";
  const used = waits ? [] : [...new Set(where.map(typeOf).filter(t => t !== undefined))];
  const types = used.length ? used : Object.keys(j.on ?? {});
  const labels = Object.entries(j.labels ?? {}).map(([k, v]) => (v ? `${k}=${v}` : k));
  const row: Row = {
    id: j.id,
    num: Number(j.id.slice(1)),
    name: nameOf(j),
    user: userOf(j),
    state: j.state,
    gpus: j.gpus ?? (j.rounds && !j.nodes && j.sync !== "rigid" && j.sync !== "gang" ? 0 : 1),
    types,
    on: types.length ? types.join(" or ") : "any",
    weight: j.weight ?? 1,
    submitted: time(j.submitted),
    place: j.place ?? NaN,
    start: waits ? after(j.expected_in_s, now) : time(j.started),
    started: !waits,
    end: j.ended ? time(j.ended) : after(j.expected_end_in_s, now),
    earliest: j.ended ? NaN : after(j.earliest_end_in_s, now),
    reason: j.reason ?? "",
    short: j.reason_short ?? "",
    code: j.reason_code ?? "",
    where,
    labels: labels.join(" "),
    text: "",
  };
  row.text = [row.id, row.name, row.user, j.module ?? (j.command ?? []).join(" "), row.labels]
    .join("\n")
    .toLowerCase();
  return row;
}

// Planned is what the plan of a session says of a job.
export interface Planned {
  job: string;
  running: boolean;
  types: string[];
  start_s: number | null;
  end_s: number | null;
  earliest_end_s: number | null;
  waits_for?: string;
}

export interface Plan {
  seq: number;
  at_s: number;
  made_at_s: number | null;
  due: boolean;
  fallback: string | null;
  value: number | null;
  bound: number | null;
  gap: number | null;
  jobs: Planned[];
}

// planned adds to a row what the plan says and the row does not. now is when the plan was at at_s.
export function planned(row: Row, p: Planned, plan: Plan, now: number): void {
  const at = (s: number | null): number => (s === null ? NaN : now + Math.max(0, s - plan.at_s) * 1e3);
  if (row.state === "waiting") {
    if (isNaN(row.start)) row.start = at(p.start_s);
    if (p.types.length) {
      row.types = p.types;
      row.on = p.types.join(" or ");
    }
    if (!row.short && p.waits_for) row.short = p.waits_for;
  }
  if (isNaN(row.end)) row.end = at(p.end_s);
  if (isNaN(row.earliest)) row.earliest = at(p.earliest_end_s);
}
