// Marks of a time axis, and times formatted for readers. Times are in microseconds.

export const SECOND = 1e6;

// Distances between marks that are easy to read.
const STEPS: number[] = [];
for (let u = 1; u < SECOND; u *= 10) STEPS.push(u, 2 * u, 5 * u);
for (const s of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200])
  STEPS.push(s * SECOND);
for (let d = 86400; d < 1e11; d *= 10) STEPS.push(d * SECOND, 2 * d * SECOND, 5 * d * SECOND);

export interface Mark {
  at: number;
  label: string;
}

// marks returns the marks of [from, to], with at most `most` distances between them. With a now they are at round
// times before and after it.
export function marks(from: number, to: number, most: number, now?: number): Mark[] {
  const step = STEPS.find(s => (to - from) / s <= most) ?? STEPS[STEPS.length - 1]!;
  const out: Mark[] = [];
  if (now !== undefined) {
    for (let i = Math.ceil((from - now) / step); now + i * step <= to; i++)
      out.push({
        at: now + i * step,
        label: i ? (i < 0 ? "−" : "+") + time(Math.abs(i) * step, step) : "now",
      });
    return out;
  }
  for (let i = Math.max(0, Math.ceil(from / step)); i * step <= to; i++)
    out.push({ at: i * step, label: time(i * step, step) });
  return out;
}

function two(a: number, unit: string, b: number, lower: string): string {
  return b ? `${a} ${unit} ${b} ${lower}` : `${a} ${unit}`;
}

// time formats t with the precision of step, in at most three units.
export function time(t: number, step: number): string {
  if (t === 0) return "0";
  const digits = Math.max(0, Math.ceil(6 - Math.log10(step) - 1e-9));
  const s = t / SECOND;
  if (s < 60 || (step < SECOND && s < 600))
    return (step < SECOND ? +s.toFixed(digits) : Math.round(s)) + " s";
  if (step < SECOND) return two(Math.floor(s / 60), "min", +(s % 60).toFixed(digits), "s");
  // t is rounded first, so that 59.6 s becomes a minute and not "60 s".
  const unit = step < 60 * SECOND ? 1 : step < 3600 * SECOND ? 60 : 3600;
  const r = Math.round(s / unit) * unit;
  const [d, h, min, sec] = [Math.floor(r / 86400), Math.floor(r / 3600), Math.floor((r % 3600) / 60), r % 60];
  if (r < 3600) return two(min, "min", sec, "s");
  if (r < 172800) return sec ? `${h} h ${two(min, "min", sec, "s")}` : two(h, "h", min, "min");
  const hours = Math.floor((r % 86400) / 3600);
  return unit < 3600 && min ? `${d} d ${two(hours, "h", min, "min")}` : two(d, "d", hours, "h");
}

// exact formats t with the precision of a pixel when `shown` microseconds fill the
// screen.
export function exact(t: number, shown: number): string {
  return time(t, shown < 600 * SECOND ? 1000 : shown < 86400 * SECOND ? SECOND : 60 * SECOND);
}

// since says when t is, seen from now.
export function since(t: number, now: number): string {
  if (t === now) return "now";
  return t < now ? `${duration(now - t)} ago` : `in about ${duration(t - now)}`;
}

// duration formats t with about three digits; only 0 becomes "0 s".
export function duration(t: number): string {
  return time(t, t < SECOND ? 1 : t < 600 * SECOND ? 1000 : t < 2 * 86400 * SECOND ? SECOND : 60 * SECOND);
}
