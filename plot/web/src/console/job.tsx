// One job: why, when, how that is known, its attempts, its output, and the same by command line.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, pause, Refused } from "./api.js";
import { isActive, type Job, nameOf, userOf } from "./jobs.js";
import { Copy, Notice, Panel, State, Table, useNow, useWatched } from "./parts.js";
import type { ClusterStore, Server } from "./store.js";
import { madeAt } from "./overview.js";
import { ago, ahead, clock, count, figure, list, notBefore, percent, span, whole } from "./words.js";

export function JobPage({ store, server, id }: { store: ClusterStore; server: Server; id: string }) {
  useWatched(store);
  const now = useNow(2000);
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState("");
  const row = store.rows.get(id);
  const seen = `${row?.state} ${row?.start} ${row?.reason} ${row?.short} ${row?.where.join()}`;
  const path = `${store.path}/jobs/${encodeURIComponent(id)}`;
  useEffect(() => {
    let here = true;
    get<Job>(path).then(
      j => here && (setJob(j), setError("")),
      (e: unknown) => here && e instanceof Refused && setError(e.message),
    );
    return () => void (here = false);
  }, [path, seen, Math.floor(now / 20e3)]);
  if (!job) return error ? <Notice>{error}</Notice> : <p class="none">Loading …</p>;
  const active = isActive(job.state);
  const waits = job.state === "waiting";
  const start = row?.start ?? NaN;
  const made = madeAt(store);
  const first = Date.parse(job.attempts?.[0]?.ordered ?? job.started ?? "");
  const again = (job.attempts?.length ?? 0) > 1 ? " in its last attempt" : "";
  const [end, earliest] = [row?.end ?? NaN, row?.earliest ?? NaN];
  const auth = server.keyed ? ' -H "Authorization: Bearer $HARE_API_KEY"' : "";
  const wants = [
    job.sync === "relaxed" || (job.rounds && !job.gpus)
      ? "shares GPUs round by round"
      : count(job.gpus ?? 1, "GPU"),
    Object.keys(job.on ?? {}).length ? `of ${list(Object.keys(job.on!), 9)}` : "of any type",
    job.nodes && job.nodes > 1 ? `over ${job.nodes} nodes` : "",
  ];
  return (
    <article class="job">
      <header class="title">
        <h1>
          <bdi>{nameOf(job)}</bdi> <span class="soft">{job.id}</span>
        </h1>
        <State of={job.state} />
      </header>
      <div class="two">
        <Panel title={waits ? "Why does it wait?" : active ? "What does it do?" : "How did it end?"} id="why">
          <p class="answer">{(waits && row?.short) || whyOf(job, now)}</p>
          {waits && row?.short && job.reason && <p>{job.reason}</p>}
          <dl class="pairs">
            <Pair name="wants" value={wants.filter(Boolean).join(" ")} />
            <Pair name="user" value={userOf(job)} />
            <Pair name="weight" value={figure(job.weight ?? 1)} />
            <Pair
              name="submitted"
              value={`${clock(Date.parse(job.submitted), now)}, ${ago(Date.parse(job.submitted), now)}`}
            />
            {waits && row && !isNaN(row.place) && (
              <Pair name="place in the queue" value={figure(row.place)} />
            )}
            {job.rounds && <Pair name="rounds" value={`${job.round ?? 0} of ${job.rounds} done`} />}
            <Pair
              name="labels"
              value={Object.entries(job.labels ?? {})
                .map(([k, v]) => (v ? `${k}=${v}` : k))
                .join(", ")}
            />
            <Pair
              name="command"
              value={job.module ? `module ${job.module}` : (job.command ?? []).join(" ")}
              code
            />
          </dl>
        </Panel>
        <Panel title="When?" id="when">
          {waits && (
            <p class="answer">
              {isNaN(start) ? "The plan has no start for it yet." : `It starts ${ahead(start, now)}.`}
            </p>
          )}
          {!waits && active && (
            <p class="answer">
              {isNaN(end)
                ? `It has run for ${span((now - start) / 1e3)}${again}.`
                : `It ends ${ahead(end, now)}.`}
            </p>
          )}
          {!active && job.ended && (
            <p class="answer">
              It ended {ago(Date.parse(job.ended), now)}
              {job.started
                ? ` and ran for ${span((Date.parse(job.ended) - Date.parse(job.started)) / 1e3)}${again}`
                : ""}
              .
            </p>
          )}
          <dl class="pairs">
            {!isNaN(start) && <Pair name={waits ? "starts, about" : "started"} value={clock(start, now)} />}
            {!waits && !isNaN(first) && (
              <Pair name="waited" value={span((first - Date.parse(job.submitted)) / 1e3)} />
            )}
            {!isNaN(end) && <Pair name={active ? "ends, about" : "ended"} value={clock(end, now)} />}
            {active && !isNaN(earliest) && (
              <Pair name="ends not before" value={`${notBefore(earliest, now)}, proved`} />
            )}
          </dl>
          {active && (
            <details class="know">
              <summary>How do you know?</summary>
              {store.plan ? (
                <>
                  <p>
                    The times are those of the plan{isNaN(made) ? "" : ` that was made ${ago(made, now)}`};
                    they hold if jobs take as long as is believed and none arrives.
                    {!isNaN(earliest) &&
                      ` No plan can end this job before ${notBefore(earliest, now)}, if it is as long as is believed.`}
                    {store.plan.gap !== null &&
                      ` The plan as a whole is at most ${percent(store.plan.gap, true)} above the best possible one.`}
                  </p>
                  <Copy
                    label="the plan with its bound"
                    text={`hare online plan --server ${location.origin} --session ${store.doc?.session ?? ""}`}
                  />
                  <Copy
                    label="all decisions beside a certified bound"
                    text={`curl -s${auth} ${location.origin}/v1/sessions/${store.doc?.session ?? ""}/log > session.ndjson\nhare online replay session.ndjson\nhare online regret session.ndjson`}
                  />
                </>
              ) : store.plan === null ? (
                <p>The policy {store.doc?.policy} makes no plan, so nothing is known beforehand.</p>
              ) : (
                <p>The plan is not known yet.</p>
              )}
            </details>
          )}
          {active && server.mayChange && <Cancel store={store} job={job} path={path} />}
        </Panel>
      </div>
      <Attempts job={job} now={now} />
      <Log key={id} path={path} job={job} />
      <Panel title="The same by command line" id="same">
        <Copy
          label="with hare"
          text={`hare jobs ${id} --server ${location.origin} --cluster ${store.name}`}
        />
        <Copy label="with curl" text={`curl -s${auth} ${location.origin}${path}`} />
        <Copy
          label="with Python"
          text={`${server.keyed ? "import os\n" : ""}from hare_client import Hare\n\nwith Hare("${location.origin}"${server.keyed ? ', key=os.environ["HARE_API_KEY"]' : ""}) as hare:\n    print(hare.cluster_job(${JSON.stringify(store.name)}, "${id}"))`}
        />
      </Panel>
    </article>
  );
}

