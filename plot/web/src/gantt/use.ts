// How many GPUs are in use over time, for rows that stand for several.
import type { Chart } from "./data.js";

// FoldedRow stands for adjacent lanes.
export interface FoldedRow {
  name: string;
  first: number; // lane
  lanes: number;
}

const BUCKETS = 1 << 18; // of a whole plan, at most
const CELLS = 1 << 22; // of all rows and categories, about

// Categories put jobs into classes whose use is told apart.
export interface Categories {
  of: Uint8Array; // by job
  n: number;
}

// Use answers how many GPUs of each row and category are in use.
export class Use {
  private readonly kindOf: Uint8Array; // category by kind
  private readonly density: Float64Array; // by kind: the share of the time from start to end
  private readonly buckets: number;
  private readonly sums: Float64Array; // by row, category and bucket: use until then

  constructor(
    private readonly chart: Chart,
    private readonly rows: readonly FoldedRow[],
    private readonly cats: Categories,
  ) {
    const { kinds } = chart;
    this.kindOf = Uint8Array.from(kinds.job, j => cats.of[j]!);
    this.density = Float64Array.from(kinds.length, (d, k) =>
      d > 0 ? Math.min(1, (kinds.rounds[k]! * kinds.hold[k]!) / d) : 1,
    );
    this.buckets = Math.max(64, Math.min(BUCKETS, Math.floor(CELLS / (rows.length * cats.n))));
    this.sums = this.measure(0, rows.length, 0, chart.data.end, this.buckets);
    const stride = this.buckets + 2;
    for (let line = 0; line < rows.length * cats.n; line++) {
      let sum = 0;
      for (let i = line * stride; i < (line + 1) * stride; i++) {
        const here = this.sums[i]!;
        this.sums[i] = sum;
        sum += here;
      }
    }
  }

  // during returns the GPUs in use of rows first to last − 1, by row, category and column of [from, to].
  during(first: number, last: number, from: number, to: number, columns: number): Float64Array {
    const { buckets, chart, cats } = this;
    const perColumn = ((to - from) / columns / chart.data.end) * buckets;
    const out = new Float64Array((last - first) * cats.n * columns);
    const lines = (last - first) * cats.n;
    if (perColumn < 1) {
      const fine = this.measure(first, last, from, to, columns);
      for (let line = 0; line < lines; line++)
        out.set(fine.subarray(line * (columns + 2), line * (columns + 2) + columns), line * columns);
      return out;
    }
    const zero = (from / chart.data.end) * buckets;
    for (let line = 0; line < lines; line++) {
      const base = (first * cats.n + line) * (buckets + 2);
      const until = (at: number): number => {
        const x = Math.max(0, Math.min(buckets, at));
        const i = Math.floor(x);
        const sum = this.sums[base + i]!;
        return sum + (this.sums[base + i + 1]! - sum) * (x - i);
      };
      let before = until(zero);
      for (let c = 0; c < columns; c++) {
        const now = until(zero + (c + 1) * perColumn);
        out[line * columns + c] = (now - before) / perColumn;
        before = now;
      }
    }
    return out;
  }

  // measure reads all spans between from and to. The lines of its answer have columns + 2 values, of which the last
  // two mean nothing.
  private measure(first: number, last: number, from: number, to: number, columns: number): Float64Array {
    const { chart, cats, kindOf, density } = this;
    const stride = columns + 2;
    const out = new Float64Array((last - first) * cats.n * stride);
    const scale = columns / (to - from);
    // add changes the slope of the use by d from a place on.
    const add = (base: number, x: number, d: number) => {
      const i = Math.floor(x);
      out[base + i]! += d * (i + 1 - x);
      out[base + i + 1]! += d * (x - i);
    };
    for (let r = first; r < last; r++) {
      const row = this.rows[r]!;
      for (let l = row.first; l < row.first + row.lanes; l++) {
        const lane = chart.lanes[l]!;
        const { start, kind, n } = lane;
        const { length } = chart.kinds;
        for (let k = lane.after(from); k < n; k++) {
          const s = start[k]!;
          if (s >= to) break;
          const q = kind[k]!;
          const base = ((r - first) * cats.n + kindOf[q]!) * stride;
          const d = density[q]!;
          add(base, (Math.max(s, from) - from) * scale, d);
          add(base, (Math.min(s + length[q]!, to) - from) * scale, -d);
        }
      }
    }
    for (let line = 0; line < (last - first) * cats.n; line++)
      for (let i = line * stride + 1; i < (line + 1) * stride; i++) out[i]! += out[i - 1]!;
    return out;
  }
}
