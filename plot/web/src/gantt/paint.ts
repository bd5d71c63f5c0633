// Draws the visible part of the chart on a canvas.
import { duration, marks } from "../shared/axis.js";
import { hex, rgb, shadesOf, type Shades } from "../shared/colour.js";
import {
  ABOVE,
  above,
  BELOW,
  freePlace,
  planned,
  runsAtZero,
  runsNow,
  type Chart,
  type Lane,
} from "./data.js";
import type { Groups } from "./groups.js";
import { opaque, packed, Raster } from "./raster.js";
import { type Categories, Use } from "./use.js";
import { type Bracket, brackets, type Rows, type TimeView } from "./view.js";

export const AXIS = 26; // pixels of the time axis
const NODE_NAMES = 72; // pixels of the names of nodes, and at most of racks
const STACKED = 20; // least height of a folded row that shows use as an area
const SETUP = 0.36; // height of a setup as a share of the height of the bar that follows

// State holds what the reader has selected.
export interface State {
  scroll: number;
  hover: number; // job, −1 for none
  pinned: number;
  marked: Uint8Array | null; // jobs that a search found
  lane: number; // highlighted row; −1 for none
  groups: Groups;
}

const font = (px: number, bold = false) =>
  `${bold ? "bold " : ""}${px}px Go,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif`;

interface Theme {
  ink: string;
  faint: string;
  ground: string;
  line: string;
  page: string;
  focus: string;
  late: string;
  reserve: string;
  reserveInk: string;
  reserved: string;
  hatch: CanvasPattern | null;
  reservation: CanvasPattern | null;
  stripes: CanvasPattern | null;
  jobs: Shades[];
  // The same as pixels:
  fills: number[];
  syncs: number[];
  lates: number;
  pages: number;
  tone: number;
  rest: number;
}

