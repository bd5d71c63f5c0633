// Solves: all that are kept, and one as it goes.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, listen, now as serverNow, pause, Refused } from "./api.js";
import { goodness } from "./health.js";
import { lines } from "./lines.js";
import { Copy, Figure, Notice, Panel, State, Table, useNow, useTheme } from "./parts.js";
import { link } from "./route.js";
import type { Server } from "./store.js";
import { ago, clock, percent, span, whole } from "./words.js";

interface Solve {
  id: string;
  name?: string;
  status: string;
  termination?: string;
  phase?: string;
  queue_position?: number;
  created: string;
  started?: string;
  ended?: string;
  jobs: number;
  gpus: number;
  value: number | null;
  bound: number | null;
  gap: number | null;
  error?: string;
  cached: boolean;
  links: { result?: string; gantt?: string; certificate?: string; cancel?: string; instance: string };
}

interface Event {
  seq: number;
  at_s: number;
  type: string;
  value?: number;
  bound?: number;
}

const gapOf = (s: Solve): string =>
  s.gap === null ? "" : s.gap === 0 ? "0, no plan is better" : percent(s.gap, true);

export function Solves() {
  const now = useNow(2000);
  const [all, setAll] = useState<Solve[] | null>(null);
  const [next, setNext] = useState("");
  const [error, setError] = useState("");
  const load = async (after: string) => {
    try {
      const answer = await get<{ solves: Solve[] | null; next?: string }>(
        `/v1/solves?limit=100${after && "&after=" + encodeURIComponent(after)}`,
      );
      const got = answer.solves ?? [];
      const ids = new Set(got.map(s => s.id));
      setAll(before => {
        const rest = (before ?? []).filter(s => !ids.has(s.id));
        return after ? [...rest, ...got] : [...got, ...rest];
      });
      if (after || !all) setNext(answer.next ?? "");
      setError("");
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const busy = all?.some(s => s.status === "queued" || s.status === "running");
  useEffect(() => {
    if (!document.hidden) void load("");
  }, [Math.floor(now / (busy ? 2000 : 10e3))]);
  return (
    <>
      <h1>Solves</h1>
      {error && <Notice>{error}</Notice>}
      {all?.length === 0 && (
        <p class="none">No solve is kept. `hare solve --server {location.origin} instance.json` makes one.</p>
      )}
      {!!all?.length && (
        <Table
          label="Solves"
          heads={["Solve", "State", "Jobs", "GPUs", "Above the bound", "Created", "Took"]}
        >
          {all.map(s => (
            <tr key={s.id}>
              <td>
                <a href={link("", "solve", s.id)}>{s.name || s.id.slice(0, 12)}</a>
              </td>
              <td>
                <State of={s.status} />
              </td>
              <td class="number">{whole(s.jobs)}</td>
              <td class="number">{whole(s.gpus)}</td>
              <td>{gapOf(s)}</td>
              <td>{ago(Date.parse(s.created), now)}</td>
              <td>
                {s.started ? span(((s.ended ? Date.parse(s.ended) : now) - Date.parse(s.started)) / 1e3) : ""}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {next && (
        <button type="button" onClick={() => void load(next)}>
          more
        </button>
      )}
    </>
  );
}

export function SolvePage({ id, server }: { id: string; server: Server }) {
  const now = useNow(1000);
  const theme = useTheme();
  const [solve, setSolve] = useState<Solve | null>(null);
  const [events, setEvents] = useState<Event[]>([]);
  const [error, setError] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const path = `/v1/solves/${encodeURIComponent(id)}`;
  useEffect(() => {
    const stop = new AbortController();
    const read = () => get<Solve>(path, stop.signal).then(setSolve);
    void (async () => {
      let after = "";
      while (!stop.signal.aborted) {
        try {
          await read();
          let ended = false;
          let asked = 0;
          await listen(`${path}/events`, after, stop.signal, m => {
            if (m.id) after = m.id;
            const e = JSON.parse(m.data) as Event;
            setEvents(all => [...all, e]);
            ended ||= e.type === "done";
            if (serverNow() - asked > 500 || ended) {
              asked = serverNow();
              void read().catch(() => undefined);
            }
          });
          await read();
          if (ended) return;
        } catch (e) {
          if (stop.signal.aborted) return;
          if (e instanceof Refused && e.status < 500 && e.status !== 429) return setError(e.message);
        }
        await pause(1000, stop.signal);
      }
    })();
    return () => stop.abort();
  }, [path]);
  const points = events.filter(e => e.value !== undefined || e.bound !== undefined);
  useEffect(() => {
    if (!box.current || points.length < 2) return;
    let [value, bound]: [number | null, number | null] = [null, null];
    const [x, above]: [number[], (number | null)[]] = [[], []];
    for (const e of points) {
      value = e.value ?? value;
      bound = e.bound ?? bound;
      x.push(e.at_s);
      above.push(value !== null && bound ? 100 * (value / bound - 1) : null);
    }
    return lines(
      box.current,
      x,
      [{ name: "% above the best possible plan, at most", values: above, colour: "link", steps: true }],
      260,
      true,
    );
  }, [points.length, theme, solve === null]);
  if (!solve) return error ? <Notice>{error}</Notice> : <p class="none">Loading …</p>;
  const goes = solve.status === "queued" || solve.status === "running";
  const auth = server.keyed ? ' -H "Authorization: Bearer $HARE_API_KEY"' : "";
  const ends = solve.ended ? Date.parse(solve.ended) : now;
  return (
    <article>
      <header class="title">
        <h1>
          Solve <span class="soft">{solve.name || solve.id.slice(0, 12)}</span>
        </h1>
        <State of={solve.status} />
      </header>
      {error && <Notice>{error}</Notice>}
      {solve.error && <Notice>{solve.error}</Notice>}
      <Panel title={goes ? "How far is it?" : "How good is it?"} id="solve">
        <p class="answer">{goodness(solve)}</p>
        <dl class="figures">
          <Figure text="jobs" value={whole(solve.jobs)} />
          <Figure text="GPUs" value={whole(solve.gpus)} />
          <Figure
            text={goes ? "has taken" : "took"}
            value={solve.started ? span((ends - Date.parse(solve.started)) / 1e3) : "waits"}
          />
          <Figure
            text={goes ? "phase" : "ended"}
            value={
              goes
                ? (solve.phase ?? solve.status)
                : `${solve.termination ?? solve.status}, ${clock(ends, now)}`
            }
          />
        </dl>
        {points.length > 1 && (
          <div
            class="trend"
            ref={box}
            role="img"
            aria-label="How far the best plan was from the bound, over time"
          />
        )}
        {goes && server.mayChange && (
          <button
            type="button"
            class="danger"
            onClick={() =>
              void call(`${path}/cancel`, { method: "POST" }).catch((e: unknown) =>
                setError((e as Error).message),
              )
            }
          >
            stop here: keep the best plan so far
          </button>
        )}
      </Panel>
      {!goes && (
        <Panel title="How do you know?" id="know">
          <p>
            The certificate proves the bound, and the result has the schedule. A second program checks both
            without the solver:
          </p>
          <Copy
            label="check the result"
            text={`curl -s${auth} ${location.origin}${path}/instance > instance.json\ncurl -s${auth} ${location.origin}${path}/result > result.json\nhare verify instance.json result.json`}
          />
          {!server.keyed && (
            <p class="links">
              {solve.links.gantt && <a href={`${path}/gantt.html`}>the schedule as a chart</a>}
              {solve.links.certificate && <a href={`${path}/certificate`}>the certificate</a>}
              {solve.links.certificate && <a href={`${path}/prices.svg`}>the prices of GPUs over time</a>}
              {solve.links.result && <a href={`${path}/result`}>the result</a>}
            </p>
          )}
        </Panel>
      )}
    </article>
  );
}
