// The chart of a cluster: past, now and plan on one axis of time.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, now as serverNow, Refused } from "./api.js";
import { rgb, hex, mix } from "../shared/colour.js";
import { type By, choices, type Colouring, colouring } from "./colouring.js";
import { colour, shade } from "./palette.js";
import { useNow, useTheme, useWatched } from "./parts.js";
import { link } from "./route.js";
import { type Chart, chartFrom, chartOf, lanesOf, runs, type Span } from "./spans.js";
import type { ClusterStore, Gantt } from "./store.js";
import { clock, count, span as words, whole } from "./words.js";

const AXIS = 24;
const AHEAD = 29 * 86400e3; // milliseconds of the plan that are shown; the server allows 31 days with the past one
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map(
  s => s * 1e3,
);

// useChart is the server's chart of a cluster or, where it has none, one of what the page knows.
export function useChart(store: ClusterStore): Chart {
  useWatched(store);
  const tick = useNow(10e3);
  const [served, set] = useState<Gantt | null>(null);
  const none = useRef(false);
  const version = store.version;
  const next = useRef(0); // when the chart may be asked for again
  useEffect(() => {
    const began = performance.now();
    if (none.current || document.hidden || began < next.current) return;
    next.current = Infinity;
    const to = new Date(serverNow() + AHEAD).toISOString();
    get<Gantt>(`${store.path}/gantt?to=${to}`, store.signal)
      .then(set)
      .catch((e: unknown) => (none.current = e instanceof Refused && e.status === 404))
      .finally(() => (next.current = performance.now() + Math.max(2000, 10 * (performance.now() - began))));
  }, [store, version, Math.floor(tick / 10e3)]);
  return useMemo(
    () =>
      served
        ? chartFrom(served, id => store.rows.get(id))
        : chartOf(store.rows.values(), lanesOf(store.agents), serverNow()),
    // What is known of the jobs of a served chart comes with the jobs.
    served ? [served, store.loaded, store.complete] : [store, version, Math.floor(tick / 10e3)],
  );
}

interface View {
  from: number;
  to: number;
}

// wholeView shows what is planned, and as much of the past.
function wholeView(c: Chart): View {
  let [first, last] = [c.now, c.now + 60e3];
  for (const s of c.spans) {
    first = Math.min(first, s.from);
    last = Math.max(last, s.to);
  }
  const room = (last - c.now) * 0.02;
  return { from: Math.max(first - room, c.now - Math.max(600e3, 0.7 * (last - c.now))), to: last + room };
}

interface Shape {
  tops: number[];
  height: number; // of a row
  total: number;
  groups: { type: string; top: number; height: number; n: number }[];
  nodes: { node: string; top: number; height: number }[];
}

function shapeOf(c: Chart, room: number): Shape {
  const types = new Set(c.lanes.map(l => l.type)).size;
  const nodes = new Set(c.lanes.map(l => l.type + "\n" + l.node)).size;
  const gaps = (types - 1) * 12 + (nodes - types) * 2;
  const height = Math.max(2, Math.min(20, Math.floor((2 * (room - gaps)) / Math.max(1, c.lanes.length)) / 2));
  const shape: Shape = { tops: [], height, total: 0, groups: [], nodes: [] };
  let y = 0;
  c.lanes.forEach((l, i) => {
    const before = c.lanes[i - 1];
    const group = shape.groups[shape.groups.length - 1];
    if (!before || before.type !== l.type) {
      if (before) y += 12;
      shape.groups.push({ type: l.type, top: y, height: 0, n: 0 });
    } else if (before.node !== l.node) y += 2;
    if (!before || before.node !== l.node || before.type !== l.type)
      shape.nodes.push({ node: l.node, top: y, height: 0 });
    shape.tops.push(y);
    y += height;
    const g = shape.groups[shape.groups.length - 1] ?? group!;
    g.height = y - g.top;
    g.n++;
    const n = shape.nodes[shape.nodes.length - 1]!;
    n.height = y - n.top;
  });
  shape.total = y;
  return shape;
}