function Pair({ name, value, code }: { name: string; value: string; code?: boolean }) {
  if (!value) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{code ? <code>{value}</code> : <bdi>{value}</bdi>}</dd>
    </>
  );
}

function whyOf(job: Job, now: number): string {
  const last = job.attempts?.[job.attempts.length - 1];
  const gpus = (last?.tasks ?? []).flatMap(t => t.gpus ?? []);
  switch (job.state) {
    case "waiting":
      return job.reason || "It waits for the next plan.";
    case "succeeded":
      return "It succeeded.";
    case "failed":
      return job.reason ? `It failed: ${job.reason}.` : "It failed.";
    case "cancelled":
      return job.reason || "It was cancelled.";
    default:
      return `It ${job.state === "running" ? "runs" : "is " + job.state} on ${list(gpus, 5)}${
        job.started ? `, since ${clock(Date.parse(job.started), now)}` : ""
      }.`;
  }
}

// Cancel asks first, and says whom it would serve.
function Cancel({ store, job, path }: { store: ClusterStore; job: Job; path: string }) {
  const [asks, setAsks] = useState(false);
  const [error, setError] = useState("");
  const [sent, setSent] = useState(false);
  const row = store.rows.get(job.id);
  const gain = [...store.rows.values()]
    .filter(
      r =>
        r.id !== job.id &&
        r.state === "waiting" &&
        (!row?.types.length || !r.types.length || r.types.some(t => row.types.includes(t))),
    )
    .sort((a, b) => (isNaN(a.start) ? 1 : isNaN(b.start) ? -1 : a.start - b.start))
    .slice(0, 3)
    .map(r => `${r.name} (${r.id})`);
  const cancel = async () => {
    try {
      await call(`${path}/cancel`, { method: "POST" });
      setSent(true);
      store.ask({ jobs: [job.id], plan: true });
    } catch (e) {
      setError((e as Error).message);
    }
    setAsks(false);
  };
  if (error) return <Notice>{error}</Notice>;
  if (sent) return <p role="status">It is being cancelled.</p>;
  if (!asks)
    return (
      <button type="button" class="danger" onClick={() => setAsks(true)}>
        cancel the job …
      </button>
    );
  return (
    <div class="confirm" role="group" aria-label="Cancel the job?">
      <p>
        {job.state === "waiting"
          ? "It leaves the queue"
          : `Its processes end, and ${count(row?.gpus ?? 1, "GPU")} become free`}
        . {gain.length ? `Those who may start sooner: ${list(gain)}.` : "Nobody waits for its GPUs."}
      </p>
      <button type="button" class="danger" onClick={() => void cancel()}>
        cancel {job.id}
      </button>
      <button type="button" onClick={() => setAsks(false)}>
        keep it
      </button>
    </div>
  );
}

