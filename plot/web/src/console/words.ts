// Words for times and counts. Times are milliseconds of the epoch, durations are seconds.

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// span puts a duration into at most two units; seconds are said below two minutes only.
export function span(s: number): string {
  if (!(s > 0)) return "0 s";
  if (s < 119.5) return `${Math.max(1, Math.round(s))} s`;
  const min = Math.round(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (min < 600) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const hours = Math.round(s / 3600);
  if (hours < 48) return `${hours} h`;
  const d = Math.floor(hours / 24);
  if (d < 10) return hours % 24 ? `${d} d ${hours % 24} h` : `${d} d`;
  return `${Math.round(s / 86400)} d`;
}

const two = (n: number): string => String(n).padStart(2, "0");

// clock is the time of day on the reader's clock, with the day where it is not that of now.
export function clock(t: number, now: number): string {
  const d = new Date(t);
  const n = new Date(now);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (d.toDateString() === n.toDateString()) return time;
  const date = `${d.getDate()} ${MONTHS[d.getMonth()]}`;
  if (Math.abs(t - now) < 6 * 86400e3) return `${DAYS[d.getDay()]} ${time}`;
  if (d.getFullYear() === n.getFullYear()) return `${date} ${time}`;
  return `${date} ${d.getFullYear()}`;
}

// ahead says when something is expected: "in about 30 min, 14:05".
export function ahead(t: number, now: number): string {
  const s = (t - now) / 1e3;
  return s < 15 ? "about now" : `in about ${span(s)}, ${clock(t, now)}`;
}

// notBefore says a time before which something cannot be, which is never rounded up.
export function notBefore(t: number, now: number): string {
  return t <= now ? "now" : clock(Math.floor(t / 60e3) * 60e3, now);
}

export function ago(t: number, now: number): string {
  const s = (now - t) / 1e3;
  return s < 5 ? "just now" : `${span(s)} ago`;
}

export function count(n: number, one: string, many = one + "s"): string {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

export function whole(n: number): string {
  return Math.round(n).toLocaleString("en");
}

// percent rounds up where `up` is set, as gaps must be.
export function percent(share: number, up = false): string {
  const p = share * 100;
  const digits = p < 10 ? 1 : 0;
  const f = 10 ** digits;
  return `${(up ? Math.ceil(p * f - 1e-9) : Math.round(p * f)) / f} %`;
}

// figure shows a number with at most three decimals.
export function figure(n: number): string {
  return n.toLocaleString("en", { maximumFractionDigits: Math.abs(n) >= 1000 ? 0 : 3 });
}

// list joins at most `most` words: "a, b and 3 more".
export function list(words: readonly string[], most = 4): string {
  if (words.length <= 1) return words[0] ?? "";
  if (words.length <= most) return `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
  return `${words.slice(0, most - 1).join(", ")} and ${words.length - most + 1} more`;
}

// seconds reads a duration such as "90", "30m", "2h" or "1.5 d"; NaN where it is none.
export function seconds(text: string): number {
  const m = /^(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|d|w)?$/.exec(text.trim());
  const unit = { s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 }[m?.[2] ?? "min"]!;
  return m ? Number(m[1]) * unit : NaN;
}
