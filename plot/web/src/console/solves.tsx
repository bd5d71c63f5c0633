// Solves: all that are kept, and one as it goes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, get, listen, now as serverNow, pause, Refused } from "./api.js";
import { type Course, courseOf, type Ends, type Event, moved, optionsOf } from "./course.js";
import { goodness } from "./health.js";
import { lines } from "./lines.js";
import { Copy, Figure, Notice, Panel, State, Table, useNow, useTheme } from "./parts.js";
import { link } from "./route.js";
import type { Server } from "./store.js";
import { ago, clock, count, figure, percent, span, whole } from "./words.js";

interface Solve {
  id: string;
  instance_sha256: string;
  options: Record<string, unknown>;
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

const gapOf = (s: Solve): string =>
  s.gap === null ? "" : s.gap === 0 ? "0, no plan is better" : percent(s.gap, true);

export function Solves() {
  const now = useNow(2000);
  const [all, setAll] = useState<Solve[] | null>(null);
  const [next, setNext] = useState("");
  const [error, setError] = useState("");
  const [chosen, choose] = useState<string[]>([]); // to be compared, at most two
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
      {!!all && all.length > 1 && (
        <p class="tools" role="status">
          {chosen.length < 2 ? (
            <span class="soft">Choose two to compare them.</span>
          ) : (
            <a
              href={link("", "compare", "", new URLSearchParams({ a: chosen[0]!, b: chosen[1]! }).toString())}
            >
              compare the two
            </a>
          )}
        </p>
      )}
      {!!all?.length && (
        <Table
          label="Solves"
          heads={["Compare", "Solve", "State", "Jobs", "GPUs", "Above the bound", "Created", "Took"]}
        >
          {all.map(s => (
            <tr key={s.id}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`Compare ${s.name || s.id.slice(0, 12)}`}
                  checked={chosen.includes(s.id)}
                  onChange={() =>
                    choose(
                      chosen.includes(s.id) ? chosen.filter(id => id !== s.id) : [...chosen, s.id].slice(-2),
                    )
                  }
                />
              </td>
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

// useSolve is a solve and its events, as they come.
function useSolve(id: string): { solve: Solve | null; events: Event[]; error: string } {
  const [solve, setSolve] = useState<Solve | null>(null);
  const [events, setEvents] = useState<Event[]>([]);
  const [error, setError] = useState("");
  const path = pathOf(id);
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
  return { solve, events, error };
}

const pathOf = (id: string): string => `/v1/solves/${encodeURIComponent(id)}`;

// Chart draws lines over the time since a solve was submitted.
function Chart({ course, label }: { course: Course; label: string }) {
  const theme = useTheme();
  const box = useRef<HTMLDivElement>(null);
  const drawn = course.x.length > 1;
  useEffect(() => {
    if (box.current && drawn) return lines(box.current, course.x, course.lines, 260, true);
  }, [course, theme]);
  return drawn ? <div class="trend" ref={box} role="img" aria-label={label} /> : null;
}

export function SolvePage({ id, server }: { id: string; server: Server }) {
  const now = useNow(1000);
  const { solve, events, error: refused } = useSolve(id);
  const [failed, setError] = useState("");
  const error = refused || failed;
  const path = pathOf(id);
  const course = useMemo(() => courseOf([{ name: "", events }]), [events.length]);
  if (!solve) return error ? <Notice>{error}</Notice> : <p class="none">Loading …</p>;
  const goes = solve.status === "queued" || solve.status === "running";
  const auth = server.keyed ? ' -H "Authorization: Bearer $HARE_API_KEY"' : "";
  const ends = solve.ended ? Date.parse(solve.ended) : now;
  const { gantt, certificate, result } = solve.links;
  const files = [
    gantt && ["gantt.html", "the schedule as a chart"],
    certificate && ["certificate", "the certificate"],
    certificate && ["prices.svg", "the prices of GPUs over time"],
    result && ["result", "the result"],
  ].filter(f => !!f) as [file: string, text: string][];
  // A link has no key with it.
  const save = async (file: string) => {
    try {
      const a = document.createElement("a");
      a.href = URL.createObjectURL(await (await call(`${path}/${file}`)).blob());
      a.download = file.includes(".") ? file : `${file}.json`;
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60e3);
    } catch (e) {
      setError((e as Error).message);
    }
  };
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
        <Chart course={course} label="The value of the best plan and the bound over time" />
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
          <p class="links">
            {files.map(([file, text]) =>
              server.keyed ? (
                <button key={file} type="button" onClick={() => void save(file)}>
                  save {text}
                </button>
              ) : (
                <a key={file} href={`${path}/${file}`}>
                  {text}
                </a>
              ),
            )}
          </p>
        </Panel>
      )}
    </article>
  );
}

const MOST = 10; // jobs that are listed
const READ = 10_000; // jobs of each solve that are compared, those that end first

// Compare puts two solves beside each other.
export function Compare({ a, b }: { a: string; b: string }) {
  const now = useNow(1000);
  const [one, two] = [useSolve(a), useSolve(b)];
  const [ends, setEnds] = useState<[Ends[], Ends[]] | null>(null);
  const course = useMemo(
    () =>
      courseOf([
        { name: "first", events: one.events },
        { name: "second", events: two.events },
      ]),
    [one.events.length, two.events.length],
  );
  const [first, second] = [one.solve, two.solve];
  const same = !!first && first.instance_sha256 === second?.instance_sha256;
  const ready = same && !!first.links.result && !!second?.links.result;
  useEffect(() => {
    if (!ready) return;
    const stop = new AbortController();
    const read = (id: string) =>
      get<{ jobs: Ends[] }>(`${pathOf(id)}/jobs?sort=end&limit=${READ}`, stop.signal).then(r => r.jobs);
    Promise.all([read(a), read(b)]).then(setEnds, () => undefined);
    return () => stop.abort();
  }, [a, b, ready]);
  const error = one.error || two.error;
  if (error) return <Notice>{error}</Notice>;
  if (!first || !second) return <p class="none">Loading …</p>;
  const both = [first, second];
  const took = (s: Solve) =>
    s.started ? span(((s.ended ? Date.parse(s.ended) : now) - Date.parse(s.started)) / 1e3) : "waits";
  const rows: [string, ...string[]][] = [
    ["value, the less the better", ...both.map(s => (s.value === null ? "none yet" : figure(s.value)))],
    ["bound", ...both.map(s => (s.bound === null ? "none yet" : figure(s.bound)))],
    ["above the bound", ...both.map(gapOf)],
    ["took", ...both.map(took)],
    ["ended", ...both.map(s => s.termination ?? s.status)],
    ["jobs", ...both.map(s => whole(s.jobs))],
    ["GPUs", ...both.map(s => whole(s.gpus))],
    ...optionsOf(first.options, second.options),
  ];
  const later = ends && moved(ends[0], ends[1]);
  return (
    <article>
      <h1>Two solves</h1>
      <Panel title="Which is better?" id="which">
        <p class="answer">{verdict(first, second, same)}</p>
        <Table label="The two solves" heads={["Figure", "First", "Second"]}>
          <tr>
            <th scope="row">solve</th>
            {both.map(s => (
              <td key={s.id}>
                <a href={link("", "solve", s.id)}>
                  <bdi class="cut">{s.name || s.id.slice(0, 12)}</bdi>
                </a>
              </td>
            ))}
          </tr>
          {rows.map(([text, x, y]) => (
            <tr key={text}>
              <th scope="row">{text}</th>
              <td>{x}</td>
              <td>{y}</td>
            </tr>
          ))}
        </Table>
        <Chart course={course} label="The values of both and their bounds over time" />
      </Panel>
      {later && (
        <Panel title="Who ends sooner in the second, and who later?" id="who">
          <p class="answer">
            {count(later.sooner, "job")} sooner, {whole(later.later)} later, {whole(later.equal)} at the same
            time
            {first.jobs > READ && `, of those that are among the first ${whole(READ)} to end in both`}
          </p>
          {later.most.length > 0 && (
            <Table label="Jobs whose ends differ the most" heads={["Job", "First", "Second", "Difference"]}>
              {later.most.slice(0, MOST).map(m => (
                <tr key={m.job}>
                  <td>
                    <bdi class="cut">{m.job}</bdi>
                  </td>
                  <td>{span(m.first)}</td>
                  <td>{span(m.second)}</td>
                  <td>
                    {span(Math.abs(m.second - m.first))} {m.second < m.first ? "sooner" : "later"}
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Panel>
      )}
    </article>
  );
}

function verdict(a: Solve, b: Solve, same: boolean): string {
  if (!same) return "They solve different instances, so that their values say nothing of each other.";
  if (a.options.objective !== b.options.objective)
    return "They minimise different things, so that their values say nothing of each other.";
  if (a.value === null || b.value === null) return "One of them has no plan yet.";
  const [less, more] = [Math.min(a.value, b.value), Math.max(a.value, b.value)];
  const bound = Math.max(a.bound ?? 0, b.bound ?? 0);
  const proved =
    bound > 0 ? ` It is at most ${percent(less / bound - 1, true)} above the best possible one.` : "";
  if (less === more) return `Their plans are equally good.${proved.replace("It is", "They are")}`;
  return `The ${b.value < a.value ? "second" : "first"} has the better plan, by ${percent(1 - less / more)}.${proved}`;
}