const leftOf = (width: number): number => (width < 560 ? 64 : 132);

interface Drawn {
  chart: Chart;
  shape: Shape;
  view: View;
  scroll: number;
  colours: Colouring;
  chosen: string; // a job; "" for none
  marked: ReadonlySet<string> | null; // jobs that a search found
}

function draw(canvas: HTMLCanvasElement, d: Drawn): void {
  const g = canvas.getContext("2d")!;
  const ratio = devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  const { chart, shape, view } = d;
  const left = leftOf(w);
  const wide = w - left;
  const bottom = Math.min(h - AXIS, shape.total);
  const px = (t: number): number => left + ((t - view.from) / (view.to - view.from)) * wide;
  const [ink, faint, ground, line, page, focus] = ["ink", "faint", "ground", "line", "page", "focus"].map(
    colour,
  ) as [string, string, string, string, string, string];
  const font = getComputedStyle(canvas).fontFamily;
  const type = (size: number, weight = "") => (g.font = `${weight} ${size}px ${font}`.trim());

  g.save();
  g.beginPath();
  g.rect(0, 0, w, bottom);
  g.clip();
  g.fillStyle = ground;
  for (const n of shape.nodes) g.fillRect(left, n.top - d.scroll, wide, n.height);
  const step =
    STEPS.find(s => ((view.to - view.from) / s) * (w < 560 ? 66 : 84) < wide) ?? STEPS[STEPS.length - 1]!;
  const zone = new Date(view.from).getTimezoneOffset() * 60e3;
  const marks: number[] = [];
  for (let t = Math.ceil((view.from - zone) / step) * step + zone; t <= view.to; t += step) marks.push(t);
  g.fillStyle = line;
  for (const t of marks) g.fillRect(Math.round(px(t)), 0, 1, bottom);

  const nowX = px(chart.now);
  const top = (i: number): number => shape.tops[i]! - d.scroll;
  const pad = shape.height >= 6 ? 1 : 0;
  for (const s of chart.spans) {
    if (s.to < view.from || s.from > view.to) continue;
    const shades = shade(d.colours.of(s));
    const dim = (d.chosen && s.job !== d.chosen) || (d.marked && !d.marked.has(s.job));
    g.globalAlpha = dim ? 0.22 : 1;
    const a = Math.max(left, px(s.from));
    const b = Math.min(w, px(s.to));
    const middle = s.kind === "past" ? b : s.kind === "plan" ? a : Math.max(a, Math.min(b, nowX));
    let labelled = false;
    for (const [first, last] of runs(s.lanes)) {
      const y = top(first);
      const height = top(last) + shape.height - y - pad;
      if (y > bottom || y + height < 0) continue;
      if (middle > a) {
        g.fillStyle = shades.fill;
        g.fillRect(a, y, Math.max(0.7, middle - a - (b > middle ? 0 : 0.6)), height);
      }
      if (b > middle) {
        g.fillStyle = hex(mix(rgb(shades.fill), rgb(page), 0.72));
        g.fillRect(middle, y, Math.max(0.7, b - middle - 0.6), height);
        if (height >= 5 && b - middle >= 4) {
          g.strokeStyle = shades.fill;
          g.lineWidth = 1;
          g.strokeRect(middle + 0.5, y + 0.5, b - middle - 1.6, height - 1);
        }
      }
      if (!labelled && height >= 11 && !dim) {
        type(Math.min(11, Math.max(9, height - 3)));
        const [from, to] = middle - a > b - middle ? [a, middle] : [middle, b];
        const room = to - from - 8;
        if (room > 26) {
          g.fillStyle = from === a && middle > a ? shades.ink : ink;
          g.save();
          g.beginPath();
          g.rect(from + 3, y, room + 2, height);
          g.clip();
          g.textBaseline = "middle";
          g.fillText(s.name, from + 4, y + Math.min(height, 20) / 2 + 0.5);
          g.restore();
          labelled = true;
        }
      }
      // The bracket of the proved earliest end. One before the planned start is shown on demand.
      const e = px(s.earliest);
      const within = s.earliest >= s.from || s.job === d.chosen;
      if (within && e > left && e < w && s.earliest > chart.now && height >= 4) {
        g.strokeStyle = dim ? faint : ink;
        g.lineWidth = s.job === d.chosen ? 2 : 1;
        g.beginPath();
        g.moveTo(e - 4, y + 0.5);
        g.lineTo(e + 0.5, y + 0.5);
        g.lineTo(e + 0.5, y + height - 0.5);
        g.lineTo(e - 4, y + height - 0.5);
        g.stroke();
      }
    }
  }
  g.globalAlpha = 1;
  g.fillStyle = focus;
  if (nowX >= left && nowX <= w) g.fillRect(Math.round(nowX) - 1, 0, 2, bottom);

  g.textBaseline = "middle";
  for (const t of shape.groups) {
    const y = t.top - d.scroll;
    if (y > bottom || y + t.height < 0) continue;
    g.fillStyle = ink;
    type(12, "600");
    const at = Math.max(8, Math.min(y + 8, bottom - 8));
    g.fillText(t.type, 0, at);
    g.fillStyle = faint;
    type(11);
    if (t.height >= 26) g.fillText(`× ${t.n}`, 0, at + 15);
  }
  if (w >= 560) {
    type(11);
    g.fillStyle = faint;
    g.textAlign = "right";
    let under = -99;
    for (const n of shape.nodes) {
      const y = n.top - d.scroll + n.height / 2;
      if (y - under < 12 || y > bottom) continue;
      g.fillText(n.node.length > 13 ? n.node.slice(0, 12) + "…" : n.node, left - 6, y);
      under = y;
    }
    g.textAlign = "left";
  }
  g.restore();

  type(11);
  g.textBaseline = "top";
  g.textAlign = "center";
  const nowText = "now";
  for (const t of marks) {
    const x = px(t);
    if (x < left + 12 || x > w - 14 || Math.abs(x - nowX) < 36) continue;
    const date = new Date(t);
    const midnight = !date.getHours() && !date.getMinutes();
    g.fillStyle = faint;
    g.fillText(
      midnight || step >= 86400e3 ? clock(t, NaN).split(" ").slice(0, 2).join(" ") : clock(t, t),
      x,
      bottom + 7,
    );
  }
  if (nowX >= left && nowX <= w) {
    g.fillStyle = focus;
    type(11, "600");
    g.fillText(nowText, Math.min(nowX, w - 14), bottom + 7);
  }
  g.textAlign = "left";
}

