// The figures of the first screen, from what the server says.
import type { Row } from "./jobs.js";
import type { Agent, ClusterStore } from "./store.js";
import { ahead, ago, clock, count, list, percent, span } from "./words.js";

// faulty says that a GPU is at fault: one that still has a job is busy until the job has ended.
export const faulty = (d: Agent["devices"][number]): boolean => d.state === "quarantined" || !!d.reason;

export interface Use {
  type: string;
  inService: number;
  busy: number;
  faulty: number; // at fault or of a node that is lost
}

export function useOf(agents: readonly Agent[]): Use[] {
  const types = new Map<string, Use>();
  for (const a of agents) {
    for (const d of a.devices) {
      const u = types.get(d.type) ?? { type: d.type, inService: 0, busy: 0, faulty: 0 };
      types.set(d.type, u);
      if (a.state === "lost" || faulty(d)) u.faulty++;
      else {
        u.inService++;
        if (d.state === "busy") u.busy++;
      }
    }
  }
  return [...types.values()].sort((a, b) => (a.type < b.type ? -1 : 1));
}

// faultsOf lists what is wrong with nodes, one line each.
export function faultsOf(agents: readonly Agent[], now: number): string[] {
  const out: string[] = [];
  for (const a of agents) {
    if (a.state === "lost") out.push(`${a.name} is lost: not heard for ${span((now - a.heard) / 1e3)}`);
    for (const d of a.devices)
      if (faulty(d) && a.state !== "lost")
        out.push(`${d.gpu} is in quarantine${d.reason ? ": " + d.reason : ""}`);
  }
  return out;
}

// wellness says in a sentence whether the cluster is well.
export function wellness(store: Pick<ClusterStore, "agents" | "session">): { well: boolean; text: string } {
  const { agents, session } = store;
  if (!agents.length) return { well: false, text: "No node has registered yet." };
  const faults: string[] = [];
  const lost = agents.filter(a => a.state === "lost");
  if (lost.length) faults.push(`${list(lost.map(a => a.name))} ${lost.length === 1 ? "is" : "are"} lost`);
  const quarantined = agents.filter(a => a.state !== "lost").flatMap(a => a.devices.filter(faulty));
  if (quarantined.length) faults.push(`${count(quarantined.length, "GPU is", "GPUs are")} in quarantine`);
  if (session?.planning?.error) faults.push("the last plan failed");
  if (session?.planning?.fallback) faults.push(`${session.planning.fallback} decides in place of the plan`);
  if (faults.length) {
    return { well: false, text: `Not all is well: ${list(faults, 9)}.` };
  }
  return { well: true, text: `All is well: ${count(agents.length, "node is", "nodes are")} in service.` };
}

// Waiter is a user with the jobs that wait.
export interface Waiter {
  user: string;
  jobs: number;
  gpus: number;
}

// waiters lists users by the GPUs that they wait for.
export function waiters(rows: readonly Row[]): Waiter[] {
  const users = new Map<string, Waiter>();
  for (const r of rows) {
    if (r.state !== "waiting") continue;
    const w = users.get(r.user) ?? { user: r.user, jobs: 0, gpus: 0 };
    users.set(r.user, w);
    w.jobs++;
    w.gpus += r.gpus;
  }
  return [...users.values()].sort((a, b) => b.gpus - a.gpus || (a.user < b.user ? -1 : 1));
}

// queueLine says what waits and until when.
export function queueLine(rows: readonly Row[], now: number): string {
  const waiting = rows.filter(r => r.state === "waiting");
  if (!waiting.length) return "Nothing waits.";
  const gpus = waiting.reduce((n, r) => n + r.gpus, 0);
  const starts = waiting.map(r => r.start).filter(t => !isNaN(t));
  const who = `${count(waiting.length, "job waits", "jobs wait")} for ${count(gpus, "GPU")}`;
  if (!starts.length) return who + ".";
  const [first, last] = starts.reduce(([a, b], t) => [Math.min(a, t), Math.max(b, t)], [Infinity, -Infinity]);
  if (waiting.length === 1) return `${who} and starts ${ahead(first, now)}.`;
  const open = waiting.length - starts.length;
  const rest = open ? ` ${count(open, "job has", "jobs have")} no time yet.` : "";
  return `${who}. The next one starts ${ahead(first, now)}; the last at about ${clock(last, now)}.${rest}`;
}

// goodness says how far a plan, or the schedule of a solve, is from the best one.
export function goodness(
  plan: { gap: number | null } | null | undefined,
  unknown = "The plan is loading …",
): string {
  if (plan === undefined) return unknown;
  if (!plan) return "This policy makes no plan.";
  const { gap } = plan;
  if (gap === null) return "Nothing is proved yet.";
  if (gap === 0) return "Proved: no plan is better.";
  return `Proved: the plan is at most ${percent(gap, true)} above the best possible one.`;
}

export const planAge = (made: number, now: number): string => (isNaN(made) ? "none yet" : ago(made, now));
