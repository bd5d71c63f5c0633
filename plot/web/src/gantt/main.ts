// The page of a schedule: connects the controls of the page to the chart.
import { duration } from "../shared/axis.js";
import { about, spot, use } from "./describe.js";
import { chartOf, lanesOf, planned, runsAtZero, runsNow, setupAt, spanAt, type PageData } from "./data.js";
import { type By, choices, groupsOf } from "./groups.js";
import { AXIS, Painter, type State } from "./paint.js";
import { counted, Index, type Hit } from "./search.js";
import { foldsOf, nodeGaps, Rows, TimeView } from "./view.js";

const MOST_HITS = 50;
const MOST_GROUPS = 12; // that are named
const MOST_LATE = 8; // late jobs that are named

function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

function element<K extends keyof HTMLElementTagNameMap>(tag: K, text = ""): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  e.textContent = text;
  return e;
}

const data = JSON.parse(byId("data").textContent!) as PageData;
const chart = chartOf(data, byId("binary").textContent!);
byId("binary").remove(); // it may have many megabytes
const { jobs, lanes, kinds } = chart;
const state: State = {
  scroll: 0,
  hover: -1,
  pinned: -1,
  marked: null,
  lane: -1,
  groups: groupsOf(chart, "job"),
};
const time = new TimeView(data.end);
const types = lanes.map(l => l.type);
const folds = foldsOf(lanes, chart.nodes, data.types);
const rows = new Rows(types, nodeGaps(types, chart.nodes), folds);
const [scroller, space, canvas, tip] = [
  byId("rows"),
  byId("space"),
  byId<HTMLCanvasElement>("chart"),
  byId("tip"),
];
const painter = new Painter(canvas, chart, time, rows, state);

byId("title").textContent = data.title;
byId("figures").textContent = data.figures;
byId("size").textContent = data.size;
canvas.setAttribute("aria-label", `Gantt chart: ${data.figures} ${data.size}`);

let pending = false;
function draw(): void {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    painter.draw();
  });
}

// Until the reader sets the height of rows, the page chooses it so that all rows fit
// into the window, or are scrolled where they cannot fit.
let chosenHeight = false;

function resize(zoom = rows.zoom): void {
  const before = rows.total;
  rows.resize(zoom, painter.narrow ? 18 : 0, scroller.clientHeight - AXIS);
  space.style.height = `${Math.max(rows.total + AXIS, scroller.clientHeight)}px`;
  if (before > 0) scroller.scrollTop *= rows.total / before;
  state.scroll = scroller.scrollTop;
  const input = byId<HTMLInputElement>("rowh");
  input.value = String(rows.zoom);
  const fold = folds[rows.fold - 1]?.name;
  input.setAttribute("aria-valuetext", fold ?? `${rows.height} pixels`);
  byId("fold").textContent = fold ?? "";
  draw();
}

function fit(): void {
  canvas.style.height = `${scroller.clientHeight}px`;
  time.left = painter.left;
  time.width = Math.max(1, scroller.clientWidth - time.left);
  resize();
  resize(chosenHeight ? rows.zoom : rows.fitting(scroller.clientHeight - AXIS));
}

function all(): void {
  time.all();
  scroller.scrollTop = 0;
  draw();
}

function zoom(factor: number, x?: number): void {
  time.zoom(factor, x);
  draw();
}

function pan(dx: number): void {
  time.pan(dx);
  draw();
}

// choose selects a job, −1 for none; with show it also scrolls the job into view.
function choose(job: number, show = false): void {
  if (show) hideTip();
  state.pinned = job;
  state.lane = -1;
  for (const b of byId("legend").querySelectorAll("button"))
    b.setAttribute("aria-pressed", String(b.dataset.job === String(job)));
  byId("chosen").hidden = job < 0;
  byId("about").textContent = job < 0 ? "" : about(chart, job);
  if (job >= 0 && show) {
    if (rows.fold) unfold();
    time.show(jobs[job]!.start, jobs[job]!.end);
    const first = lanesOf(chart, job)[0];
    if (first !== undefined) reveal(first);
  }
  draw();
}

// unfold gives every GPU a row that can be read.
function unfold(): void {
  chosenHeight = true;
  resize(14);
}

// chooseLane highlights a GPU and makes its row high enough to be read.
function chooseLane(lane: number): void {
  choose(-1);
  if (rows.height < 12) unfold();
  state.lane = lane;
  reveal(lane);
  draw();
}

