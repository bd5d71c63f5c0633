// Columns, filters, order and groups of the queue.
import { seconds } from "./words.js";
import { isActive, type Row } from "./jobs.js";

export type Kind = "text" | "number" | "past" | "future";

export interface Column {
  key: string;
  head: string;
  kind: Kind;
  width: number; // pixels
  hint: string; // what a filter may be
  of(r: Row): string | number;
}

const TEXT = "part of the text; =exactly; !without; one|another";
const NUMBER = "4, >2, 2-8";
const PAST = "<1h: in the last hour";
const FUTURE = "<1h: within an hour";

export const COLUMNS: readonly Column[] = [
  { key: "id", head: "Job", kind: "text", width: 66, hint: TEXT, of: r => r.id },
  { key: "name", head: "Name", kind: "text", width: 190, hint: TEXT, of: r => r.name },
  { key: "user", head: "User", kind: "text", width: 100, hint: TEXT, of: r => r.user },
  { key: "state", head: "State", kind: "text", width: 112, hint: TEXT, of: r => r.state },
  { key: "gpus", head: "GPUs", kind: "number", width: 66, hint: NUMBER, of: r => r.gpus },
  { key: "type", head: "Type", kind: "text", width: 104, hint: TEXT, of: r => r.on },
  { key: "weight", head: "Weight", kind: "number", width: 74, hint: NUMBER, of: r => r.weight },
  { key: "submitted", head: "Submitted", kind: "past", width: 118, hint: PAST, of: r => r.submitted },
  { key: "place", head: "Place", kind: "number", width: 66, hint: NUMBER, of: r => r.place },
  { key: "start", head: "Starts", kind: "future", width: 170, hint: FUTURE, of: r => r.start },
  { key: "end", head: "Ends", kind: "future", width: 170, hint: FUTURE, of: r => r.end },
  { key: "earliest", head: "Ends not before", kind: "future", width: 152, hint: FUTURE, of: r => r.earliest },
  { key: "reason", head: "Why", kind: "text", width: 250, hint: TEXT, of: r => r.short || r.reason },
  { key: "labels", head: "Labels", kind: "text", width: 160, hint: TEXT, of: r => r.labels },
];

export const WIDE = [
  "id",
  "name",
  "user",
  "state",
  "gpus",
  "type",
  "weight",
  "submitted",
  "start",
  "earliest",
  "reason",
];
export const NARROW = ["name", "state", "start"];
export const GROUPS = ["state", "user", "name", "type"] as const;

export const column = (key: string): Column | undefined => COLUMNS.find(c => c.key === key);

// View is what the reader has chosen.
export interface View {
  q: string; // searched in id, name, user, command and labels
  filters: Record<string, string>; // by column
  sort: string; // a column, after "-" descending
  group: string; // "" for none
  columns: string[]; // empty: the usual ones
}

export type Test = (r: Row) => boolean;

// compare reads "4", ">2", "<=8" and "2-8" with the given reader of a value; undefined where
// the text is none of these.
function compare(text: string, read: (s: string) => number): ((v: number) => boolean) | undefined {
  const range = /^([^<>=-]+)-([^<>=-]+)$/.exec(text);
  if (range) {
    const [a, b] = [read(range[1]!), read(range[2]!)];
    return isNaN(a + b) ? undefined : v => v >= a && v <= b;
  }
  const m = /^(<=|>=|<|>|=)?(.+)$/.exec(text);
  const x = read(m?.[2] ?? "");
  if (isNaN(x)) return undefined;
  switch (m![1]) {
    case "<":
      return v => v < x;
    case "<=":
      return v => v <= x;
    case ">":
      return v => v > x;
    case ">=":
      return v => v >= x;
    default:
      return v => v === x;
  }
}

// exactly is the filter that only a value passes.
export const exactly = (value: string): string => "=" + value.replace(/[\\|]/g, "\\$&");

const plain = (part: string): string => part.replace(/\\([\\|])/g, "$1");

// testOf returns what a filter of a column asks; undefined where its text is not understood.
export function testOf(c: Column, filter: string, now: number): Test | undefined {
  const text = filter.trim();
  if (c.kind === "text") {
    const without = text.startsWith("!");
    const rest = (without ? text.slice(1) : text).toLowerCase();
    const parts = [...rest.matchAll(/(?:\\[\\|]|[^|])+/g)].map(m => plain(m[0]).trim()).filter(Boolean);
    if (!parts.length) return undefined;
    const has = parts.map(p =>
      p.startsWith("=") ? (v: string) => v === p.slice(1).trim() : (v: string) => v.includes(p),
    );
    return r => {
      const v = String(c.of(r)).trim().toLowerCase();
      return has.some(f => f(v)) !== without;
    };
  }
  if (c.kind === "number") {
    const f = compare(text, s => (s.trim() === "" ? NaN : Number(s)));
    return f && (r => f(c.of(r) as number));
  }
  const f = compare(/^[\d.]/.test(text) && !text.includes("-") ? "<" + text : text, seconds);
  const sign = c.kind === "past" ? -1 : 1;
  // What has happened is not within the next hour.
  const happened = (r: Row): boolean =>
    c.kind === "future" && (c.key === "start" ? r.started : !isActive(r.state));
  return f && (r => !happened(r) && f((sign * ((c.of(r) as number) - now)) / 1e3));
}

