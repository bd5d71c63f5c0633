// The first screen of a cluster: is it well, what waits and until when, how good is it.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Chart, useChart } from "./gantt.js";
import { faulty, faultsOf, goodness, planAge, queueLine, useOf, waiters, wellness } from "./health.js";
import { Figure, Panel, State, Table, useNow, useTheme, useWatched, useWidth } from "./parts.js";
import type { Row } from "./jobs.js";
import { link } from "./route.js";
import type { Agent, ClusterStore, Minute } from "./store.js";
import { exactly, sort } from "./table.js";
import { ago, ahead, count, notBefore, whole } from "./words.js";
import { lines } from "./lines.js";

// madeAt is when the plan was made; NaN where there is none.
export function madeAt(store: ClusterStore): number {
  const { plan, session } = store;
  if (plan?.made_at_s == null || session?.clock !== "server") return NaN;
  return Date.parse(session.created) + plan.made_at_s * 1e3;
}

export function Overview({ store }: { store: ClusterStore }) {
  useWatched(store);
  const now = useNow(2000);
  const chart = useChart(store);
  const width = useWidth();
  const { doc, agents, plan } = store;
  const well = wellness(store);
  const faults = faultsOf(agents, now);
  const drained = agents.filter(a => a.state === "draining" || a.state === "drained");
  const quarantined = agents.flatMap(a => a.devices).filter(faulty).length;
  const use = useOf(agents);
  const rows = useMemo(() => [...store.rows.values()], [store.version]);
  const waiting = useMemo(
    () =>
      sort(
        rows.filter(r => r.state === "waiting"),
        "start",
      ),
    [rows],
  );
  const running = doc?.jobs["running"] ?? 0;
  const most = width < 620 ? 5 : 7;
  if (!doc) return <p class="none">Loading …</p>;
  return (
    <>
      <div class="three">
        <Panel title="Is it well?" id="well" aside={<a href={link(store.name, "nodes")}>nodes</a>}>
          <p class={well.well ? "answer good" : "answer bad"}>{well.text}</p>
          <dl class="figures">
            <Figure text="nodes in service" value={whole(doc.agents)} />
            <Figure text="GPUs in service" value={whole(doc.gpus)} />
            <Figure text="in quarantine" value={whole(quarantined)} bad={quarantined > 0} />
            <Figure
              text="plan made"
              value={plan ? planAge(madeAt(store), now) : plan === null ? "no plan" : "…"}
            />
          </dl>
          <Mini agents={agents} />
          {faults.length > 0 && (
            <ul class="faults">
              {faults.slice(0, 4).map(f => (
                <li key={f}>{f}</li>
              ))}
              {faults.length > 4 && <li>and {faults.length - 4} more</li>}
            </ul>
          )}
          {drained.length > 0 && <p class="soft">{drained.map(a => `${a.name} is ${a.state}`).join(", ")}</p>}
        </Panel>
        <Panel
          title="What waits, and until when?"
          id="waits"
          aside={<a href={link(store.name, "queue", "", "state=%3Dwaiting&sort=start")}>queue</a>}
        >
          <p class="answer">{queueLine(rows, now)}</p>
          <dl class="figures">
            <Figure text="waiting" value={whole(doc.jobs["waiting"] ?? 0)} />
            <Figure text="running" value={whole(running)} />
            <Figure text="succeeded" value={whole(doc.jobs["succeeded"] ?? 0)} />
            <Figure
              text="failed"
              value={whole(doc.jobs["failed"] ?? 0)}
              bad={(doc.jobs["failed"] ?? 0) > 0}
            />
          </dl>
          <Waiters store={store} rows={rows} />
        </Panel>
        <Panel
          title="How good is it?"
          id="good"
          aside={doc.session && <a href={link("", "session", doc.session)}>how do you know?</a>}
        >
          <p class="answer">
            {goodness(plan, doc.session ? undefined : "There is no plan until a node registers.")}
          </p>
          <ul class="use" aria-label="GPUs in use by type">
            {use.map(u => (
              <li key={u.type}>
                <b>{u.type}</b>
                <meter
                  min={0}
                  max={Math.max(1, u.inService)}
                  value={u.busy}
                  aria-label={`${u.type} in use`}
                />
                <span>
                  {u.busy} of {u.inService}
                  {u.faulty ? `, ${u.faulty} out` : ""}
                </span>
              </li>
            ))}
          </ul>
        </Panel>
      </div>
      <Panel
        title="Past, now and plan"
        id="chart"
        aside={<a href={link(store.name, "gantt")}>larger</a>}
        class="chart"
      >
        <Chart store={store} chart={chart} height={width < 620 ? 260 : 430} />
      </Panel>
      <Trend store={store} />
      {waiting.length > 0 && (
        <Panel title="Next in the queue" id="next" aside={<a href={link(store.name, "queue")}>all jobs</a>}>
          <Table
            label="Table of the next jobs"
            heads={["Job", "Name", "User", "GPUs", "Starts", "Ends not before", "Why it waits"]}
          >
            {waiting.slice(0, most).map(r => (
              <tr key={r.id}>
                <td>
                  <a href={link(store.name, "job", r.id)}>{r.id}</a>
                </td>
                <td>
                  <bdi class="cut">{r.name}</bdi>
                </td>
                <td>
                  <bdi>{r.user}</bdi>
                </td>
                <td>
                  {r.gpus || "shared"} × {r.on}
                </td>
                <td>{isNaN(r.start) ? "" : ahead(r.start, now)}</td>
                <td>{isNaN(r.earliest) ? "" : notBefore(r.earliest, now)}</td>
                <td>
                  <bdi class="cut">{r.short || r.reason}</bdi>
                </td>
              </tr>
            ))}
          </Table>
        </Panel>
      )}
      <Recent store={store} now={now} />
    </>
  );
}

