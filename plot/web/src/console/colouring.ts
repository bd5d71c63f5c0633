// What the spans of a chart are coloured by.
import { LEVELS } from "../shared/palette.js";
import type { Span } from "./spans.js";

// numberOf gives equal texts equal numbers.
export function numberOf(text: string): number {
  let h = 7;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) >>> 0;
  return h;
}

// By is what spans are coloured by.
export type By = "job" | "user" | "name" | "weight" | "cause";

// Colouring gives spans places in the palette.
export interface Colouring {
  of(s: Span): number;
  key: [text: string, place: number][]; // of most jobs
}

const MOST_KEYS = 8;

// colouring gives equal users, names and causes equal colours, which stay as they are while jobs come and go, and
// greater weights darker ones.
export function colouring(spans: readonly Span[], by: By): Colouring {
  if (by === "job") return { of: s => s.num, key: [] };
  const text = (s: Span): string =>
    by === "user"
      ? s.user || "no user"
      : by === "name"
        ? s.name
        : by === "cause"
          ? s.cause || "does not wait"
          : String(s.weight);
  const counts = new Map<string, number>();
  const seen = new Set<string>();
  for (const s of spans) {
    const key = `${s.job} ${text(s)}`;
    if (seen.has(key) || (by === "weight" && isNaN(s.weight))) continue;
    seen.add(key);
    counts.set(text(s), (counts.get(text(s)) ?? 0) + 1);
  }
  const all = [...counts];
  const place = new Map<string, number>();
  if (by === "weight") all.sort(([a], [b]) => Number(a) - Number(b));
  else all.sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  all.forEach(([t], i) => {
    const level = all.length > LEVELS.length ? Math.floor((i * LEVELS.length) / all.length) : i;
    place.set(t, by === "weight" ? LEVELS[level]! : numberOf(t));
  });
  return { of: s => place.get(text(s)) ?? 0, key: keyOf(all, place, by) };
}

function keyOf(all: [string, number][], place: Map<string, number>, by: By): [string, number][] {
  if (by !== "weight" || all.length <= LEVELS.length)
    return all.slice(0, MOST_KEYS).map(([t]) => [t, place.get(t)!]);
  return LEVELS.map(level => {
    const own = all.filter(([t]) => place.get(t) === level).map(([t]) => t);
    return [own.length > 1 ? `${own[0]} to ${own[own.length - 1]}` : own[0]!, level];
  });
}

// choices are what the spans of a chart differ in, and what is chosen.
export function choices(spans: readonly Span[], chosen: By): By[] {
  const differ = (of: (s: Span) => unknown) => spans.some(s => of(s) !== of(spans[0]!));
  const all: [by: By, differ: boolean][] = [
    ["job", true],
    ["user", differ(s => s.user)],
    ["name", true],
    ["weight", differ(s => s.weight || 0)],
    ["cause", differ(s => s.cause)],
  ];
  return all.filter(([by, differ]) => differ || by === chosen).map(([by]) => by);
}
