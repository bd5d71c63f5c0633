// Draws the visible part of the chart on a canvas.
import { marks } from "../shared/axis.js";
import { rgb, shadesOf, type Shades } from "../shared/colour.js";
import { ABOVE, above, BELOW, type Chart, type Lane } from "./data.js";
import { type Bracket, brackets, type Rows, type TimeView } from "./view.js";

export const AXIS = 26; // pixels of the time axis
const NODE_NAMES = 72; // pixels of the names of nodes, and of racks

// State holds what the reader has selected.
export interface State {
  scroll: number;
  hover: number; // job, −1 for none
  pinned: number;
  marked: Uint8Array | null; // jobs that a search found
  lane: number; // highlighted row; −1 for none
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
  hatch: CanvasPattern | null;
  jobs: Shades[];
}

export class Painter {
  private readonly g: CanvasRenderingContext2D;
  private theme: Theme;
  private labels: [text: string, x: number, y: number, ink: string, dim: boolean][] = [];
  private readonly nodes: Bracket[];
  private readonly racks: Bracket[];
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
    const types = chart.lanes.map(l => l.type);
    this.nodes = brackets(types, chart.nodes, n => n.name);
    this.racks = brackets(types, chart.nodes, n => n.rack);
  }

  // left is the width of the names beside the rows. Narrow screens have no names of racks.
  get left(): number {
    if (this.narrow) return 62;
    return 118 + (this.nodes.length ? NODE_NAMES - 32 : 0) + (this.racks.length ? NODE_NAMES : 0);
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
    return this.theme.jobs[job % this.theme.jobs.length]!.fill;
  }

  // readTheme reads the present colours of the style sheet.
  private readTheme(): Theme {
    const probe = document.createElement("i");
    document.body.append(probe);
    const colour = (name: string) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const theme: Theme = {
      ink: colour("ink"),
      faint: colour("faint"),
      ground: colour("ground"),
      line: colour("line"),
      page: colour("page"),
      focus: colour("focus"),
      hatch: this.hatching(colour("hatched"), colour("hatch")),
      jobs: shadesOf(this.chart.data.palette, rgb(colour("ground"))),
    };
    probe.remove();
    return theme;
  }

  private hatching(ground: string, stroke: string): CanvasPattern | null {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const q = tile.getContext("2d")!;
    q.fillStyle = ground;
    q.fillRect(0, 0, 8, 8);
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
    const axis = marks(time.from, time.to, Math.max(2, Math.floor(time.width / (this.narrow ? 75 : 95))));
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
    for (
      let i = Math.max(0, above(rows.tops, rows.tops.length, this.state.scroll - rows.height) - 1);
      i < rows.tops.length;
      i++
    ) {
      const y = rows.tops[i]! - this.state.scroll;
      if (y > bottom) break;
      this.lane(this.chart.lanes[i]!, y, i === this.state.lane);
    }
    this.writeLabels();
    if (this.nodes.length) {
      // The names of GPUs are their numbers on the node.
      const right = time.left - (rows.height >= 11 ? 24 : 4);
      this.brackets(this.nodes, right, rows.head ? right - 6 : NODE_NAMES - 10);
      if (!rows.head) this.brackets(this.racks, right - NODE_NAMES, NODE_NAMES - 10);
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

  // brackets draws brackets that end at x, and their names where the rows have room.
  private brackets(all: readonly Bracket[], x: number, room: number): void {
    const { g, rows, theme } = this;
    g.textAlign = "right";
    g.font = font(10);
    for (const b of all) {
      const top = Math.round(rows.tops[b.first]! - this.state.scroll);
      const end = Math.round(rows.tops[b.last]! - this.state.scroll + rows.height);
      if (end <= 0 || top > this.bottom) continue;
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

  private lane(l: Lane, y: number, out: boolean): void {
    const { g, time, rows, theme } = this;
    const inset = rows.height >= 14 ? 2 : rows.height >= 8 ? 1 : rows.height >= 4 ? 0.5 : 0;
    const top = y + inset;
    const h = rows.height - 2 * inset;
    const right = time.left + time.width;
    if (rows.height >= 11) {
      const room = l.node >= 0 ? 18 : rows.head ? time.left - 6 : 60;
      const most = rows.head ? 12 : 16;
      const name = l.node >= 0 ? l.gpu.slice(l.gpu.lastIndexOf("/") + 1) : l.gpu;
      g.textAlign = "right";
      g.font = font(10, out);
      g.fillStyle = out ? theme.ink : theme.faint;
      g.fillText(
        name.length > most ? "…" + name.slice(1 - most) : name,
        time.left - 6,
        y + rows.height / 2 + 3.5,
        room,
      );
    }
    for (let i = 0; i < l.away.length; i += 2) {
      const a = Math.max(time.left, time.px(l.away[i]!));
      const b = Math.min(right, time.px(l.away[i + 1]!));
      if (b > a && theme.hatch) {
        g.fillStyle = theme.hatch;
        g.fillRect(a, y, b - a, rows.height);
      }
    }
    const chosen = this.state.pinned >= 0 || this.state.hover >= 0 || this.state.marked !== null;
    let drawn = time.left;
    let labelled = -1;
    let labelEnd = -1;
    for (let i = above(l.end, l.n, time.from); i < l.n && l.start[i]! < time.to; i++) {
      const job = l.job[i]!;
      const last = time.px(l.end[i]!);
      const strength = this.strength(job);
      if (last < drawn + 0.4 && !(chosen && strength === 1)) continue; // hidden by a bar that was drawn before
      g.globalAlpha = strength;
      const a = Math.max(time.left, time.px(l.start[i]!));
      // A block fills the space between its rows, and one pixel more against a seam. Bars
      // that do not fill a pixel have no seam: where they overlapped, they would be darker.
      const seam = last - a >= 1 ? 1 : 0;
      const over = l.block[i]! & ABOVE ? inset : 0;
      const under = l.block[i]! & BELOW ? inset + seam : 0;
      this.span(l, i, a, Math.min(right, last), top - over, h + over + under);
      drawn = Math.max(drawn, last);
      if (l.block[i]! & ABOVE || (labelled === job && a <= labelEnd + 3)) continue;
      const height = rows.height * l.blockLanes[i]!;
      if (height < 11) continue;
      let e = i; // last span of the job without a gap
      while (
        e + 1 < l.n &&
        l.job[e + 1] === job &&
        time.px(l.start[e + 1]!) - time.px(l.end[e]!) < 3 &&
        time.px(l.end[e]!) < right
      )
        e++;
      labelled = job;
      labelEnd = time.px(l.end[e]!);
      this.label(job, a + 4, Math.min(right, labelEnd) - a - 8, y + height / 2 + 3.5, strength < 1);
    }
    g.globalAlpha = 1;
    if (out) {
      g.strokeStyle = theme.focus;
      g.lineWidth = 2;
      g.strokeRect(time.left + 1, y, time.width - 2, rows.height);
    }
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
    let text = this.chart.jobs[job]!.id;
    if (text.length > 80) text = text.slice(0, 79) + "…";
    this.g.font = font(10);
    if (this.g.measureText(text).width > room) return;
    this.labels.push([
      text,
      x,
      base,
      dim ? this.theme.ink : this.theme.jobs[job % this.theme.jobs.length]!.ink,
      dim,
    ]);
  }

  // span draws span i as one bar, or as single rounds where these are wide enough.
  private span(l: Lane, i: number, a: number, b: number, top: number, h: number): void {
    const { g, time } = this;
    const rounds = l.rounds[i]!;
    const period = l.period[i]!;
    if (rounds > 1 && (period / time.span) * time.width < 9) {
      g.fillStyle = this.fill(l.job[i]!);
      g.fillRect(a, top, Math.max(0.5, b - a), h);
      return;
    }
    const first = rounds > 1 ? Math.max(0, Math.floor((time.from - l.start[i]!) / period)) : 0;
    for (let r = first; r < rounds; r++) {
      const t = l.start[i]! + r * period;
      if (t > time.to) break;
      this.round(l, i, t, top, h);
    }
  }

  // round draws one round: compute, and then, in a lighter shade, the time for which
  // the GPU is held to synchronise.
  private round(l: Lane, i: number, t: number, top: number, h: number): void {
    const { g, time } = this;
    const shades = this.theme.jobs[l.job[i]! % this.theme.jobs.length]!;
    const hold = l.hold[i]!;
    const sync = l.sync[i]!;
    const a = Math.max(time.left, time.px(t));
    let b = Math.min(time.left + time.width, time.px(t + hold));
    const whole = b - a;
    if (whole <= 0) return;
    if (whole >= 4) b -= 0.6;
    const c = time.px(t + hold - sync);
    if (
      this.chart.jobs[l.job[i]!]!.sync !== "relaxed" &&
      sync > 0 &&
      sync < hold &&
      whole >= 4 &&
      b - c >= 1
    ) {
      g.fillStyle = shades.sync;
      g.fillRect(Math.max(a, c), top, b - Math.max(a, c), h);
      b = c;
    }
    if (b > a) {
      g.fillStyle = shades.fill;
      g.fillRect(a, top, Math.max(0.4, b - a), h);
    }
  }
}