function Recent({ store, now }: { store: ClusterStore; now: number }) {
  const failed = sort(
    [...store.rows.values()].filter(r => r.state === "failed" && now - r.end < 86400e3),
    "-end",
  );
  if (!failed.length) return null;
  return (
    <Panel
      title="Failed in the last day"
      id="failed"
      aside={<a href={link(store.name, "queue", "", "state=%3Dfailed&sort=-end")}>all</a>}
    >
      <ul class="recent">
        {failed.slice(0, 4).map(r => (
          <li key={r.id}>
            <a href={link(store.name, "job", r.id)}>{r.id}</a> <bdi>{r.name}</bdi> <State of={r.state} />{" "}
            <span class="soft">
              {ago(r.end, now)}
              {r.reason ? ": " + r.reason : ""}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

// Mini shows all GPUs as small squares, node by node, where they are not too many for that.
function Mini({ agents }: { agents: readonly Agent[] }) {
  if (agents.reduce((n, a) => n + a.devices.length, 0) > 640) return null;
  return (
    <ul class="mini" aria-hidden="true">
      {agents.map(a => (
        <li key={a.name} class={a.state} title={a.name}>
          {a.devices.map(d => (
            <i key={d.gpu} class={a.state === "lost" ? "lost" : faulty(d) ? "quarantined" : d.state} />
          ))}
        </li>
      ))}
    </ul>
  );
}

const total = (m: Record<string, number>): number => Object.values(m).reduce((a, b) => a + b, 0);

// Waiters shows who waits for how many GPUs.
function Waiters({ store, rows }: { store: ClusterStore; rows: readonly Row[] }) {
  const all = useMemo(() => waiters(rows), [rows]);
  if (all.length < 2) return null;
  return (
    <ul class="use" aria-label="Users who wait">
      {all.slice(0, 3).map(w => (
        <li key={w.user}>
          <a
            href={link(
              store.name,
              "queue",
              "",
              new URLSearchParams({ user: w.user ? exactly(w.user) : "", state: "=waiting" }).toString(),
            )}
          >
            <bdi>{w.user || "no user"}</bdi>
          </a>
          <meter
            class="waits"
            min={0}
            max={all[0]!.gpus || 1}
            value={w.gpus}
            aria-label={`GPUs that ${w.user || "no user"} waits for`}
          />
          <span>{count(w.gpus, "GPU")}</span>
        </li>
      ))}
    </ul>
  );
}

// Trend shows the last day, where the server keeps a history.
function Trend({ store }: { store: ClusterStore }) {
  const theme = useTheme();
  const box = useRef<HTMLDivElement>(null);
  const minutes = store.history;
  useEffect(() => {
    if (!box.current || !minutes || minutes.length < 3) return;
    const x = minutes.map((m: Minute) => Date.parse(m.at) / 1e3);
    return lines(
      box.current,
      x,
      [
        { name: "GPUs in use", values: minutes.map(m => total(m.used)), colour: "link" },
        { name: "GPUs waited for", values: minutes.map(m => m.waiting_gpus), colour: "late" },
      ],
      150,
    );
  }, [minutes, theme]);
  if (!minutes || minutes.length < 3) return null;
  return (
    <Panel title="The last day" id="day">
      <div class="trend" ref={box} role="img" aria-label="GPUs in use and waited for over the last day" />
    </Panel>
  );
}
