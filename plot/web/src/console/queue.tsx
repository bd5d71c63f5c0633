// The table of jobs: filters, order, groups, columns, and rows that stay where they are.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { memo } from "./memo.js";
import { now as serverNow } from "./api.js";
import { State, useNow, useWatched, useWidth } from "./parts.js";
import { isActive, type Row } from "./jobs.js";
import { link, queryOf, viewOf, type Route } from "./route.js";
import type { ClusterStore } from "./store.js";
import {
  changes,
  column,
  COLUMNS,
  type Column,
  exactly,
  filtered,
  type Group,
  grouped,
  GROUPS,
  isGroup,
  type Item,
  NARROW,
  sort,
  testOf,
  type View,
  WIDE,
} from "./table.js";
import { ago, ahead, clock, count, figure, notBefore, whole } from "./words.js";

const ROW = 34;
const AROUND = 8; // rows beyond the visible ones

// cell shows the value of a column for people.
function cell(r: Row, c: Column, now: number, narrow: boolean): string {
  if (narrow && (c.key === "start" || c.key === "end")) {
    const t = c.of(r) as number;
    const about = c.key === "end" ? isActive(r.state) : !r.started;
    return isNaN(t) ? "" : (about ? "about " : "") + clock(t, now);
  }
  switch (c.key) {
    case "gpus":
      return r.gpus ? String(r.gpus) : "shared";
    case "weight":
      return figure(r.weight);
    case "submitted":
      return ago(r.submitted, now);
    case "place":
      return isNaN(r.place) ? "" : whole(r.place);
    case "start":
      return isNaN(r.start)
        ? ""
        : r.started
          ? `${ago(r.start, now)}, ${clock(r.start, now)}`
          : ahead(r.start, now);
    case "end":
      if (isNaN(r.end)) return "";
      return isActive(r.state) ? ahead(r.end, now) : `${ago(r.end, now)}, ${clock(r.end, now)}`;
    case "earliest":
      return isNaN(r.earliest) ? "" : notBefore(r.earliest, now);
    default:
      return String(c.of(r));
  }
}

const CHOICES = new Set(["user", "state", "type", "name"]); // whose cells have a button that filters

interface LineProps {
  row: Row;
  columns: readonly Column[];
  cluster: string;
  index: number;
  now: number;
  narrow: boolean;
  filter(key: string, value: string): void;
}

const Line = memo(({ row: r, columns, cluster, index, now, narrow, filter }: LineProps) => (
  <tr aria-rowindex={index + 2} data-id={r.id}>
    {columns.map((c, i) => {
      const text = cell(r, c, now, narrow);
      return (
        <td key={c.key} class={`${c.kind} ${c.key}`} title={text.length > 12 ? text : undefined}>
          {i === 0 ? (
            <a href={link(cluster, "job", r.id)}>{text || r.id}</a>
          ) : c.key === "state" ? (
            <State of={r.state} />
          ) : (
            <bdi>{text}</bdi>
          )}
          {CHOICES.has(c.key) && text && (
            <button
              type="button"
              class="only"
              tabIndex={-1}
              title={`Only ${text}`}
              aria-label={`Only ${c.head.toLowerCase()} ${text}`}
              onClick={() => filter(c.key, exactly(String(c.of(r))))}
            >
              ⧩
            </button>
          )}
        </td>
      );
    })}
  </tr>
));

function Head({
  g,
  span,
  index,
  toggle,
}: {
  g: Group;
  span: number;
  index: number;
  toggle(group: string): void;
}) {
  return (
    <tr class="group" aria-rowindex={index + 2}>
      <th colSpan={span} scope="rowgroup">
        <button type="button" aria-expanded={g.open} onClick={() => toggle(g.group)}>
          <span aria-hidden="true">{g.open ? "▾" : "▸"}</span> <bdi>{g.group || "none"}</bdi>
        </button>
        <span class="soft">
          {count(g.jobs, "job")}, {count(g.gpus, "GPU")}
        </span>
      </th>
    </tr>
  );
}

