"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const GUTTER = 118, AXIS = 26, GAP = 10, FIELDS = 8;
const INK = "#1c232e", FAINT = "#5b6675", GROUND = "#f3f5f8", GRID = "#dfe3e9";
const font = (px, bold) => (bold ? "bold " : "") + px + 'px Go,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif';

// Lanes: starts and ends as arrays, the rest by FIELDS numbers a span.
const lanes = D.lanes.map(([gpu, type, away, s]) => {
  const n = s.length / FIELDS, start = new Float64Array(n), end = new Float64Array(n);
  for (let i = 0, t = 0; i < n; i++) {
    const k = i * FIELDS;
    t += s[k + 1];
    start[i] = t * D.unit;
    s[k + 3] *= D.unit; s[k + 4] *= D.unit; s[k + 5] *= D.unit;
    end[i] = start[i] + (s[k + 2] - 1) * s[k + 3] + s[k + 4];
  }
  return {gpu, type, away: away.map(t => t < 0 ? Infinity : t * D.unit), s, n, start, end};
});
const jobs = D.jobs.map(j => ({id: j[0], weight: j[1], sync: j[2], rounds: j[3], tasks: j[4], release: j[5], start: j[6], end: j[7]}));
const colour = j => D.palette[j % D.palette.length];
const light = j => D.lights[j % D.palette.length];

let x0 = 0, x1 = D.end, scroll = 0, rowH = 4, hover = -1, pinned = -1, W = 0, H = 0, pending = false, chosen = false;
const canvas = $("chart"), g = canvas.getContext("2d"), tip = $("tip");
$("title").textContent = D.title;
$("figures").textContent = D.figures;
$("size").textContent = D.size;
canvas.setAttribute("aria-label", "Gantt chart: " + D.figures + " " + D.size);

// The top of each lane and of its group, in rows' pixels.
let tops = [], total = 0, groups = [];
function stack() {
  tops = []; groups = []; total = 0;
  let last = -1;
  lanes.forEach((l, i) => {
    if (l.type !== last) {
      if (last >= 0) total += GAP;
      groups.push({type: l.type, from: i, y: total});
      last = l.type;
    }
    tops.push(total);
    total += rowH;
  });
  groups.forEach((a, i) => a.h = (i + 1 < groups.length ? groups[i + 1].y - GAP : total) - a.y);
}

function later() {
  if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; draw(); }); }
}

function clamp() {
  const span = Math.min(Math.max(x1 - x0, Math.min(D.end, 20)), D.end * 1.02);
  if (x0 < -span * 0.02) x0 = -span * 0.02;
  if (x0 + span > D.end * 1.02) x0 = Math.max(0, D.end * 1.02 - span);
  x1 = x0 + span;
  scroll = Math.max(0, Math.min(scroll, total - (H - AXIS)));
}

const px = t => GUTTER + (t - x0) / (x1 - x0) * (W - GUTTER);
const time = x => x0 + (x - GUTTER) / (W - GUTTER) * (x1 - x0);
// The first index whose value is above v.
function above(a, n, v) {
  let lo = 0, hi = n;
  while (lo < hi) { const m = (lo + hi) >> 1; if (a[m] > v) hi = m; else lo = m + 1; }
  return lo;
}

