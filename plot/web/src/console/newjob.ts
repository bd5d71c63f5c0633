// The job that a form describes, and what the server expects of it.
import { count, seconds } from "./words.js";

export interface Form {
  command: string;
  gpus: string;
  times: Record<string, string>; // by type
  name: string;
  user: string;
  labels: string;
}

export const EMPTY: Form = { command: "", gpus: "1", times: {}, name: "", user: "", labels: "" };

// Preview is what the server expects of a job that is submitted now.
export interface Preview {
  expected_in_s?: number;
  expected_end_in_s?: number;
  earliest_end_in_s?: number;
  place?: number;
  reason?: string;
  reason_short?: string;
  delayed: number;
  delays: { job: string; name?: string; user?: string; by_s: number }[];
  sooner?: Sooner;
  assumes: string;
}

// Sooner is a smaller job that would start earlier.
export interface Sooner {
  expected_in_s?: number;
  expected_end_in_s?: number;
  gpus?: number;
  nodes?: number;
  tasks?: number;
  on?: string[];
}

// smaller says how a smaller job differs from that of a document.
export function smaller(s: Sooner, job: string): string {
  if (s.on?.length) return `${s.on.join(" or ")} allowed as well`;
  if (s.tasks) return count(s.tasks, "task");
  const times = ((JSON.parse(job) as { gpus?: number }).gpus ?? 1) / (s.gpus ?? 1);
  const on = s.nodes ? ` on ${count(s.nodes, "node")}` : "";
  return `${count(s.gpus ?? 1, "GPU")}${on}, if it then takes ${times} times as long,`;
}

// Fault is a field of the form that is not understood.
export class Fault extends Error {}

// argv splits a command at spaces, apart from those in quotes and after a backslash.
export function argv(text: string): string[] {
  const out: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quote ? c === quote : c === "'" || c === '"') {
      quote = quote ? "" : c;
      word ??= "";
    } else if (c === "\\" && quote !== "'" && i + 1 < text.length) word = (word ?? "") + text[++i]!;
    else if (quote || !/\s/.test(c)) word = (word ?? "") + c;
    else if (word !== null) {
      out.push(word);
      word = null;
    }
  }
  if (quote) throw new Fault(`the command has a ${quote} without its end`);
  if (word !== null) out.push(word);
  return out;
}

// jobOf makes the document of a job; it throws a Fault.
export function jobOf(f: Form): Record<string, unknown> {
  const job: Record<string, unknown> = { command: argv(f.command) };
  const gpus = Number(f.gpus);
  if (!Number.isInteger(gpus) || gpus < 1) throw new Fault("the number of GPUs is a whole number from 1");
  job["gpus"] = gpus;
  const on: Record<string, number> = {};
  for (const [type, text] of Object.entries(f.times)) {
    const time = text.trim();
    if (!time) continue;
    on[type] = time === "?" ? 0 : /[a-z]$/.test(time) ? seconds(time) : NaN;
    if (isNaN(on[type]))
      throw new Fault(`the time on ${type} is such as 90 s, 45 min, 2 h or 1.5 d, or ? where nobody knows`);
  }
  if (Object.keys(on).length) job["on"] = on;
  if (f.name.trim()) job["name"] = f.name.trim();
  if (f.user.trim()) job["user"] = f.user.trim();
  const labels = f.labels.split(/[\s,]+/).filter(Boolean);
  if (labels.length)
    job["labels"] = Object.fromEntries(
      labels.map(l => {
        const at = l.indexOf("=");
        return at < 0 ? [l, ""] : [l.slice(0, at), l.slice(at + 1)];
      }),
    );
  return job;
}