// reveal scrolls to a row that is not visible.
function reveal(lane: number): void {
  const top = rows.tops[lane]!;
  const room = scroller.clientHeight - AXIS;
  if (top < scroller.scrollTop + rows.head || top + rows.height > scroller.scrollTop + room) {
    scroller.scrollTop = Math.max(0, top - room / 3);
    state.scroll = scroller.scrollTop;
  }
}

// next selects the job that is step positions further among the drawn jobs.
function next(step: number): void {
  const n = jobs.length;
  for (let i = 1; i <= n; i++) {
    const j = (Math.max(state.pinned, step > 0 ? -1 : 0) + step * i + n * 2) % n;
    if (jobs[j]!.end > 0) return choose(j, true);
  }
}

// Pointer: describes in words what is under the pointer.

// unfoldAt shows the rows that the one at y stands for, in its place.
function unfoldAt(y: number): void {
  const lane = rows.at(y + state.scroll);
  if (lane < 0) return;
  chosenHeight = true;
  resize(rows.fold > 1 ? rows.zoom + 1 : 14);
  scroller.scrollTop = Math.max(
    0,
    rows.tops[rows.fold ? rows.folded[rows.foldedAt(lane)]!.first : lane]! - y,
  );
  state.scroll = scroller.scrollTop;
  hideTip();
  draw();
}

function hideTip(): void {
  tip.hidden = true;
}

function point(e: PointerEvent): void {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [e.clientX - box.left, e.clientY - box.top];
  const row = x < time.left || y > painter.bottom ? -1 : rows.at(y + state.scroll);
  if (row < 0) {
    hover(-1);
    return hideTip();
  }
  const l = lanes[row]!;
  const t = time.time(x);
  if (rows.fold) {
    hover(-1);
    const folded = rows.folded[rows.foldedAt(row)]!;
    tip.textContent = use(chart, folded, state.groups, t, time.span);
  } else {
    const slack = time.span / time.width;
    const k = spanAt(l, t, slack);
    const over = k < 0 ? setupAt(l, t, 0) : k;
    hover(over < 0 ? -1 : l.job(over));
    tip.textContent = spot(chart, l, k, t, time.span);
  }
  tip.hidden = false;
  // A finger covers what is below it, so the tooltip is placed above the finger.
  const above = e.pointerType === "touch" || y + 16 + tip.offsetHeight > painter.height;
  tip.style.left = `${Math.max(0, Math.min(x + 14, painter.width - tip.offsetWidth))}px`;
  tip.style.top = `${above ? Math.max(0, y - tip.offsetHeight - (e.pointerType === "touch" ? 24 : 10)) : y + 16}px`;
}

function hover(job: number): void {
  if (job === state.hover) return;
  state.hover = job;
  draw();
}

const touches = new Map<number, [x: number, y: number]>();
let moved = 0;

canvas.addEventListener("pointerdown", e => {
  touches.set(e.pointerId, [e.clientX, e.clientY]);
  moved = 0;
  hideTip();
  canvas.setPointerCapture(e.pointerId);
  canvas.classList.add("drag");
});

canvas.addEventListener("pointermove", e => {
  const was = touches.get(e.pointerId);
  if (!was) return point(e);
  const [dx, dy] = [e.clientX - was[0], e.clientY - was[1]];
  if (touches.size === 2) {
    const other = [...touches].find(([id]) => id !== e.pointerId)![1];
    const before = Math.hypot(was[0] - other[0], was[1] - other[1]);
    const now = Math.hypot(e.clientX - other[0], e.clientY - other[1]);
    if (before > 0 && now > 0)
      zoom(before / now, (e.clientX + other[0]) / 2 - canvas.getBoundingClientRect().left);
  } else {
    pan(-dx);
    if (e.pointerType !== "touch") scroller.scrollTop -= dy; // the browser scrolls by touch itself
  }
  moved += Math.abs(dx) + Math.abs(dy);
  if (moved >= 6) hideTip();
  touches.set(e.pointerId, [e.clientX, e.clientY]);
});

function release(e: PointerEvent): void {
  if (touches.delete(e.pointerId) && e.type === "pointerup" && moved < 6) {
    if (rows.fold) return unfoldAt(e.clientY - canvas.getBoundingClientRect().top);
    point(e);
    const job = state.hover;
    choose(job === state.pinned ? -1 : job);
    if (e.pointerType === "touch") hover(-1); // a lifted finger points at nothing
  }
  if (!touches.size) canvas.classList.remove("drag");
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", e => {
  if (e.pointerType === "touch") return; // the tooltip of a touch stays visible
  hideTip();
  hover(-1);
});
canvas.addEventListener("dblclick", all);