function draw() {
  const dpr = window.devicePixelRatio || 1;
  W = canvas.clientWidth; H = canvas.clientHeight;
  if (canvas.width !== Math.round(W * dpr) || canvas.height !== Math.round(H * dpr)) {
    canvas.width = Math.round(W * dpr); canvas.height = Math.round(H * dpr);
  }
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.clearRect(0, 0, W, H);
  clamp();
  const bottom = Math.min(H - AXIS, total), marks = ticks(x0, x1, Math.max(2, Math.floor((W - GUTTER) / 95)));
  g.save();
  g.beginPath(); g.rect(0, 0, W, bottom); g.clip();
  for (const a of groups) {
    g.fillStyle = GROUND;
    g.fillRect(GUTTER, a.y - scroll, W - GUTTER, a.h);
    const top = Math.max(0, a.y - scroll), mid = (top + Math.min(bottom, a.y + a.h - scroll)) / 2;
    g.textAlign = "left"; g.fillStyle = INK; g.font = font(12.5, true);
    g.fillText(D.types[a.type], 0, mid + 1, 62);
    if (a.h > 28) { g.fillStyle = FAINT; g.font = font(11); g.fillText("× " + D.counts[a.type], 0, mid + 15, 62); }
  }
  g.fillStyle = GRID;
  for (const m of marks) g.fillRect(Math.round(px(m.t)) - 0.5, 0, 1, bottom);
  const focus = pinned >= 0 ? pinned : hover;
  for (let i = 0; i < lanes.length; i++) {
    const y = tops[i] - scroll;
    if (y + rowH < 0) continue;
    if (y > bottom) break;
    drawLane(lanes[i], y, focus);
  }
  g.restore();
  g.textAlign = "center"; g.font = font(11); g.fillStyle = FAINT;
  for (const m of marks) if (px(m.t) >= GUTTER - 1) g.fillText(m.label, px(m.t), bottom + 17);
}

function drawLane(l, y, focus) {
  const inset = rowH >= 14 ? 2 : rowH >= 8 ? 1 : rowH >= 4 ? 0.5 : 0, top = y + inset, h = rowH - 2 * inset, right = W;
  if (rowH >= 11) {
    g.textAlign = "right"; g.font = font(10); g.fillStyle = FAINT;
    g.fillText(l.gpu.length > 16 ? "…" + l.gpu.slice(-15) : l.gpu, GUTTER - 7, y + rowH / 2 + 3.5, 60);
  }
  for (let i = 0; i < l.away.length; i += 2) {
    const a = Math.max(GUTTER, px(l.away[i])), b = Math.min(right, px(l.away[i + 1]));
    if (b > a) { g.fillStyle = hatch; g.fillRect(a, y, b - a, rowH); }
  }
  let drawn = GUTTER, labelled = -1, labelEnd = -1;
  const ends = l.end, from = above(ends, l.n, x0);
  for (let i = from; i < l.n && l.start[i] < x1; i++) {
    const k = i * FIELDS, job = l.s[k], rounds = l.s[k + 2], period = l.s[k + 3];
    const last = px(ends[i]);
    if (last < drawn + 0.4 && focus !== job) continue; // under a bar already drawn
    const dim = focus >= 0 && focus !== job;
    g.globalAlpha = dim ? (pinned >= 0 ? 0.15 : 0.35) : 1;
    const wide = period / (x1 - x0) * (W - GUTTER);
    let a = Math.max(GUTTER, px(l.start[i]));
    if (rounds > 1 && wide >= 9) {
      let r = Math.max(0, Math.floor((x0 - l.start[i]) / period));
      for (; r < rounds; r++) {
        const t = l.start[i] + r * period;
        if (t > x1) break;
        piece(l, k, job, t, top, h, right);
      }
    } else if (rounds === 1) {
      piece(l, k, job, l.start[i], top, h, right);
    } else {
      g.fillStyle = colour(job);
      g.fillRect(a, top, Math.max(0.5, Math.min(right, last) - a), h);
    }
    drawn = Math.max(drawn, last);
    if (rowH >= 11 && (labelled !== job || a > labelEnd + 3)) {
      let e = i; // how far the job goes on without a break
      while (e + 1 < l.n && l.s[(e + 1) * FIELDS] === job && px(l.start[e + 1]) - px(ends[e]) < 3 && px(ends[e]) < right) e++;
      const room = Math.min(right, px(ends[e])) - a - 8;
      labelled = job; labelEnd = px(ends[e]);
      if (room > 14) {
        g.font = font(10);
        let s = jobs[job].id;
        if (s.length > 80) s = s.slice(0, 79) + "…";
        if (g.measureText(s).width <= room) labels.push([s, a + 4, top + h / 2 + 3.5, dim ? INK : D.inks[job % D.palette.length], dim]);
      }
    }
  }
  for (const [s, x, ty, shade, dim] of labels) {
    g.globalAlpha = dim ? 0.3 : 1; g.textAlign = "left"; g.font = font(10); g.fillStyle = shade;
    g.fillText(s, x, ty);
  }
  labels.length = 0;
  g.globalAlpha = 1;
}
const labels = [];