function spotOf(d: Drawn, width: number, x: number, y: number): Span | undefined {
  const left = leftOf(width);
  const t = d.view.from + ((x - left) / (width - left)) * (d.view.to - d.view.from);
  const slack = ((d.view.to - d.view.from) / (width - left)) * 2;
  const row = d.shape.tops.findIndex(top => y + d.scroll >= top && y + d.scroll < top + d.shape.height);
  if (row < 0 || x < left) return undefined;
  return d.chart.spans.find(s => s.from - slack <= t && t <= s.to + slack && s.lanes.includes(row));
}

export function describe(s: Span, now: number): string[] {
  const when =
    s.kind === "past"
      ? `ran ${clock(s.from, now)} to ${clock(s.to, now)} (${words((s.to - s.from) / 1e3)})`
      : s.kind === "now"
        ? `runs since ${clock(s.from, now)}${s.open ? "" : `, ends at about ${clock(s.to, now)}`}`
        : `starts at about ${clock(s.from, now)}${s.open ? "" : `, ends at about ${clock(s.to, now)}`}`;
  return [
    `${s.name} · ${s.job}${s.user ? " · " + s.user : ""}`,
    `${count(s.lanes.length, "GPU")}, ${when}`,
    isNaN(s.earliest) || s.kind === "past" ? "" : `ends not before ${clock(s.earliest, now)}, proved`,
  ].filter(Boolean);
}

