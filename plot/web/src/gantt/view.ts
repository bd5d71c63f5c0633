// The geometry of the chart: maps times and GPUs to pixels and back.
import { above, type Lane, type Node } from "./data.js";
import type { FoldedRow } from "./use.js";

// TimeView maps [from, to] of 0 to end, in microseconds, to the pixels from
// left to left + width.
export class TimeView {
  from = 0;
  to: number;
  left = 0;
  width = 1;

  constructor(readonly end: number) {
    this.to = end;
  }

  // The view ends a little after the last span, so that its end is visible.
  private get most(): number {
    return this.end * 1.02;
  }

  get span(): number {
    return this.to - this.from;
  }

  px(t: number): number {
    return this.left + ((t - this.from) / this.span) * this.width;
  }

  time(x: number): number {
    return this.from + ((x - this.left) / this.width) * this.span;
  }

  // zoom multiplies the visible duration by factor; the time at pixel x stays at x.
  zoom(factor: number, x = this.left + this.width / 2): void {
    const t = this.time(Math.max(this.left, x));
    const share = (t - this.from) / this.span;
    const span = this.bounded(this.span * factor);
    this.from = t - share * span;
    this.to = this.from + span;
    this.clamp();
  }

  // pan moves the view by dx pixels to later times.
  pan(dx: number): void {
    const dt = (dx / this.width) * this.span;
    this.from += dt;
    this.to += dt;
    this.clamp();
  }

  // show makes [from, to] visible with a margin on both sides.
  show(from: number, to: number): void {
    const room = Math.max(to - from, 1) * 0.15;
    this.from = from - room;
    this.to = to + room;
    this.clamp();
  }

  all(): void {
    this.from = 0;
    this.to = this.end;
  }

  private bounded(span: number): number {
    return Math.min(Math.max(span, Math.min(this.end, 20)), this.most);
  }

  private clamp(): void {
    const span = this.bounded(this.span);
    if (this.from < -span * 0.02) this.from = -span * 0.02;
    if (this.from + span > this.most) this.from = Math.max(0, this.most - span);
    this.to = this.from + span;
  }
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}

// nodeGaps returns the free pixels above the row of each lane: none inside a node, more
// between racks than between nodes of one rack, and none above the first lane of a type.
export function nodeGaps(types: readonly number[], nodes: readonly Node[]): number[] {
  const gaps = types.map(() => 0);
  nodes.forEach((node, i) => {
    const before = nodes[i - 1];
    if (before && types[node.first] === types[before.first])
      gaps[node.first] = same(node.racks, before.racks) ? Rows.NODE_GAP : Rows.RACK_GAP;
  });
  return gaps;
}

// Bracket joins the adjacent rows of a node, or of the nodes of a rack.
export interface Bracket {
  name: string;
  first: number; // row
  last: number;
}

// brackets returns one bracket for each sequence of nodes of one type with the same name that
// are together also in the `coarser` coarsest levels of their racks. Nodes without a name have
// none.
export function brackets(
  types: readonly number[],
  nodes: readonly Node[],
  nameOf: (node: Node) => string,
  coarser = 0,
): Bracket[] {
  const out: Bracket[] = [];
  let open: Bracket | undefined;
  let racks: string[] = [];
  for (const node of nodes) {
    const [name, last] = [nameOf(node), node.first + node.lanes - 1];
    const around = node.racks.slice(0, coarser);
    if (open && open.name === name && types[open.first] === types[node.first] && same(racks, around))
      open.last = last;
    else out.push((open = { name, first: node.first, last }));
    racks = around;
  }
  return out.filter(b => b.name);
}

// Fold is a way to show several GPUs as one row.
export interface Fold {
  name: string; // of what a row stands for, such as "nodes"
  rows: FoldedRow[];
}

// foldsOf returns the folds of lanes, from fine to coarse: nodes, the levels of racks, and types. Where nodes do not
// matter, the names of GPUs, such as n1/0, say which are on one node.
export function foldsOf(lanes: readonly Lane[], nodes: readonly Node[], types: readonly string[]): Fold[] {
  const out: Fold[] = [];
  const add = (name: string, rows: FoldedRow[]) => {
    const whole = rows.reduce((sum, r) => sum + r.lanes, 0) === lanes.length;
    if (whole && rows.length < (out[out.length - 1]?.rows.length ?? lanes.length)) out.push({ name, rows });
  };
  const together = (nameOf: (l: Lane) => string): FoldedRow[] => {
    const rows: FoldedRow[] = [];
    lanes.forEach((l, i) => {
      const [row, name] = [rows[rows.length - 1], nameOf(l)];
      if (row?.name === name && lanes[i - 1]!.type === l.type) row.lanes++;
      else rows.push({ name, first: i, lanes: 1 });
    });
    return rows;
  };
  const of = lanes.map(l => l.type);
  const bracketed = (all: Bracket[]) =>
    all.map(b => ({ name: b.name, first: b.first, lanes: b.last - b.first + 1 }));
  const ofTypes = together(l => types[l.type]!);
  const ofNodes = nodes.length
    ? bracketed(brackets(of, nodes, n => n.name))
    : together(l => l.gpu.slice(0, Math.max(0, l.gpu.lastIndexOf("/"))));
  if (ofNodes.length > ofTypes.length) add("nodes", ofNodes);
  const levels = nodes[0]?.racks.length ?? 0;
  for (let level = levels - 1; level >= 0; level--)
    add(
      level === levels - 1 ? "racks" : "groups of racks",
      bracketed(brackets(of, nodes, n => n.racks[level]!, level)),
    );
  add("types", ofTypes);
  return out;
}

