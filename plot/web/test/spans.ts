// spansOf encodes spans as plot/spans.go does. Each lane is `fields` numbers for each span: job, start after the span
// before, rounds, period, hold, sync, first round, tasks, and setup, shape and spread where there are 11.
export function spansOf(fields: number, lanes: number[][]): string {
  const kinds = new Map<string, number>();
  const [head, spans]: [number[], number[]] = [[], []];
  const put = (to: number[], v: number) => {
    for (; v > 127; v = Math.floor(v / 128)) to.push((v % 128) + 128);
    to.push(v);
  };
  for (const flat of lanes) {
    let [start, free] = [0, 0];
    for (let i = 0; i < flat.length; i += fields) {
      const [job, after, rounds, period, hold, sync, round, tasks, ...more] = flat.slice(i, i + fields) as [
        number,
        number,
        number,
        number,
        number,
        number,
        number,
        number,
        ...number[],
      ];
      const kind = [job, rounds, period, hold, sync, tasks, ...(more.length ? more : [0, 0, 0])];
      if (!kinds.has(kind.join())) {
        kinds.set(kind.join(), kinds.size);
        for (const v of kind) put(head, v);
      }
      start += after;
      put(spans, kinds.get(kind.join())!);
      const gap = start - free;
      put(spans, gap < 0 ? -2 * gap - 1 : 2 * gap);
      put(spans, round);
      free = start + (rounds - 1) * period + hold;
    }
  }
  const count: number[] = [];
  put(count, kinds.size);
  return Buffer.from([...count, ...head, ...spans])
    .toString("base64")
    .replace(/=+$/, "");
}