// filtered returns the rows that the view asks for. Filters that are not understood ask nothing.
export function filtered(rows: readonly Row[], v: View, now: number): Row[] {
  const tests: Test[] = [];
  const q = v.q.trim().toLowerCase();
  if (q) tests.push(r => r.text.includes(q));
  for (const [key, text] of Object.entries(v.filters)) {
    const c = column(key);
    const test = c && testOf(c, text, now);
    if (test) tests.push(test);
  }
  return tests.length ? rows.filter(r => tests.every(t => t(r))) : rows.slice();
}

// STATES is the order in which states are of interest.
const STATES = ["running", "starting", "stopping", "waiting", "failed", "cancelled", "succeeded"];
export const stateOrder = (s: string): number =>
  (STATES.indexOf(s) + STATES.length + 1) % (STATES.length + 1);

// sort returns the rows in order; unknown values come last in either direction, equal ones by
// submission.
export function sort(rows: readonly Row[], by: string): Row[] {
  const down = by.startsWith("-");
  const c = column(down ? by.slice(1) : by);
  if (c?.key === "id") return ordered(rows, r => r.num, down);
  if (c?.key === "state") return ordered(rows, r => stateOrder(r.state), down);
  if (c) return ordered(rows, r => c.of(r), down);
  // The usual order: what waits, by its expected start, then what runs, then what has ended.
  const parts: [Row[], Row[], Row[]] = [[], [], []];
  for (const r of rows) parts[r.state === "waiting" ? 0 : stateOrder(r.state) < 4 ? 1 : 2].push(r);
  return [
    ...ordered(parts[0], r => r.start, false),
    ...ordered(parts[1], r => r.num, true),
    ...ordered(parts[2], r => r.num, true),
  ];
}

// ordered sorts by values of which many are equal: only the different ones are compared.
function ordered(rows: readonly Row[], of: (r: Row) => string | number, down: boolean): Row[] {
  const equal = new Map<string | number, Row[]>();
  for (const r of rows) {
    let v = of(r);
    if (typeof v === "string") v = v.toLowerCase();
    const same = equal.get(v);
    if (same) same.push(r);
    else equal.set(v, [r]);
  }
  const none = [equal.get(NaN), equal.get("")];
  equal.delete(NaN);
  equal.delete("");
  const keys = [...equal.keys()];
  const order = typeof keys[0] === "number" ? Float64Array.from(keys as number[]).sort() : keys.sort();
  const out: Row[] = [];
  const add = (same: Row[]) => {
    if (same.some((r, i) => i > 0 && same[i - 1]!.num > r.num)) same.sort((a, b) => a.num - b.num);
    for (const r of same) out.push(r);
  };
  for (let i = 0; i < order.length; i++) add(equal.get(order[down ? order.length - 1 - i : i]!)!);
  for (const same of none) if (same) add(same);
  return out;
}

// Group is a head of rows that agree in a column.
export interface Group {
  group: string;
  jobs: number;
  gpus: number;
  open: boolean;
}

export type Item = Row | Group;
export const isGroup = (i: Item): i is Group => "group" in i;

// grouped puts heads before the rows of each group, the largest groups first and states in
// their order; rows of groups that are not open are left out.
export function grouped(rows: Row[], by: string, open: ReadonlySet<string>): Item[] {
  const c = column(by);
  if (!c) return rows;
  const groups = new Map<string, Row[]>();
  for (const r of rows) {
    const key = String(c.of(r));
    const g = groups.get(key);
    if (g) g.push(r);
    else groups.set(key, [r]);
  }
  const order = [...groups].sort(([a, x], [b, y]) =>
    by === "state" ? stateOrder(a) - stateOrder(b) : y.length - x.length || (a < b ? -1 : 1),
  );
  const out: Item[] = [];
  for (const [group, all] of order) {
    const head = {
      group,
      jobs: all.length,
      gpus: all.reduce((n, r) => n + r.gpus, 0),
      open: open.has(group),
    };
    out.push(head);
    if (head.open) for (const r of all) out.push(r);
  }
  return out;
}

// changes counts the places at which two tables differ.
export function changes(a: readonly Item[], b: readonly Item[]): number {
  const key = (i: Item): string => (isGroup(i) ? `${i.group} ${i.jobs}` : `${i.id} ${i.state}`);
  const before = new Set(a.map(key));
  let n = Math.max(0, a.length - b.length);
  for (const i of b) if (!before.has(key(i))) n++;
  if (n) return n;
  for (let i = 0; i < b.length; i++) if (key(a[i]!) !== key(b[i]!)) n++;
  return n;
}