// Group holds the rows of one GPU type.
export interface Group {
  type: number;
  first: number; // row
  y: number;
  height: number;
}

export const LEAST_ROW = 1;
export const MOST_ROW = 28;

const LEAST_FOLDED = 4; // pixels of a row that stands for several GPUs, on average
const MOST_SCREENS = 10; // of rows that are not folded by themselves

// Rows stacks lanes of equal height in groups by type. Folded lanes are less than a pixel high. Above each group is a
// head of `head` pixels; without one, groups are GAP apart.
export class Rows {
  static readonly GAP = 10;
  static readonly NODE_GAP = 2;
  static readonly RACK_GAP = 6;
  readonly tops: Float64Array;
  groups: Group[] = [];
  total = 0;
  height = 4; // of a lane
  head = 0;
  fold = 0; // 0: every GPU has a row; otherwise a number in folds, counted from 1

  // gaps are free pixels above rows, apart from those between groups; without gaps, there
  // are none.
  constructor(
    private readonly types: readonly number[],
    private readonly gaps: readonly number[] = [],
    readonly folds: readonly Fold[] = [],
  ) {
    this.tops = new Float64Array(types.length);
    this.stack();
  }

  // zoom is the height of rows or, where they are folded, 1 less the number of the fold.
  get zoom(): number {
    return this.fold ? 1 - this.fold : this.height;
  }

  // folded are the rows that stand for several lanes.
  get folded(): readonly FoldedRow[] {
    return this.folds[this.fold - 1]?.rows ?? [];
  }

  // resize sets the zoom of rows and the height of heads. Folded rows fill the room where they can be read there.
  resize(zoom: number, head = this.head, room = 0): void {
    this.head = head;
    this.fold = Math.max(0, Math.min(this.folds.length, Math.round(1 - zoom)));
    if (!this.fold) this.height = Math.min(MOST_ROW, Math.max(LEAST_ROW, zoom));
    else {
      const legible = (LEAST_FOLDED * this.folded.length) / this.types.length;
      this.height = Math.min(MOST_ROW, Math.max((room - this.heads) / this.types.length, legible));
    }
    this.stack();
  }

  // foldedAt returns the folded row of a lane.
  foldedAt(lane: number): number {
    const firsts = this.folded.map(r => r.first);
    return above(firsts, firsts.length, lane) - 1;
  }

  // heads are the pixels between and above the groups.
  private get heads(): number {
    return this.head ? this.groups.length * this.head : Math.max(0, this.groups.length - 1) * Rows.GAP;
  }

  private stack(): void {
    this.groups = [];
    let y = 0;
    this.types.forEach((type, i) => {
      const last = this.groups[this.groups.length - 1];
      if (!last || type !== last.type) {
        if (last) last.height = y - last.y;
        y += this.head || (last ? Rows.GAP : 0);
        this.groups.push({ type, first: i, y, height: 0 });
      } else {
        y += this.fold ? 0 : (this.gaps[i] ?? 0);
      }
      this.tops[i] = y;
      y += this.height;
    });
    const last = this.groups[this.groups.length - 1];
    if (last) last.height = y - last.y;
    this.total = y;
  }

  // at returns the row at y; −1 between rows and outside.
  at(y: number): number {
    let lo = 0;
    let hi = this.tops.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.tops[mid]! > y) hi = mid;
      else lo = mid + 1;
    }
    return lo > 0 && y < this.tops[lo - 1]! + this.height ? lo - 1 : -1;
  }

  // fitting returns the zoom at which all rows fit into room pixels, within the limits of a legible row: where they
  // do not fit, the rows are scrolled or, where that would take long, folded.
  fitting(room: number): number {
    const gaps = this.heads + this.gaps.reduce((sum, gap) => sum + gap, 0);
    const height = Math.floor((4 * (room - gaps)) / Math.max(1, this.tops.length)) / 4;
    if (2 * this.tops.length > MOST_SCREENS * room && this.folds.length) {
      const fits = this.folds.findIndex(f => f.rows.length * LEAST_FOLDED <= room - this.heads);
      return -(fits < 0 ? this.folds.length - 1 : fits);
    }
    return Math.max(2, Math.min(22, height));
  }
}