scroller.addEventListener("scroll", () => {
  if (state.scroll === scroller.scrollTop) return;
  state.scroll = scroller.scrollTop;
  hideTip();
  draw();
});

// The wheel scrolls where not all rows fit, and otherwise zooms.
scroller.addEventListener(
  "wheel",
  e => {
    const unit = e.deltaMode === 1 ? 30 : 1;
    const across = e.shiftKey ? e.deltaX || e.deltaY : e.deltaX;
    if (
      e.ctrlKey ||
      e.metaKey ||
      !(
        e.shiftKey ||
        Math.abs(across) > Math.abs(e.deltaY) ||
        scroller.scrollHeight > scroller.clientHeight + 1
      )
    ) {
      e.preventDefault();
      zoom(
        Math.exp(
          e.deltaY * unit * (e.ctrlKey && e.deltaMode === 0 && Math.abs(e.deltaY) < 40 ? 0.008 : 0.0016),
        ),
        e.clientX - canvas.getBoundingClientRect().left,
      );
    } else if (e.shiftKey || Math.abs(across) > Math.abs(e.deltaY)) {
      e.preventDefault();
      pan(across * unit);
    }
    hideTip();
  },
  { passive: false },
);

canvas.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const step = time.width / 8;
  const scroll = (dy: number) => () => scroller.scrollBy(0, dy);
  const page = scroller.clientHeight - AXIS;
  const act: Record<string, () => void> = {
    ArrowLeft: () => pan(-step),
    ArrowRight: () => pan(step),
    ArrowUp: scroll(-60),
    ArrowDown: scroll(60),
    PageUp: scroll(-page),
    PageDown: scroll(page),
    Home: scroll(-1e9),
    End: scroll(1e9),
    "+": () => zoom(0.7),
    "=": () => zoom(0.7),
    "-": () => zoom(1 / 0.7),
    "0": all,
    n: () => next(1),
    p: () => next(-1),
    Escape: () => choose(-1),
  };
  const f = act[e.key];
  if (!f) return;
  f();
  e.preventDefault();
});

document.addEventListener("keydown", e => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.target instanceof HTMLInputElement) return;
  e.preventDefault();
  find.focus();
});

byId("in").onclick = () => zoom(0.6);
byId("out").onclick = () => zoom(1 / 0.6);
byId("all").onclick = all;
byId("clear").onclick = () => {
  choose(-1);
  canvas.focus();
};
byId<HTMLInputElement>("rowh").min = String(1 - folds.length);
byId<HTMLInputElement>("rowh").oninput = e => {
  chosenHeight = true;
  resize(+(e.target as HTMLInputElement).value);
};

// Search: matches are listed and highlighted while the reader types.

const find = byId<HTMLInputElement>("find");
const index = new Index(
  jobs.map(j => j.id),
  lanes.map(l => l.gpu),
);
let hits: Hit[] = [];
let selected = -1;

function search(): void {
  const found = index.find(find.value, MOST_HITS);
  hits = found.hits;
  if (group >= 0) mark(-1);
  const any = find.value.trim() !== "";
  state.marked = any ? found.marked : null;
  // If only GPUs match, all jobs stay as they are.
  if (any && !found.jobs && found.gpus) state.marked = null;
  const more = found.jobs + found.gpus > hits.length ? `; the first ${hits.length} are listed` : "";
  byId("count").textContent = counted(found) + more;
  byId("hits").replaceChildren(
    ...hits.map((h, i) => {
      const li = element("li");
      li.id = `hit-${i}`;
      li.role = "option";
      if (h.kind === "job") {
        const swatch = element("i");
        swatch.style.background = painter.fill(h.index);
        li.append(swatch);
      }
      li.append(
        element("span", h.text),
        element("small", h.kind === "job" ? "job" : data.types[lanes[h.index]!.type]),
      );
      li.onpointerdown = e => e.preventDefault(); // the field keeps the focus
      li.onclick = () => take(i);
      return li;
    }),
  );
  open(any);
  select(hits.length ? 0 : -1);
  draw();
}

function open(on: boolean): void {
  byId("found").hidden = !on;
  find.setAttribute("aria-expanded", String(on));
}

function select(i: number): void {
  selected = i;
  [...byId("hits").children].forEach((li, k) => li.setAttribute("aria-selected", String(k === i)));
  if (i < 0) return find.removeAttribute("aria-activedescendant");
  find.setAttribute("aria-activedescendant", `hit-${i}`);
  byId("hits").children[i]!.scrollIntoView({ block: "nearest" });
}