// One round: compute, then lighter what the GPU is held for to synchronise.
function piece(l, k, job, t, top, h, right) {
  const hold = l.s[k + 4], sync = l.s[k + 5], a = Math.max(GUTTER, px(t));
  let b = Math.min(right, px(t + hold));
  const whole = b - a;
  if (whole >= 4) b -= 0.6;
  if (whole <= 0) return;
  const c = px(t + hold - sync);
  if (jobs[job].sync !== "relaxed" && sync > 0 && sync < hold && whole >= 4 && b - c >= 1) {
    g.fillStyle = light(job); g.fillRect(Math.max(a, c), top, b - Math.max(a, c), h);
    b = c;
  }
  if (b > a) { g.fillStyle = colour(job); g.fillRect(a, top, Math.max(0.4, b - a), h); }
}

const hatch = (() => {
  const p = document.createElement("canvas"); p.width = p.height = 8;
  const q = p.getContext("2d");
  q.fillStyle = "#e6e9ee"; q.fillRect(0, 0, 8, 8);
  q.strokeStyle = "#b4bcc8"; q.lineWidth = 1.4;
  q.beginPath(); q.moveTo(-2, 2); q.lineTo(2, -2); q.moveTo(-2, 10); q.lineTo(10, -2); q.moveTo(6, 10); q.lineTo(10, 6); q.stroke();
  return g.createPattern(p, "repeat");
})();

const S = 1e6, STEPS = [];
for (let u = 1; u < S; u *= 10) STEPS.push(u, 2 * u, 5 * u);
for (const s of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]) STEPS.push(s * S);
for (let d = 86400; d < 1e11; d *= 10) STEPS.push(d * S, 2 * d * S, 5 * d * S);
function ticks(from, to, most) {
  const step = STEPS.find(s => (to - from) / s <= most) || STEPS[STEPS.length - 1], out = [];
  for (let t = Math.max(0, Math.ceil(from / step) * step); t <= to; t += step) out.push({t, label: text(t, step)});
  return out;
}
// t to a precision of step microseconds, in at most two units.
function text(t, step) {
  if (t === 0) return "0";
  const two = (a, u, b, v) => b ? a + " " + u + " " + b + " " + v : a + " " + u;
  const digits = Math.max(0, Math.ceil(6 - Math.log10(step) - 1e-9)), s = t / S;
  if (s < 60 || step < S && s < 600) return step < S ? +s.toFixed(digits) + " s" : Math.round(s) + " s";
  if (s < 3600 || step < S) return two(Math.floor(s / 60), "min", +(s % 60).toFixed(digits), "s");
  if (s < 172800) {
    if (step < 60 * S) return Math.floor(s / 3600) + " h " + two(Math.floor(s % 3600 / 60), "min", Math.round(s % 60), "s");
    return two(Math.floor(s / 3600), "h", Math.floor(s % 3600 / 60), "min");
  }
  if (step < 3600 * S) return Math.floor(s / 86400) + " d " + two(Math.floor(s % 86400 / 3600), "h", Math.floor(s % 3600 / 60), "min");
  return two(Math.floor(s / 86400), "d", Math.floor(s % 86400 / 3600), "h");
}
const exact = t => text(t, (x1 - x0) < 600 * S ? 1000 : (x1 - x0) < 86400 * S ? S : 60 * S);