export class Painter {
  private readonly g: CanvasRenderingContext2D;
  private theme: Theme;
  private readonly raster = new Raster();
  private striped: [x: number, y: number, width: number, height: number, opacity: number][] = [];
  private use: { key: string; groups: Groups; marked: Uint8Array | null; of: Use; n: number } | null = null;
  private labels: [text: string, x: number, y: number, ink: string, dim: boolean][] = [];
  private readonly nodes: Bracket[];
  private readonly racks: Bracket[][]; // by level, coarse to fine
  private readonly setups: boolean;
  private readonly widths: number[]; // pixels of the names of racks, by level
  width = 0;
  height = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly chart: Chart,
    private readonly time: TimeView,
    private readonly rows: Rows,
    private readonly state: State,
  ) {
    this.g = canvas.getContext("2d")!;
    this.theme = this.readTheme();
    this.setups = chart.kinds.setup.some(v => v > 0);
    const types = chart.lanes.map(l => l.type);
    this.nodes = brackets(types, chart.nodes, n => n.name);
    this.racks = (chart.nodes[0]?.racks ?? [])
      .map((_, level) => brackets(types, chart.nodes, n => n.racks[level]!, level))
      .filter(b => b.length);
    this.widths = this.racks.map(b => Math.min(NODE_NAMES, 22 + 6 * Math.max(...b.map(r => r.name.length))));
  }

  // left is the width of the names beside the rows. Narrow screens have no names of racks.
  get left(): number {
    if (this.narrow) return 62;
    return 118 + (this.nodes.length ? NODE_NAMES - 32 : 0) + this.widths.reduce((sum, w) => sum + w, 0);
  }

  // narrow is true where type names are above their GPUs and not beside them.
  get narrow(): boolean {
    return this.canvas.clientWidth < 620;
  }

  retheme(): void {
    this.theme = this.readTheme();
  }

  // fill returns the colour of a job.
  fill(job: number): string {
    return this.theme.jobs[this.state.groups.colour[job]!]!.fill;
  }

  // readTheme reads the present colours of the style sheet.
  private readTheme(): Theme {
    const probe = document.createElement("i");
    document.body.append(probe);
    const colour = (name: string) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const pixel = (name: string, opacity = 1) => opaque(packed(hex(rgb(colour(name)))), opacity);
    const jobs = shadesOf(this.chart.data.palette, rgb(colour("ground")));
    const theme: Theme = {
      ink: colour("ink"),
      faint: colour("faint"),
      ground: colour("ground"),
      line: colour("line"),
      page: colour("page"),
      focus: colour("focus"),
      late: colour("late"),
      reserve: colour("reserve"),
      reserveInk: colour("reserve-ink"),
      reserved: colour("reserved"),
      hatch: this.hatching(colour("hatched"), colour("hatch")),
      reservation: this.hatching(colour("reserved"), colour("reserve"), true),
      stripes: this.hatching("#0000", "#fff8"),
      jobs,
      fills: jobs.map(j => packed(j.fill)),
      syncs: jobs.map(j => packed(j.sync)),
      lates: pixel("late"),
      pages: pixel("page"),
      tone: pixel("focus", 0.75),
      rest: pixel("faint", 0.3),
    };
    probe.remove();
    return theme;
  }

  // hatching makes a pattern of diagonal lines, which fall to the right where down is set.
  private hatching(ground: string, stroke: string, down = false): CanvasPattern | null {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const q = tile.getContext("2d")!;
    q.fillStyle = ground;
    q.fillRect(0, 0, 8, 8);
    if (down) {
      q.translate(8, 0);
      q.scale(-1, 1);
    }
    q.strokeStyle = stroke;
    q.lineWidth = 1.4;
    q.beginPath();
    for (const [x, y] of [
      [-2, 2],
      [-2, 10],
      [6, 10],
    ] as const) {
      q.moveTo(x, y);
      q.lineTo(x + (x === -2 && y === 10 ? 12 : 4), y - (x === -2 && y === 10 ? 12 : 4));
    }
    q.stroke();
    return this.g.createPattern(tile, "repeat");
  }

  // bottom returns the y at which the rows end and the axis begins.
  get bottom(): number {
    return Math.max(0, Math.min(this.height - AXIS, this.rows.total));
  }

  draw(): void {
    const { g, canvas, time, rows, theme } = this;
    const ratio = window.devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    const bottom = this.bottom;
    const axis = marks(
      time.from,
      time.to,
      Math.max(2, Math.floor(time.width / (this.narrow ? 75 : 95))),
      this.chart.data.now,
    );
    g.save();
    g.beginPath();
    g.rect(0, 0, this.width, bottom);
    g.clip();
    for (const a of rows.groups) {
      g.fillStyle = theme.ground;
      g.fillRect(time.left, a.y - this.state.scroll, time.width, a.height);
    }
    g.fillStyle = theme.line;
    for (const m of axis) {
      if (time.px(m.at) >= time.left - 1) g.fillRect(Math.round(time.px(m.at)) - 0.5, 0, 1, bottom);
    }
    this.reservations(bottom);
    this.raster.begin(this.width, bottom, ratio);
    const outlined = this.state.lane;
    if (rows.fold) this.folded(bottom);
    else {
      const first = above(rows.tops, rows.tops.length, this.state.scroll - rows.height) - 1;
      for (let i = Math.max(0, first); i < rows.tops.length; i++) {
        const y = rows.tops[i]! - this.state.scroll;
        if (y > bottom) break;
        this.lane(this.chart.lanes[i]!, y, i === outlined);
      }
    }
    this.raster.draw(g);
    for (const [x, y, w, h, opacity] of this.striped) {
      g.globalAlpha = opacity;
      g.fillStyle = theme.stripes ?? "#0000";
      g.fillRect(x, y, w, h);
    }
    g.globalAlpha = 1;
    this.striped.length = 0;
    if (outlined >= 0 && !rows.fold) {
      g.strokeStyle = theme.focus;
      g.lineWidth = 2;
      g.strokeRect(time.left + 1, rows.tops[outlined]! - this.state.scroll, time.width - 2, rows.height);
    }
    this.writeLabels();
    this.deadline(bottom);
    const now = time.px(this.chart.data.now ?? -1);
    if (this.chart.data.now !== undefined && now >= time.left) {
      g.fillStyle = theme.late;
      g.fillRect(now - 0.75, 0, 1.5, bottom);
    }
    if (this.nodes.length) {
      // The names of GPUs are their numbers on the node.
      const right = time.left - (rows.height >= 11 ? 24 : 4);
      this.brackets(this.nodes, right, rows.head ? right - 6 : NODE_NAMES - 10);
      let x = right - NODE_NAMES;
      for (let i = this.racks.length - 1; i >= 0 && !rows.head; i--) {
        this.brackets(this.racks[i]!, x, this.widths[i]! - 10);
        x -= this.widths[i]!;
      }
    }
    this.heads(bottom);
    g.restore();
    g.textAlign = "center";
    g.font = font(11);
    g.fillStyle = theme.faint;
    for (const m of axis) {
      const x = time.px(m.at);
      // A label may extend to the left of the first mark, but not beyond the right edge.
      if (x >= time.left - 1)
        g.fillText(m.label, Math.min(x, this.width - g.measureText(m.label).width / 2 - 1), bottom + 17);
    }
  }

  // reservations draws the reservations of the visible nodes. Each is named once for each type,
  // where the rows of a node have room beside the bars.
  private reservations(bottom: number): void {
    const { g, time, rows, theme, chart } = this;
    const named = new Set<string>();
    const right = time.left + time.width;
    for (const node of chart.nodes) {
      const last = node.first + node.lanes - 1;
      const top = rows.tops[node.first]! - this.state.scroll;
      const end = rows.tops[last]! - this.state.scroll + rows.height;
      if (end <= 0 || top > bottom) continue;
      for (const i of node.reserved) {
        const r = chart.reserved[i]!;
        const a = Math.max(time.left, time.px(r.from));
        const b = Math.min(right, time.px(Math.min(r.to, chart.data.end)));
        if (b <= a) continue;
        g.fillStyle = theme.reservation ?? theme.reserved;
        g.fillRect(a, top, b - a, end - top);
        g.fillStyle = theme.reserve;
        g.fillRect(a, top, 1, end - top);
        g.fillRect(b - 1, top, 1, end - top);
        const key = `${chart.lanes[node.first]!.type} ${i}`;
        if (named.has(key)) continue;
        // The name has room in one row or, where rows are low, on all rows of the node together.
        const step = rows.height < 11 ? node.lanes : 1;
        for (let l = node.first; l <= last && !named.has(key); l += step)
          if (this.nameReservation(l, l + step - 1, time.time(a), time.time(b), r.who)) named.add(key);
      }
    }
  }

  // nameReservation writes a name where some rows leave room, if they do.
  private nameReservation(first: number, last: number, from: number, to: number, who: string): boolean {
    const { g, time, rows, theme } = this;
    for (let l = first; l <= last; l++) [from, to] = freePlace(this.chart.lanes[l]!, from, to);
    const [top, end] = [
      rows.tops[first]! - this.state.scroll,
      rows.tops[last]! - this.state.scroll + rows.height,
    ];
    const [x, room, mid] = [time.px(from) + 5, time.px(to) - time.px(from) - 10, (top + end) / 2];
    g.font = font(10);
    const text = [who, "reserved"].find(s => g.measureText(s).width <= room);
    if (!text || top < 0 || end - top < 11) return false;
    g.fillStyle = theme.reserved;
    g.fillRect(x - 3, mid - 6, g.measureText(text).width + 6, 12);
    g.textAlign = "left";
    g.fillStyle = theme.reserveInk;
    g.fillText(text, x, mid + 3.5);
    return true;
  }

  // deadline draws the deadline of the job that the reader points at or has chosen.
  private deadline(bottom: number): void {
    const { g, time, theme } = this;
    const job = this.state.hover >= 0 ? this.state.hover : this.state.pinned;
    const at = job < 0 ? 0 : this.chart.jobs[job]!.deadline;
    const x = Math.round(time.px(at));
    if (!at || x < time.left || x > time.left + time.width) return;
    g.fillStyle = theme.late;
    for (let y = 0; y < bottom; y += 7) g.fillRect(x - 0.75, y, 1.5, Math.min(4, bottom - y));
    const text = "deadline";
    g.font = font(10, true);
    const width = g.measureText(text).width;
    const left = Math.min(x + 4, time.left + time.width - width - 4);
    g.fillStyle = theme.page;
    g.fillRect(left - 2, 1, width + 5, 13);
    g.fillStyle = theme.late;
    g.textAlign = "left";
    g.fillText(text, left, 11);
  }

  // brackets draws brackets that end at x, and their names where the rows have room.
  private brackets(all: readonly Bracket[], x: number, room: number): void {
    const { g, rows, theme } = this;
    g.textAlign = "right";
    g.font = font(10);
    for (const b of all) {
      const top = Math.round(rows.tops[b.first]! - this.state.scroll);
      const end = Math.round(rows.tops[b.last]! - this.state.scroll + rows.height);
      if (end <= 0 || top > this.bottom || (rows.fold && end - top < 5)) continue;
      g.fillStyle = theme.faint;
      g.fillRect(x - 4, top, 1, end - top);
      g.fillRect(x - 4, top, 3, 1);
      g.fillRect(x - 4, end - 1, 3, 1);
      if (end - top < 11) continue;
      // The name stays visible while a part of the rows is.
      const mid = (Math.max(0, top) + Math.min(this.bottom, end)) / 2;
      const name = b.name.length > 12 ? "…" + b.name.slice(-11) : b.name;
      g.fillText(name, x - 7, Math.min(Math.max(mid, top + 5), end - 5) + 3.5, room);
    }
  }

  // heads draws the names of types, beside their rows or, on narrow screens, above them.
  private heads(bottom: number): void {
    const { g, rows, theme, chart } = this;
    for (const a of rows.groups) {
      const top = a.y - this.state.scroll;
      const end = Math.min(bottom, top + a.height);
      if (end <= 0 || top - rows.head > bottom) continue;
      const name = chart.data.types[a.type]!;
      const count = "× " + chart.data.counts[a.type]!;
      g.textAlign = "left";
      if (rows.head) {
        // The head stays visible at the top while its rows are scrolled.
        const y = Math.min(Math.max(0, top - rows.head), end - rows.head);
        g.fillStyle = theme.page;
        g.fillRect(0, y, this.width, rows.head);
        g.fillStyle = theme.ink;
        g.font = font(12, true);
        g.fillText(name, 0, y + 13, this.width - 80);
        const x = Math.min(g.measureText(name).width, this.width - 80) + 6;
        g.fillStyle = theme.faint;
        g.font = font(11);
        g.fillText(count, x, y + 13);
        continue;
      }
      const mid = (Math.max(0, top) + end) / 2;
      g.fillStyle = theme.ink;
      g.font = font(12.5, true);
      g.fillText(name, 0, mid + 1, 62);
      if (a.height > 28) {
        g.fillStyle = theme.faint;
        g.font = font(11);
        g.fillText(count, 0, mid + 15, 62);
      }
    }
  }

  // strength returns the opacity of a job: below 1 where other jobs are highlighted.
  private strength(job: number): number {
    const { pinned, hover, marked } = this.state;
    if (pinned >= 0) return job === pinned || job === hover ? 1 : 0.15;
    if (marked && !marked[job]) return 0.12;
    return hover < 0 || job === hover ? 1 : 0.35;
  }

  // lane draws the bars of a row; their stripes and names come later.
  private lane(l: Lane, y: number, out: boolean): void {
    const { g, time, rows, theme } = this;
    const inset = rows.height >= 14 ? 2 : rows.height >= 8 ? 1 : rows.height >= 4 ? 0.5 : 0;
    const top = y + inset;
    const h = rows.height - 2 * inset;
    const right = time.left + time.width;
    if (rows.height >= 11) {
      const name = l.node >= 0 ? l.gpu.slice(l.gpu.lastIndexOf("/") + 1) : l.gpu;
      this.rowName(name, y + rows.height / 2, l.node >= 0 ? 18 : undefined, out);
    }
    for (let i = 0; i < l.away.length; i += 2) {
      const a = Math.max(time.left, time.px(l.away[i]!));
      const b = Math.min(right, time.px(l.away[i + 1]!));
      if (b > a && theme.hatch) {
        g.fillStyle = theme.hatch;
        g.fillRect(a, y, b - a, rows.height);
      }
    }
    const { start, n } = l;
    const { length } = l.kinds;
    const chosen = this.state.pinned >= 0 || this.state.hover >= 0 || this.state.marked !== null;
    const setups = this.setups;
    const scale = time.width / time.span;
    const zero = time.left - time.from * scale;
    let drawn = time.left;
    let labelled = -1;
    let labelEnd = -1;
    for (let i = l.after(time.from); i < n && start[i]! - (setups ? l.setup(i) : 0) < time.to; i++) {
      const last = zero + (start[i]! + length[l.kind[i]!]!) * scale;
      const hidden = last < drawn + 0.4; // by a bar that was drawn before
      if (hidden && !chosen) continue;
      const job = l.job(i);
      const strength = chosen ? this.strength(job) : 1;
      if (hidden && strength < 1) continue;
      if (setups) this.setup(l, i, top, h, strength);
      const a = Math.max(time.left, zero + start[i]! * scale);
      // A block fills the space between its rows.
      const over = l.block[i]! & ABOVE ? inset : 0;
      const under = l.block[i]! & BELOW ? inset : 0;
      this.span(l, i, a, Math.min(right, last), top - over, h + over + under, strength);
      if (this.chart.jobs[job]!.late && !(l.block[i]! & BELOW))
        this.overdue(job, a, Math.min(right, last), top + h);
      drawn = Math.max(drawn, last);
      if (l.block[i]! & ABOVE || (labelled === job && a <= labelEnd + 3)) continue;
      const height = rows.height * l.blockLanes[i]!;
      if (height < 11) continue;
      let e = i; // last span of the job without a gap
      while (
        e + 1 < n &&
        l.job(e + 1) === job &&
        time.px(start[e + 1]!) - time.px(l.end(e)) < 3 &&
        time.px(l.end(e)) < right
      )
        e++;
      labelled = job;
      labelEnd = time.px(l.end(e));
      this.label(job, a + 4, Math.min(right, labelEnd) - a - 8, y + height / 2 + 3.5, strength < 1);
    }
  }

  // rowName writes the name of a row beside its middle.
  private rowName(name: string, middle: number, room = 0, out = false): void {
    const { g, rows, time, theme } = this;
    const most = rows.head ? 12 : 16;
    g.textAlign = "right";
    g.font = font(10, out);
    g.fillStyle = out ? theme.ink : theme.faint;
    g.fillText(
      name.length > most ? "…" + name.slice(1 - most) : name,
      time.left - 6,
      middle + 3.5,
      room || (rows.head ? time.left - 6 : 60),
    );
  }

  // folded draws the use of rows that stand for several GPUs: an area by category or, in low rows, the category that
  // has most GPUs, the paler the more GPUs are idle.
  private folded(bottom: number): void {
    const { time, rows, raster } = this;
    const all = rows.folded;
    const y = (r: number): number => rows.tops[all[r]!.first]! - this.state.scroll;
    const first = Math.max(0, rows.foldedAt(above(rows.tops, rows.tops.length, this.state.scroll) - 1));
    let last = first;
    while (last < all.length && y(last) < bottom) last++;
    const { use, colours, n } = this.useOf();
    const columns = Math.max(1, Math.floor(time.width));
    const busy = use.during(first, last, time.from, time.to, columns);
    for (let r = first; r < last; r++) {
      const height = all[r]!.lanes * rows.height;
      const inset = height >= 12 ? 1 : 0;
      const [top, room] = [y(r) + inset, height - 2 * inset];
      if (!this.nodes.length && height >= 11 && all.length > rows.groups.length)
        this.rowName(all[r]!.name, top + room / 2);
      for (let c = 0; c < columns; c++) {
        let [sum, most, best] = [0, 0, 0];
        for (let cat = 0; cat < n; cat++) {
          const v = busy[((r - first) * n + cat) * columns + c]! / all[r]!.lanes;
          if (v < 1e-9) continue;
          if (height >= STACKED)
            raster.rect(time.left + c, top + room * (1 - sum - v), 1, room * v, colours[cat]!);
          sum += v;
          if (v > most) [most, best] = [v, cat];
        }
        if (height >= STACKED || sum < 1e-3) continue;
        const colour = colours[best]!;
        raster.rect(
          time.left + c,
          top,
          1,
          room,
          opaque(colour & 0xffffff, ((colour >>> 24) / 255) * Math.min(1, sum)),
        );
      }
    }
  }

  // useOf returns the use of the folded rows by what tells jobs apart, and the colours of that.
  private useOf(): { use: Use; colours: number[]; n: number } {
    const { state, rows, theme, chart } = this;
    const { groups, pinned, marked } = state;
    const chosen = pinned >= 0 || marked !== null;
    const plain = groups.by === "job";
    const n = chosen ? 2 : plain ? 1 : Math.min(groups.names.length, groups.colours.length);
    const key = `${rows.fold} ${pinned}`;
    if (this.use?.key !== key || this.use.groups !== groups || this.use.marked !== marked) {
      const cats: Categories = { of: new Uint8Array(chart.jobs.length), n };
      if (pinned >= 0) cats.of.fill(1)[pinned] = 0;
      else if (marked) cats.of = marked.map(v => 1 - v);
      else if (!plain) cats.of = Uint8Array.from(groups.of, g => g % groups.colours.length);
      this.use = { key, groups, marked, of: new Use(chart, rows.folded, cats), n };
    }
    const colours = chosen
      ? [pinned >= 0 ? opaque(theme.fills[groups.colour[pinned]!]!) : theme.tone, theme.rest]
      : plain
        ? [theme.tone]
        : groups.colours.map(c => opaque(theme.fills[c]!));
    return { use: this.use.of, colours, n };
  }

  // writeLabels writes the labels of all rows, because a block is drawn row by row and its
  // label lies on several of them.
  private writeLabels(): void {
    const { g } = this;
    for (const [text, x, base, ink, dim] of this.labels) {
      g.globalAlpha = dim ? 0.3 : 1;
      g.textAlign = "left";
      g.font = font(10);
      g.fillStyle = ink;
      g.fillText(text, x, base);
    }
    this.labels.length = 0;
    g.globalAlpha = 1;
  }

  private label(job: number, x: number, room: number, base: number, dim: boolean): void {
    if (room <= 14) return;
    let { id: text, late } = this.chart.jobs[job]!;
    if (text.length > 80) text = text.slice(0, 79) + "…";
    this.g.font = font(10);
    if (this.g.measureText(text).width > room) return;
    const long = `${text}, late by ${duration(late)}`;
    if (late && this.g.measureText(long).width <= room) text = long;
    this.labels.push([
      text,
      x,
      base,
      dim ? this.theme.ink : this.theme.jobs[this.state.groups.colour[job]!]!.ink,
      dim,
    ]);
  }

  // setup draws the setup of a GPU before span i, once for the rows of a block: a bar of less
  // height that leads to the bar of the span.
  private setup(l: Lane, i: number, top: number, h: number, strength: number): void {
    const { time, rows, theme } = this;
    const setup = l.setup(i);
    if (!setup || l.block[i]! & ABOVE) return;
    const a = Math.max(time.left, time.px(l.start[i]! - setup));
    const b = Math.min(time.left + time.width, time.px(l.start[i]!));
    if (b - a < 0.5) return;
    const height = (l.blockLanes[i]! - 1) * rows.height + h;
    const colour = opaque(theme.fills[this.state.groups.colour[l.job(i)]!]!, strength);
    this.raster.rect(a, top + ((1 - SETUP) / 2) * height, b - a, SETUP * height, colour);
  }

  // overdue draws a line along the bottom of a bar after the deadline of its job.
  private overdue(job: number, a: number, b: number, bottom: number): void {
    const { time, rows, theme, raster } = this;
    const from = Math.max(a, time.px(this.chart.jobs[job]!.deadline));
    if (from >= b) return;
    const thick = Math.min(3, Math.max(1, rows.height / 6));
    if (rows.height >= 8) raster.rect(from, bottom - thick - 1, b - from, 1, theme.pages);
    raster.rect(from, bottom - thick, b - from, thick, theme.lates);
  }

  // span draws span i as one bar, or as single rounds where these are wide enough.
  private span(l: Lane, i: number, a: number, b: number, top: number, h: number, strength: number): void {
    const { time, theme } = this;
    const kind = l.kind[i]!;
    const rounds = l.kinds.rounds[kind]!;
    const period = l.kinds.period[kind]!;
    const striped = runsAtZero(this.chart.jobs, l, i) || runsNow(this.chart.data, l, i);
    if (striped || (rounds > 1 && (period / time.span) * time.width < 9)) {
      if (b <= a) return;
      const colour = opaque(theme.fills[this.state.groups.colour[l.job(i)]!]!, strength);
      this.raster.rect(a, top, b - a, h, colour);
      if (striped) this.striped.push([a, top, Math.max(0.5, b - a), h, strength]);
      return;
    }
    const first = rounds > 1 ? Math.max(0, Math.floor((time.from - l.start[i]!) / period)) : 0;
    for (let r = first; r < rounds; r++) {
      const t = l.start[i]! + r * period;
      if (t > time.to) break;
      this.round(l, i, t, top, h, strength);
    }
  }

  // round draws one round: compute, and then, in a lighter shade, the time for which
  // the GPU is held to synchronise.
  private round(l: Lane, i: number, t: number, top: number, h: number, strength: number): void {
    const { time, theme, raster } = this;
    const kind = l.kind[i]!;
    const job = l.kinds.job[kind]!;
    const hold = l.kinds.hold[kind]!;
    const sync = l.kinds.sync[kind]!;
    const a = Math.max(time.left, time.px(t));
    let b = Math.min(time.left + time.width, time.px(t + hold));
    if (b <= a) return;
    let gap = b - a >= 4 ? 1 : 0; // to the next round
    const at = this.state.groups.colour[job]!;
    const pale = opaque(theme.syncs[at]!, strength);
    const c = time.px(t + hold - sync);
    if (gap && sync > 0 && sync < hold && b - c >= 1.6 && this.chart.jobs[job]!.sync !== "relaxed") {
      raster.rect(Math.max(a, c), top, b - Math.max(a, c), h, pale, gap);
      [b, gap] = [c, 0];
    }
    const colour = planned(this.chart.data, l, i) ? pale : opaque(theme.fills[at]!, strength);
    if (b > a) raster.rect(a, top, b - a, h, colour, gap);
  }
}