function take(i: number): void {
  const h = hits[i];
  if (!h) return;
  select(i);
  open(false);
  if (h.kind === "job") choose(h.index, true);
  else chooseLane(h.index);
}

find.addEventListener("input", search);
find.addEventListener("focus", () => open(find.value.trim() !== ""));
find.addEventListener("blur", () => open(false));
find.addEventListener("keydown", e => {
  const n = hits.length;
  if (e.key === "ArrowDown" && n) select((selected + 1) % n);
  else if (e.key === "ArrowUp" && n) select((selected + n - 1) % n);
  else if (e.key === "Enter") {
    // Pressing Enter again selects the next match.
    if (byId("found").hidden && n) select((selected + 1) % n);
    take(selected);
  } else if (e.key === "Escape") {
    find.value = "";
    search();
    choose(-1);
  } else return;
  e.preventDefault();
});

// Colours: of each job, or of what jobs have in common.

let group = -1; // that stands out

// mark lets a group of jobs stand out; −1: none.
function mark(g: number): void {
  group = g;
  hideTip();
  if (g >= 0) choose(-1);
  state.marked = g < 0 ? null : Uint8Array.from(state.groups.of, v => Number(v === g));
  legend();
  draw();
}

const by = byId<HTMLSelectElement>("by");
by.append(...choices(chart).map(c => element("option", c)));
byId("colour").hidden = by.length < 2;
by.onchange = () => {
  state.groups = groupsOf(chart, by.value as By);
  mark(-1);
};

function swatched(colour: string, text: string): HTMLButtonElement {
  const b = element("button");
  b.type = "button";
  const swatch = element("i");
  swatch.style.background = colour;
  b.append(swatch, element("b", text));
  b.title = text;
  return b;
}

// The legend: jobs or their groups, and then the shades that need an explanation.

function legend(): void {
  const box = byId("legend");
  box.replaceChildren();
  const button = (j: number, text: string) => {
    const b = swatched(painter.fill(j), text);
    b.dataset.job = String(j);
    b.setAttribute("aria-pressed", String(state.pinned === j));
    b.onclick = () => choose(state.pinned === j ? -1 : j);
    b.onmouseenter = () => hover(j);
    b.onmouseleave = () => hover(-1);
    box.append(b);
  };
  const note = (text: string, swatch?: string) => {
    const s = element("span", "");
    if (swatch) {
      const i = element("i");
      i.className = swatch;
      s.append(i);
    }
    s.append(text);
    box.append(s);
  };
  if (state.groups.names.length) {
    state.groups.names.slice(0, MOST_GROUPS).forEach((name, g) => {
      const first = state.groups.of.indexOf(g);
      const b = swatched(painter.fill(first), name);
      b.setAttribute("aria-pressed", String(group === g));
      b.onclick = () => mark(group === g ? -1 : g);
      box.append(b);
    });
    const more = state.groups.names.length - MOST_GROUPS;
    if (more > 0) note(`and ${more.toLocaleString("en")} more, whose colours repeat`);
  } else {
    if (data.legendHead) box.append(element("span", data.legendHead));
    for (const j of data.legend) button(j, jobs[j]!.id);
  }
  if (kinds.sync.some((v, k) => v > 0 && v < kinds.hold[k]! && jobs[kinds.job[k]!]!.sync !== "relaxed"))
    note("paler: synchronising");
  if (lanes.some(l => l.n && planned(data, l, l.n - 1))) note("paler: planned");
  if (data.now !== undefined && lanes.some(l => runsNow(data, l, l.after(data.now!))))
    note("runs now", "running");
  if (kinds.setup.some(v => v > 0)) note("setup of the GPU", "setup");
  if (lanes.some(l => l.n && runsAtZero(jobs, l, 0))) note("runs at time 0", "running");
  if (chart.reserved.length) note("reserved", "reserved");
  if (lanes.some(l => l.away.length)) note("out of service or busy", "away");
  const late = data.late ?? [];
  if (late.length) {
    note("after the deadline", "overdue");
    const [line, s] = [element("span"), element("span", "late:")];
    line.className = "line";
    s.className = "late";
    box.append(line, s);
    for (const j of late.slice(0, MOST_LATE)) button(j, `${jobs[j]!.id} by ${duration(jobs[j]!.late)}`);
    if (late.length > MOST_LATE) note(`and ${late.length - MOST_LATE} more`);
  }
}

legend();
document.documentElement.addEventListener("themechange", () => {
  painter.retheme();
  legend();
  draw();
});
new ResizeObserver(fit).observe(scroller);
fit();