function at(x, y) {
  if (x < GUTTER || y > Math.min(H - AXIS, total)) return null;
  const i = above(tops, tops.length, y + scroll) - 1, l = lanes[i];
  if (!l || y + scroll > tops[i] + rowH) return null;
  const t = time(x), slack = (x1 - x0) / (W - GUTTER), k = above(l.start, l.n, t + slack) - 1;
  if (k >= 0 && l.end[k] + slack >= t) return {l, k, t};
  return {l, k: -1, t};
}

function point(e) {
  const box = canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top, hit = at(x, y);
  const job = hit && hit.k >= 0 ? hit.l.s[hit.k * FIELDS] : -1;
  if (job !== hover) { hover = job; later(); }
  if (!hit) { tip.hidden = true; return; }
  tip.textContent = describe(hit, job);
  tip.hidden = !tip.textContent;
  const tw = tip.offsetWidth, th = tip.offsetHeight;
  tip.style.left = Math.max(0, Math.min(x + 14, W - tw)) + "px";
  tip.style.top = (y + 16 + th > H ? Math.max(0, y - th - 10) : y + 16) + "px";
}

function describe({l, k, t}, job) {
  if (job < 0) {
    for (let i = 0; i < l.away.length; i += 2) if (t >= l.away[i] && t < l.away[i + 1]) return l.gpu + " · out of service or busy";
    return l.gpu + " · idle";
  }
  const o = k * FIELDS, j = jobs[job], rounds = l.s[o + 2], period = l.s[o + 3], hold = l.s[o + 4];
  const r = rounds > 1 && period > 0 ? Math.max(0, Math.min(rounds - 1, Math.floor((t - l.start[k]) / period))) : 0;
  const from = l.start[k] + r * period, n = l.s[o + 7];
  return j.id + "\nround " + (l.s[o + 6] + r + 1) + " of " + j.rounds + (n > 1 ? ", " + n + " of its " + j.tasks + " tasks here" : "") +
    "\n" + l.gpu + " · " + D.types[l.type] + "\n" + exact(from) + " to " + exact(from + hold) + " (" + text(hold, hold < S ? 1 : 1000) + ")" +
    "\njob: " + j.sync + ", weight " + j.weight + (j.release ? ", arrives " + exact(j.release) : "") + ", runs " + exact(j.start) + " to " + exact(j.end);
}

function zoom(factor, x) {
  const t = time(x === undefined ? (GUTTER + W) / 2 : Math.max(GUTTER, x)), share = (t - x0) / (x1 - x0);
  const span = Math.min(Math.max((x1 - x0) * factor, Math.min(D.end, 20)), D.end * 1.02);
  x0 = t - share * span; x1 = x0 + span;
  later();
}
function all() { x0 = 0; x1 = D.end; scroll = 0; later(); }
function rows(h) {
  scroll *= h / rowH;
  rowH = h;
  stack(); later();
}
function pan(dx, dy) { const dt = dx / (W - GUTTER) * (x1 - x0); x0 += dt; x1 += dt; scroll += dy; later(); }

canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const unit = e.deltaMode === 1 ? 30 : 1;
  if (e.shiftKey) pan(0, (e.deltaY || e.deltaX) * unit);
  else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX * unit, 0);
  else zoom(Math.exp(e.deltaY * unit * 0.0016), e.clientX - canvas.getBoundingClientRect().left);
}, {passive: false});
const touches = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", e => { touches.set(e.pointerId, [e.clientX, e.clientY]); moved = 0; canvas.setPointerCapture(e.pointerId); canvas.classList.add("drag"); });
canvas.addEventListener("pointermove", e => {
  const was = touches.get(e.pointerId);
  if (!was) { point(e); return; }
  const dx = e.clientX - was[0], dy = e.clientY - was[1];
  if (touches.size === 2) { // pinch
    const other = [...touches].find(([id]) => id !== e.pointerId)[1];
    const d0 = Math.hypot(was[0] - other[0], was[1] - other[1]), d1 = Math.hypot(e.clientX - other[0], e.clientY - other[1]);
    if (d0 > 0 && d1 > 0) zoom(d0 / d1, (e.clientX + other[0]) / 2 - canvas.getBoundingClientRect().left);
  } else pan(-dx, -dy);
  moved += Math.abs(dx) + Math.abs(dy);
  tip.hidden = true;
  touches.set(e.pointerId, [e.clientX, e.clientY]);
});
const release = e => {
  if (touches.delete(e.pointerId) && e.type === "pointerup" && moved < 4) { point(e); pin(hover === pinned ? -1 : hover); }
  if (!touches.size) canvas.classList.remove("drag");
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (hover >= 0) { hover = -1; later(); } });
canvas.addEventListener("dblclick", all);
canvas.addEventListener("keydown", e => {
  const step = (W - GUTTER) / 8;
  const act = {ArrowLeft: () => pan(-step, 0), ArrowRight: () => pan(step, 0), ArrowUp: () => pan(0, -60), ArrowDown: () => pan(0, 60),
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), "0": all, Escape: () => pin(-1)}[e.key];
  if (act && !e.ctrlKey && !e.metaKey) { act(); e.preventDefault(); }
});
$("in").onclick = () => zoom(0.6);
$("out").onclick = () => zoom(1 / 0.6);
$("all").onclick = all;
$("rowh").oninput = e => { chosen = true; rows(+e.target.value); };

function pin(job, show) {
  pinned = job;
  for (const b of $("legend").querySelectorAll("button")) b.setAttribute("aria-pressed", b.dataset.job === String(job));
  if (job >= 0 && show) { // bring it into view
    const j = jobs[job], span = Math.max(j.end - j.start, 1);
    x0 = j.start - span * 0.15; x1 = j.end + span * 0.15;
    const i = lanes.findIndex(l => { for (let k = 0; k < l.n; k++) if (l.s[k * FIELDS] === job) return true; return false; });
    if (i >= 0 && (tops[i] < scroll || tops[i] > scroll + H - AXIS - rowH)) scroll = tops[i] - 40;
  }
  later();
}
let found = -1;
$("find").addEventListener("keydown", e => {
  if (e.key === "Escape") { e.target.value = ""; pin(-1); }
  if (e.key !== "Enter") { found = -1; return; }
  const q = e.target.value.trim().toLowerCase();
  if (!q) return;
  for (let n = 1; n <= jobs.length; n++) {
    const j = (found + n) % jobs.length;
    if (jobs[j].id.toLowerCase().includes(q)) { found = j; pin(j, true); e.target.setCustomValidity(""); return; }
  }
  e.target.setCustomValidity("no job has this in its id"); e.target.reportValidity();
});
$("find").addEventListener("input", e => e.target.setCustomValidity(""));

function legend() {
  const box = $("legend");
  if (D.legendHead) { const s = document.createElement("span"); s.textContent = D.legendHead; box.append(s); }
  for (const j of D.legend) {
    const b = document.createElement("button"), i = document.createElement("i"), t = document.createElement("b");
    i.style.background = colour(j); t.textContent = jobs[j].id; b.title = jobs[j].id; b.dataset.job = j;
    b.append(i, t);
    b.onclick = () => pin(pinned === j ? -1 : j);
    b.onmouseenter = () => { hover = j; later(); };
    b.onmouseleave = () => { hover = -1; later(); };
    box.append(b);
  }
}
legend();
// Until the height of rows is chosen, all rows fit the window where they can.
function fit() {
  if (!chosen) {
    rowH = Math.max(1, Math.min(22, Math.floor(4 * (canvas.clientHeight - AXIS - GAP * (D.types.length - 1)) / Math.max(1, lanes.length)) / 4));
    $("rowh").value = rowH;
    stack();
  }
  later();
}
fit();
new ResizeObserver(fit).observe(canvas);
draw();
})();
