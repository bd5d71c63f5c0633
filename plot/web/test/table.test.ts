import assert from "node:assert/strict";
import { test } from "node:test";
import { type Plan, planned, type Row, rowOf } from "../src/console/jobs.js";
import { link, parse, queryOf, viewOf } from "../src/console/route.js";
import { changes, column, exactly, filtered, grouped, isGroup, sort, testOf } from "../src/console/table.js";

const now = Date.parse("2026-11-25T12:00:00Z");
const typeOf = (gpu: string) => (gpu.startsWith("a/") ? "V100" : undefined);

function row(id: number, more: object = {}): Row {
  return rowOf({ id: `j${id}`, state: "waiting", submitted: "2026-11-25T11:00:00Z", ...more }, now, typeOf);
}

const jobs = () => [
  row(1, { name: "night", user: "ann", state: "running", gpus: 4, started: "2026-11-25T11:30:00Z" }),
  row(2, { name: "bert", user: "bob", gpus: 2, expected_in_s: 7200, on: { V100: 60, T4: 90 } }),
  row(3, { name: "Night-2", user: "ann", gpus: 16, expected_in_s: 600, labels: { team: "vision" } }),
  row(4, {
    command: ["python", "train.py"],
    state: "failed",
    started: "2026-11-25T11:10:00Z",
    ended: "2026-11-25T11:20:00Z",
  }),
];
const ids = (rows: Row[]) => rows.map(r => r.num);
const view = (query: string) => viewOf(new URLSearchParams(query));

test("rows have what the server says, and what it leaves out", () => {
  const [running, waits, , failed] = jobs() as [Row, Row, Row, Row];
  assert.equal(waits.start, now + 7200e3);
  assert.equal(waits.on, "V100 or T4");
  assert.equal(running.started, true);
  assert.ok(isNaN(running.end));
  assert.equal(failed.name, "python train.py");
  const task = { task: 0, agent: "a", gpus: ["a/0", "a/1"], state: "running" };
  const r = row(5, {
    state: "running",
    attempts: [{ attempt: 1, ordered: "", tasks: [task] }],
    on: { T4: 1 },
  });
  assert.deepEqual([r.on, r.where], ["V100", ["a/0", "a/1"]]);
});

test("a plan fills in what jobs lack", () => {
  const r = row(7);
  const plan = { at_s: 100 } as Plan;
  const job = {
    job: "j7",
    running: false,
    types: ["T4"],
    start_s: 160,
    end_s: null,
    earliest_end_s: 400,
    waits_for: "2 T4 busy",
  };
  planned(r, job, plan, now);
  assert.deepEqual([r.start, r.earliest, r.on, r.short], [now + 60e3, now + 300e3, "T4", "2 T4 busy"]);
  assert.ok(isNaN(r.end));
});

test("filters of every kind", () => {
  for (const [query, want] of [
    ["q=NIGHT", [1, 3]],
    ["q=vision", [3]],
    ["user=ann", [1, 3]],
    ["user=!ann", [2, 4]],
    ["name=%3Dnight", [1]],
    ["state=%3Drunning|%3Dfailed", [1, 4]],
    ["gpus=>2", [1, 3]],
    ["gpus=2-4", [1, 2]],
    ["start=<1h&state=waiting", [3]],
    ["submitted=<30m", []],
    ["type=v100", [2]],
    ["gpus=many", [1, 2, 3, 4]], // what is not understood asks nothing
  ] as const)
    assert.deepEqual(ids(filtered(jobs(), view(query), now)), want, query);
  assert.equal(testOf(column("gpus")!, "many", now), undefined);
});

test("order: numbers, texts, states, the unknown last, ties by submission", () => {
  assert.deepEqual(ids(sort(jobs(), "")), [3, 2, 1, 4]);
  assert.deepEqual(ids(sort(jobs(), "gpus")), [4, 2, 1, 3]);
  assert.deepEqual(ids(sort(jobs(), "-gpus")), [3, 1, 2, 4]);
  assert.deepEqual(ids(sort(jobs(), "name")), [2, 1, 3, 4]);
  assert.deepEqual(ids(sort(jobs(), "user")), [1, 3, 2, 4]);
  assert.deepEqual(ids(sort(jobs(), "-end"))[0], 4);
  assert.deepEqual(ids(sort([row(12), row(9)], "weight")), [9, 12]);
});

test("groups have counts, and show rows where they are open", () => {
  const items = grouped(sort(jobs(), "id"), "user", new Set(["ann"]));
  assert.deepEqual(
    items.map(i => (isGroup(i) ? `${i.group || "none"} ${i.jobs} ${i.gpus}` : i.id)),
    ["ann 2 20", "j1", "j3", "none 1 1", "bob 1 2"],
  );
});

test("changes are counted, and none where rows are the same", () => {
  assert.equal(changes(jobs(), jobs()), 0);
  assert.equal(changes(jobs(), [...jobs(), row(5)]), 1);
  assert.equal(changes(jobs(), jobs().slice(1)), 1);
  assert.equal(changes(jobs(), [jobs()[1]!, jobs()[0]!, ...jobs().slice(2)]), 2);
});

test("a value that is chosen is the only one that passes", () => {
  const names = ["a|b", "a", "b", "c\\", "c\\|b", " a|b ", "=a", "!a"];
  const rows = names.map((name, i) => row(i, { name }));
  for (const name of names) {
    const passes = filtered(rows, { ...view(""), filters: { name: exactly(name) } }, now).map(r => r.name);
    assert.deepEqual(passes, names.filter(n => n.trim() === name.trim()), name); // prettier-ignore
  }
});

test("what has happened is not within an hour", () => {
  const found = (query: string) => ids(filtered(jobs(), view(query), now));
  const ended = row(5, {
    state: "succeeded",
    started: "2026-11-25T11:10:00Z",
    ended: "2026-11-25T11:59:00Z",
  });
  for (const query of ["end=<1h", "end=>0m", "start=<1h"])
    assert.deepEqual(ids(filtered([ended], view(query), now)), [], query);
  assert.deepEqual(found("start=<1h"), [3]);
});

test("100,000 rows are filtered and sorted quickly", () => {
  const rows = Array.from({ length: 100_000 }, (_, i) =>
    row(i + 1, { name: `job-${i % 977}`, user: `u${i % 31}`, expected_in_s: (i * 7919) % 100_000 }),
  );
  const began = performance.now();
  const found = sort(filtered(rows, view("q=job-9&user=u3"), now), "start");
  const took = performance.now() - began;
  assert.ok(found.length > 500 && took < 500, `${took} ms for ${found.length}`);
});

test("addresses", () => {
  const v = view("q=night&user=ann&sort=-gpus&group=state&columns=id,name,bad");
  assert.deepEqual(v, {
    q: "night",
    filters: { user: "ann" },
    sort: "-gpus",
    group: "state",
    columns: ["id", "name"],
  });
  assert.deepEqual(view(queryOf(v)), v);
  for (const [page, id] of [
    ["overview", ""],
    ["queue", ""],
    ["job", "j 1/2"],
    ["solve", "x"],
    ["sessions", ""],
  ] as const) {
    const r = parse(link("my lab", page, id, "q=a"));
    assert.deepEqual([r.page, r.id, r.query.get("q")], [page, id, "a"]);
  }
  assert.equal(parse("#/reports/capacity/4f6k").id, "capacity/4f6k");
  assert.equal(parse(link("a/b", "queue")).cluster, "a/b");
  assert.equal(parse("#/c/%E0%A4%A/queue").cluster, "%E0%A4%A"); // no escape
});