export function Chart(p: { store: ClusterStore; chart: Chart; height: number; tools?: boolean }) {
  const { store, chart } = p;
  const theme = useTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [chosen, choose] = useState<View | null>(null);
  const [by, setBy] = useState<By>("job");
  const [find, setFind] = useState("");
  const [hover, setHover] = useState<{ s: Span; x: number; y: number } | null>(null);
  const [size, setSize] = useState(0);
  const [scroll, setScroll] = useState(0);
  const shape = useMemo(() => shapeOf(chart, p.height - AXIS), [chart, p.height]);
  const view = chosen ?? wholeView(chart);
  const q = find.trim().toLowerCase();
  const marked = useMemo(
    () =>
      q
        ? new Set(
            chart.spans
              .filter(s => `${s.job}\n${s.name}\n${s.user}`.toLowerCase().includes(q))
              .map(s => s.job),
          )
        : null,
    [chart, q],
  );
  const colours = useMemo(() => colouring(chart.spans, by), [chart, by]);
  const d: Drawn = { chart, shape, view, scroll, colours, chosen: hover?.s.job ?? "", marked };
  const last = useRef(d);
  last.current = d;
  useLayoutEffect(() => {
    const see = new ResizeObserver(() => setSize(canvas.current?.clientWidth ?? 0));
    see.observe(canvas.current!);
    return () => see.disconnect();
  }, []);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && draw(canvas.current, last.current));
    return () => cancelAnimationFrame(frame);
  }, [chart, shape, view.from, view.to, scroll, colours, hover?.s.job, marked, size, theme]);

  const zoom = (factor: number, x?: number) => {
    const w = canvas.current!.clientWidth;
    const left = leftOf(w);
    const share = x === undefined ? 0.5 : Math.max(0, (x - left) / (w - left));
    const { from, to } = last.current.view;
    const long = Math.max(60e3, Math.min(90 * 86400e3, (to - from) * factor));
    const at = from + share * (to - from);
    choose({ from: at - share * long, to: at + (1 - share) * long });
  };
  const pan = (share: number) => {
    const { from, to } = last.current.view;
    choose({ from: from + share * (to - from), to: to + share * (to - from) });
  };
  // A wheel listener that may prevent the page from zooming cannot be passive.
  useEffect(() => {
    const e = box.current!;
    const wheel = (w: WheelEvent) => {
      if (w.ctrlKey || w.metaKey) {
        w.preventDefault();
        zoom(Math.exp(w.deltaY / 300), w.clientX - canvas.current!.getBoundingClientRect().left);
      } else if (Math.abs(w.deltaX) > Math.abs(w.deltaY)) {
        w.preventDefault();
        pan(w.deltaX / canvas.current!.clientWidth);
      }
    };
    e.addEventListener("wheel", wheel, { passive: false });
    return () => e.removeEventListener("wheel", wheel);
  }, []);
  const drag = useRef<{ x: number; view: View; moved: boolean } | null>(null);
  const at = (e: PointerEvent): [number, number] => {
    const r = canvas.current!.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top];
  };
  const keys = (e: KeyboardEvent) => {
    const todo: Record<string, () => void> = {
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1.4),
      "0": () => choose(null),
      ArrowLeft: () => pan(-0.1),
      ArrowRight: () => pan(0.1),
    };
    if (e.ctrlKey || e.metaKey || !todo[e.key]) return;
    e.preventDefault();
    todo[e.key]!();
  };
  const kinds = { now: new Set<string>(), plan: new Set<string>(), past: new Set<string>() };
  for (const s of chart.spans) kinds[s.kind].add(s.job);
  const label =
    `Chart of ${count(chart.lanes.length, "GPU")} over time: ${whole(kinds.now.size)} jobs run, ` +
    `${whole(kinds.plan.size)} are planned, ${whole(kinds.past.size)} have ended. The queue has the same as a table.`;
  const long = shape.total + AXIS;
  return (
    <div class="gantt">
      {p.tools && (
        <div class="tools">
          <input
            type="search"
            placeholder="Find a job, name or user"
            aria-label="Find in the chart"
            value={find}
            onInput={e => setFind(e.currentTarget.value)}
          />
          <label>
            colour by{" "}
            <select value={by} onChange={e => setBy(e.currentTarget.value as By)}>
              {choices(chart.spans, by).map(c => (
                <option key={c} value={c}>
                  {c === "cause" ? "cause of waiting" : c}
                </option>
              ))}
            </select>
          </label>
          <span class="zoom">
            <button type="button" aria-label="Zoom out" onClick={() => zoom(1.5)}>
              −
            </button>
            <button type="button" aria-label="Zoom in" onClick={() => zoom(0.67)}>
              +
            </button>
            <button type="button" onClick={() => choose(null)}>
              all
            </button>
          </span>
          <p class="soft" role="status">
            {marked ? count(marked.size, "job") + " found" : ""}
          </p>
        </div>
      )}
      <div
        class="rows"
        ref={box}
        style={{ height: `${Math.min(p.height, long)}px` }}
        onScroll={e => setScroll(e.currentTarget.scrollTop)}
      >
        <div style={{ height: `${long}px` }}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="img"
            aria-label={label}
            style={{ height: `${Math.min(p.height, long)}px` }}
            onKeyDown={keys}
            onPointerDown={e => {
              if (e.button !== 0) return;
              drag.current = { x: e.clientX, view: last.current.view, moved: false };
              if (e.pointerType === "mouse") canvas.current!.setPointerCapture(e.pointerId);
            }}
            onPointerMove={e => {
              const [x, y] = at(e);
              const w = canvas.current!.clientWidth;
              if (drag.current && Math.abs(e.clientX - drag.current.x) > 3) drag.current.moved = true;
              if (drag.current?.moved) {
                const { from, to } = drag.current.view;
                const dt = ((drag.current.x - e.clientX) / (w - leftOf(w))) * (to - from);
                choose({ from: from + dt, to: to + dt });
                setHover(null);
                return;
              }
              const s = spotOf(last.current, w, x, y);
              setHover(s ? { s, x, y } : null);
            }}
            onPointerUp={e => {
              const d = drag.current;
              drag.current = null;
              if (!d || d.moved) return;
              const s = spotOf(last.current, canvas.current!.clientWidth, ...at(e));
              if (s) location.hash = link(store.name, "job", s.job);
            }}
            onPointerCancel={() => (drag.current = null)}
            onPointerLeave={() => setHover(null)}
          />
        </div>
        {hover && (
          <div
            class="tip"
            style={{
              left: `${Math.min(hover.x + 12, Math.max(0, size - 300))}px`,
              top: `${hover.y + scroll + 14}px`,
            }}
          >
            {describe(hover.s, chart.now).map(l => (
              <div key={l}>{l}</div>
            ))}
          </div>
        )}
      </div>
      {colours.key.length > 0 && (
        <div class="key" role="group" aria-label={`Colours by ${by}`}>
          {colours.key.map(([text, place]) => (
            <span key={text}>
              <i style={{ background: shade(place).fill }} /> <bdi>{text}</bdi>
            </span>
          ))}
        </div>
      )}
      <p class="key soft">
        <span>
          <i class="did" /> ran, runs
        </span>
        <span>
          <i class="will" /> planned, about
        </span>
        <span>
          <i class="proof" /> proved: ends not before
        </span>
        {kinds.plan.size > 0 && <span>which GPU of its type a planned job gets is open</span>}
      </p>
    </div>
  );
}

export function GanttPage({ store }: { store: ClusterStore }) {
  const chart = useChart(store);
  const [height, setHeight] = useState(innerHeight - 250);
  useEffect(() => {
    const f = () => setHeight(innerHeight - 250);
    addEventListener("resize", f);
    return () => removeEventListener("resize", f);
  }, []);
  return <Chart store={store} chart={chart} height={Math.max(260, height)} tools />;
}