export function Queue({ store, route }: { store: ClusterStore; route: Route }) {
  useWatched(store);
  const now = useNow();
  const width = useWidth();
  const query = route.query.toString();
  const view = useMemo(() => viewOf(route.query), [query]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const narrow = width < 620;
  const usual = narrow ? NARROW : WIDE;
  const columns = useMemo(
    () => (view.columns.length ? view.columns : usual).map(k => column(k)!),
    [view.columns.join(), usual],
  );

  const latest = useRef(view);
  latest.current = view;
  const change = (next: Partial<View>) => {
    const q = queryOf({ ...latest.current, ...next });
    history.replaceState(null, "", link(store.name, "queue", "", q));
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const filter = (key: string, text: string) => {
    const filters = { ...latest.current.filters, [key]: text };
    if (!text) delete filters[key];
    change({ filters });
  };

  // What the store would show now, beside what is shown. Under a pointer, or while a row has the
  // focus, the shown rows stay; a new view is shown at once.
  const over = useRef(false);
  const focused = useRef(false);
  const shown = useRef<{ view: unknown; items: Item[] }>({ view: null, items: [] });
  const [, again] = useState(0);
  const asked = `${query} ${[...open].join("\n")}`;
  const version = store.version;
  const fresh = useMemo(() => {
    const rows = sort(filtered([...store.rows.values()], view, serverNow()), view.sort);
    const items = grouped(rows, view.group, open);
    return { items, jobs: rows.length };
  }, [version, asked]);
  const held = over.current || focused.current;
  let waiting = 0;
  if (shown.current.view !== asked || !held || !shown.current.items.length)
    shown.current = { view: asked, items: fresh.items };
  else if (shown.current.items !== fresh.items) waiting = changes(shown.current.items, fresh.items);
  if (held && !waiting && shown.current.items.length === fresh.items.length)
    shown.current.items = fresh.items; // nothing has moved
  const items = shown.current.items;
  const release = () => {
    shown.current.view = null;
    again(n => n + 1);
  };

  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const box = body.current!;
    const see = new ResizeObserver(() => setHeight(box.clientHeight));
    see.observe(box);
    return () => see.disconnect();
  }, []);
  useEffect(() => {
    if (body.current) body.current.scrollTop = 0;
  }, [asked]);
  const from = Math.max(0, Math.min(Math.floor(top / ROW) - AROUND, items.length));
  const to = Math.min(items.length, Math.ceil((top + height) / ROW) + AROUND);

  const keys = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (!step || !(e.target as HTMLElement).closest("tbody")) return;
    const line = (e.target as HTMLElement).closest("tr")!;
    const at = Number(line.ariaRowIndex) - 2 + step;
    if (at < 0 || at >= items.length) return;
    e.preventDefault();
    const box = body.current!;
    const y = at * ROW;
    if (y < box.scrollTop + 2 * ROW) box.scrollTop = Math.max(0, y - 2 * ROW);
    else if (y > box.scrollTop + box.clientHeight - 4 * ROW) box.scrollTop = y - box.clientHeight + 4 * ROW;
    setTop(box.scrollTop);
    const next = () => box.querySelector<HTMLElement>(`tr[aria-rowindex="${at + 2}"] :is(a, button)`);
    // A row that has not been drawn yet is there in the next frame.
    const go = (e: HTMLElement | null) => e?.focus({ preventScroll: true });
    if (next()) go(next());
    else requestAnimationFrame(() => go(next()));
  };

  const widthOf = (c: Column) =>
    narrow && c.kind === "future" ? 104 : narrow && c.key === "name" ? 140 : c.width;
  const wide = columns.reduce((n, c) => n + widthOf(c), 0);
  const filters = Object.keys(view.filters).length + (view.q ? 1 : 0);
  return (
    <div class="queue">
      <div class="tools">
        <input
          type="search"
          value={view.q}
          placeholder="Search id, name, user, command, label"
          aria-label="Search jobs"
          onInput={e => change({ q: e.currentTarget.value })}
        />
        <label>
          group{" "}
          <select value={view.group} onChange={e => change({ group: e.currentTarget.value })}>
            <option value="">none</option>
            {GROUPS.map(g => (
              <option key={g} value={g}>
                {g}
              </option>
            ))}
          </select>
        </label>
        <details class="menu">
          <summary>columns</summary>
          <fieldset>
            <legend class="hidden">Columns</legend>
            {COLUMNS.map(c => {
              const on = columns.includes(c);
              return (
                <label key={c.key}>
                  <input
                    type="checkbox"
                    checked={on}
                    onChange={() => {
                      const next = COLUMNS.filter(d => (d === c ? !on : columns.includes(d))).map(d => d.key);
                      if (next.length) change({ columns: next.join() === usual.join() ? [] : next });
                    }}
                  />{" "}
                  {c.head}
                </label>
              );
            })}
          </fieldset>
        </details>
        {filters > 0 && (
          <button type="button" onClick={() => change({ q: "", filters: {} })}>
            clear {count(filters, "filter")}
          </button>
        )}
        {waiting > 0 && (
          <button type="button" class="fresh" onClick={release}>
            {count(waiting, "change")}
          </button>
        )}
        <p class="soft" role="status">
          {fresh.jobs === store.rows.size
            ? count(fresh.jobs, "job")
            : `${whole(fresh.jobs)} of ${count(store.rows.size, "job")}`}
          {store.complete ? "" : ", more are loading"}
          {store.older > 0 &&
            `; ${count(store.older, "older job")} that ended ${store.older === 1 ? "is" : "are"} not shown`}
        </p>
      </div>
      <div
        class="scroll"
        ref={body}
        tabIndex={0}
        role="region"
        aria-label="Jobs"
        onScroll={e => setTop(e.currentTarget.scrollTop)}
        onKeyDown={keys}
      >
        <table aria-rowcount={items.length + 1} style={{ minWidth: `${wide}px` }}>
          <colgroup>
            {columns.map(c => (
              <col key={c.key} style={{ width: `${widthOf(c)}px` }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {columns.map(c => (
                <Header key={c.key} c={c} view={view} now={now} change={change} filter={filter} />
              ))}
            </tr>
          </thead>
          <tbody
            onPointerEnter={e => (over.current = e.pointerType === "mouse")}
            onPointerLeave={() => {
              over.current = false;
              again(n => n + 1);
            }}
            onFocusIn={() => (focused.current = true)}
            onFocusOut={e => {
              focused.current = e.currentTarget.contains(e.relatedTarget as Node | null);
              if (!focused.current) again(n => n + 1);
            }}
          >
            {from > 0 && <tr class="space" aria-hidden="true" style={{ height: `${from * ROW}px` }} />}
            {items.slice(from, to).map((item, i) =>
              isGroup(item) ? (
                <Head
                  key={"group " + item.group}
                  g={item}
                  span={columns.length}
                  index={from + i}
                  toggle={g => {
                    const next = new Set(open);
                    if (!next.delete(g)) next.add(g);
                    setOpen(next);
                  }}
                />
              ) : (
                <Line
                  key={item.id}
                  row={item}
                  columns={columns}
                  cluster={store.name}
                  index={from + i}
                  now={now}
                  narrow={narrow}
                  filter={filter}
                />
              ),
            )}
            {to < items.length && (
              <tr class="space" aria-hidden="true" style={{ height: `${(items.length - to) * ROW}px` }} />
            )}
          </tbody>
        </table>
        {items.length === 0 && (
          <p class="none">{!store.loaded ? "Loading …" : filters ? "No job matches." : "No jobs yet."}</p>
        )}
      </div>
    </div>
  );
}

interface HeaderProps {
  c: Column;
  view: View;
  now: number;
  change(next: Partial<View>): void;
  filter(key: string, text: string): void;
}

function Header({ c, view, now, change, filter }: HeaderProps) {
  const sorted = view.sort === c.key ? "ascending" : view.sort === "-" + c.key ? "descending" : undefined;
  const next = sorted === undefined ? c.key : sorted === "ascending" ? "-" + c.key : "";
  const text = view.filters[c.key] ?? "";
  const bad = text !== "" && !testOf(c, text, now);
  return (
    <th scope="col" class={c.kind} aria-sort={sorted ?? "none"}>
      <button type="button" onClick={() => change({ sort: next })}>
        {c.head}
        <span aria-hidden="true">{sorted === "ascending" ? " ↑" : sorted === "descending" ? " ↓" : ""}</span>
      </button>
      <input
        value={text}
        placeholder="filter"
        title={c.hint}
        aria-label={`Filter ${c.head}: ${c.hint}`}
        aria-invalid={bad}
        spellcheck={false}
        autocomplete="off"
        onInput={e => filter(c.key, e.currentTarget.value)}
      />
    </th>
  );
}