function Attempts({ job, now }: { job: Job; now: number }) {
  const all = job.attempts ?? [];
  if (!all.length) return null;
  return (
    <Panel title={all.length === 1 ? "One attempt" : `${all.length} attempts`} id="attempts">
      <Table label="Attempts" heads={["Attempt", "Began", "Lasted", "Result", "Where", "What happened"]}>
        {[...all].reverse().map(a => {
          const ends = a.ended ? Date.parse(a.ended) : now;
          const exits = a.tasks.filter(t => t.exit_code || t.signal || t.error);
          return (
            <tr key={a.attempt}>
              <td>{a.attempt}</td>
              <td>{clock(Date.parse(a.ordered), now)}</td>
              <td>{span((ends - Date.parse(a.ordered)) / 1e3)}</td>
              <td>{a.result ?? "goes on"}</td>
              <td>
                {list(
                  a.tasks.flatMap(t => t.gpus ?? []),
                  6,
                )}
              </td>
              <td>
                <bdi class="cut">
                  {a.error ||
                    exits
                      .map(
                        t =>
                          `task ${t.task}: ${t.error || (t.signal ? `signal ${t.signal}` : `exit code ${t.exit_code}`)}`,
                      )
                      .join("; ")}
                </bdi>
              </td>
            </tr>
          );
        })}
      </Table>
    </Panel>
  );
}

const KEPT = 200_000; // bytes of an output that the page reads, and characters that it keeps

function Log({ path, job }: { path: string; job: Job }) {
  const attempts = job.attempts ?? [];
  const [task, setTask] = useState(0);
  const [stream, setStream] = useState("stdout");
  const [attempt, setAttempt] = useState(0); // 0: the last one
  const [text, setText] = useState("");
  const [note, setNote] = useState("");
  const [cut, setCut] = useState(false);
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const last = attempts[attempts.length - 1];
  const number = attempt || last?.attempt || 0;
  useEffect(() => {
    if (!number) return;
    const stop = new AbortController();
    setText("");
    setNote("");
    setCut(false);
    void (async () => {
      // A long output is read from its end. After a break the end is read again.
      while (!stop.signal.aborted) {
        try {
          const q = `task=${task}&stream=${stream}&attempt=${number}&tail=${KEPT}&follow=true`;
          const r = await call(`${path}/logs?${q}`, { signal: stop.signal });
          setText("");
          const read = r.body!.getReader();
          let got = 0;
          const utf8 = new TextDecoder();
          for (;;) {
            const { done, value } = await read.read();
            if (done) break;
            // A first letter may have been cut.
            const first = got ? 0 : value.findIndex(b => (b & 0xc0) !== 0x80);
            const more = utf8.decode(value.subarray(first), { stream: true });
            got += value.length;
            if (got >= KEPT) setCut(true);
            setText(t => (t + more).slice(-KEPT));
          }
          // A server that shuts down ends its streams, too.
          const j = await get<Job>(path, stop.signal);
          if (j.attempts?.find(a => a.attempt === number)?.ended) return setNote("The output ends here.");
        } catch (e) {
          if (stop.signal.aborted) return;
          if (e instanceof Refused && e.status < 500 && e.status !== 429) return setNote(e.message);
        }
        await pause(2000, stop.signal);
      }
    })();
    return () => stop.abort();
  }, [path, number, task, stream]);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow]);
  if (!number) return null;
  const tasks = (attempts.find(a => a.attempt === number) ?? last)?.tasks.length ?? 1;
  return (
    <Panel
      title="Output"
      id="output"
      aside={
        <div class="tools">
          {attempts.length > 1 && (
            <label>
              attempt{" "}
              <select value={attempt} onChange={e => setAttempt(Number(e.currentTarget.value))}>
                <option value={0}>last</option>
                {attempts.map(a => (
                  <option key={a.attempt}>{a.attempt}</option>
                ))}
              </select>
            </label>
          )}
          {tasks > 1 && (
            <label>
              task{" "}
              <select value={task} onChange={e => setTask(Number(e.currentTarget.value))}>
                {Array.from({ length: tasks }, (_, i) => (
                  <option key={i}>{i}</option>
                ))}
              </select>
            </label>
          )}
          <label>
            stream{" "}
            <select value={stream} onChange={e => setStream(e.currentTarget.value)}>
              <option>stdout</option>
              <option>stderr</option>
            </select>
          </label>
          <label>
            <input type="checkbox" checked={follow} onChange={() => setFollow(!follow)} /> follow
          </label>
        </div>
      }
    >
      <pre class="log" ref={box} tabIndex={0} aria-label="Output of the job">
        {text || (note ? "" : "Nothing yet.")}
      </pre>
      {cut && <p class="soft">These are the last {whole(KEPT)} bytes.</p>}
      {note && <p class="soft">{note}</p>}
    </Panel>
  );
}
