// Reports: what-ifs, simulations and plans of capacity that are kept, and one of them.
import { useEffect, useState } from "preact/hooks";
import { call, get } from "./api.js";
import { Figure, Notice, Panel, Table, useNow } from "./parts.js";
import { link } from "./route.js";
import type { Server } from "./store.js";
import { ago, clock, figure, percent, span, whole } from "./words.js";

const KINDS: Record<string, { name: string; path: string; media: string }> = {
  "what-if": { name: "What if", path: "/v1/what-if", media: "application/x-ndjson" },
  simulation: { name: "Simulation", path: "/v1/simulations", media: "application/json" },
  capacity: { name: "Capacity", path: "/v1/capacity", media: "application/json" },
};

interface Report {
  id: string;
  name?: string;
  labels?: Record<string, string>;
  created: string;
  ended: string;
  answer_bytes: number;
}

interface List {
  reports: Report[];
  next?: string;
}

interface Listed extends Report {
  kind: string;
}

const labelsOf = (r: Report): string =>
  Object.entries(r.labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");

const took = (r: Report): string => span((Date.parse(r.ended) - Date.parse(r.created)) / 1e3);

export function Reports() {
  const now = useNow(5000);
  const [q, setQ] = useState("");
  const [all, setAll] = useState<Listed[] | null>(null);
  const [next, setNext] = useState<Record<string, string>>({});
  const [error, setError] = useState("");
  const load = async (more: boolean, signal?: AbortSignal) => {
    const kinds = Object.keys(KINDS).filter(kind => !more || next[kind]);
    try {
      const lists = await Promise.all(
        kinds.map(kind => {
          const query = new URLSearchParams({ limit: "100" });
          if (q.trim()) query.set("q", q.trim());
          if (more) query.set("after", next[kind]!);
          return get<List>(`${KINDS[kind]!.path}?${query}`, signal);
        }),
      );
      const got = lists.flatMap((l, i) => l.reports.map(r => ({ ...r, kind: kinds[i]! })));
      const before = more ? (all ?? []) : [];
      setAll([...before, ...got].sort((a, b) => Date.parse(b.created) - Date.parse(a.created)));
      setNext(Object.fromEntries(lists.map((l, i) => [kinds[i]!, l.next ?? ""])));
      setError("");
    } catch (e) {
      if (!signal?.aborted) setError((e as Error).message);
    }
  };
  const [further, setFurther] = useState(false); // the reader has asked for more: the list stays as it is
  useEffect(() => {
    if (document.hidden || further) return;
    const stop = new AbortController();
    void load(false, stop.signal);
    return () => stop.abort();
  }, [Math.floor(now / 10e3), q, further]);
  return (
    <>
      <h1>Reports</h1>
      <p class="tools">
        <label>
          search{" "}
          <input
            type="search"
            value={q}
            placeholder="name, label or id"
            onInput={e => (setFurther(false), setQ(e.currentTarget.value))}
          />
        </label>
      </p>
      {error && <Notice>{error}</Notice>}
      {all?.length === 0 && (
        <p class="none">
          {q ? "None has this part." : "No what-if, simulation or plan of capacity is kept."}
        </p>
      )}
      {!!all?.length && (
        <Table label="Reports" heads={["Report", "Kind", "Labels", "Sent", "Took"]}>
          {all.map(r => (
            <tr key={r.id}>
              <td>
                <a href={link("", "report", `${r.kind}/${r.id}`)}>
                  <bdi class="cut">{r.name || r.id.slice(0, 12)}</bdi>
                </a>
              </td>
              <td>{KINDS[r.kind]!.name}</td>
              <td>
                <bdi class="cut">{labelsOf(r)}</bdi>
              </td>
              <td>{ago(Date.parse(r.created), now)}</td>
              <td>{took(r)}</td>
            </tr>
          ))}
        </Table>
      )}
      {Object.values(next).some(Boolean) && (
        <button type="button" onClick={() => (setFurther(true), void load(true))}>
          more
        </button>
      )}
    </>
  );
}

interface Estimate {
  mean: number;
  half: number;
}

interface Plan {
  status: string;
  decision: string[];
  rows: {
    option: string;
    policy: string;
    mean_wait_s: Estimate;
    p95_wait_s: Estimate;
    mean_completion_s: Estimate;
    added_cost_per_week: number | null;
    goal_reached?: { share: number };
  }[];
}

// ReportPage is one report; its id is KIND/ID.
export function ReportPage({ id, server }: { id: string; server: Server }) {
  const now = useNow(5000);
  const [kind = "", own = ""] = id.split("/");
  const { name, path, media } = KINDS[kind] ?? { name: "", path: "", media: "" };
  const at = `${path}/${encodeURIComponent(own)}`;
  const [report, setReport] = useState<Report | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState(name ? "" : "There is no such kind of report.");
  useEffect(() => {
    if (!name) return;
    const stop = new AbortController();
    const failed = (e: unknown) => {
      if (!stop.signal.aborted) setError((e as Error).message);
    };
    get<List>(`${path}?q=${encodeURIComponent(own)}`, stop.signal).then(l => {
      const found = l.reports.find(r => r.id === own);
      if (found) setReport(found);
      else setError("There is no report of that id.");
    }, failed);
    if (kind === "capacity") get<Plan>(at, stop.signal).then(setPlan, failed);
    return () => stop.abort();
  }, [id]);
  if (!report) return error ? <Notice>{error}</Notice> : <p class="none">Loading …</p>;
  // A link has no key with it, and asks for a page.
  const save = async (what: string, accept: string, file: string) => {
    try {
      const a = document.createElement("a");
      a.href = URL.createObjectURL(await (await call(at + what, { headers: { Accept: accept } })).blob());
      a.download = file;
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60e3);
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const labels = labelsOf(report);
  return (
    <article>
      <header class="title">
        <h1>
          {name} <bdi class="soft">{report.name || report.id.slice(0, 12)}</bdi>
        </h1>
      </header>
      {error && <Notice>{error}</Notice>}
      {plan && <Decision plan={plan} />}
      <Panel title="What was asked, and answered?" id="asked">
        <dl class="figures">
          <Figure text="sent" value={clock(Date.parse(report.created), now)} />
          <Figure text="took" value={took(report)} />
          <Figure text="answer" value={`${whole(Math.max(1, report.answer_bytes / 1024))} KiB`} />
        </dl>
        {labels && (
          <p>
            Labels: <bdi>{labels}</bdi>
          </p>
        )}
        <p class="links">
          {server.keyed ? (
            <button type="button" onClick={() => void save("", "text/html", "report.html")}>
              save the page
            </button>
          ) : (
            <a href={at}>the page</a>
          )}
          <button
            type="button"
            onClick={() => void save("", media, kind === "what-if" ? "answer.ndjson" : "answer.json")}
          >
            save the answer
          </button>
          {kind === "capacity" && (
            <button type="button" onClick={() => void save("", "text/csv", "rows.csv")}>
              save the table
            </button>
          )}
          <button type="button" onClick={() => void save("/request", "application/json", "request.json")}>
            save the request
          </button>
        </p>
      </Panel>
    </article>
  );
}

const plusMinus = (e: Estimate): string => span(e.mean) + (e.half > 0 ? ` ± ${span(e.half)}` : "");

function Decision({ plan }: { plan: Plan }) {
  const costs = plan.rows.some(r => r.added_cost_per_week !== null);
  const goal = plan.rows.some(r => r.goal_reached);
  const heads = ["Option", "Policy", "Mean wait", "p95 wait", "Mean completion"];
  if (costs) heads.push("Added cost, a week");
  if (goal) heads.push("Goal reached");
  return (
    <Panel title="What does the cluster need?" id="needs">
      {plan.decision.map((s, i) => (
        <p key={s} class={i ? "" : "answer"}>
          {s}
        </p>
      ))}
      {plan.rows.length > 0 && (
        <Table label="Options under policies" heads={heads}>
          {plan.rows.map(r => (
            <tr key={`${r.option}\0${r.policy}`}>
              <td>
                <bdi class="cut">{r.option}</bdi>
              </td>
              <td>{r.policy}</td>
              <td>{plusMinus(r.mean_wait_s)}</td>
              <td>{plusMinus(r.p95_wait_s)}</td>
              <td>{plusMinus(r.mean_completion_s)}</td>
              {costs && <td class="number">{figure(r.added_cost_per_week ?? 0)}</td>}
              {goal && <td class="number">{r.goal_reached ? percent(r.goal_reached.share) : ""}</td>}
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
