// Sessions: all, and one with its plan.
import { useEffect, useState } from "preact/hooks";
import { get, pause, Refused } from "./api.js";
import { Ask } from "./ask.js";
import type { Plan } from "./jobs.js";
import { Copy, Figure, Notice, Panel, Table, useNow } from "./parts.js";
import { link } from "./route.js";
import { type Server, type Session, shown } from "./store.js";
import { goodness } from "./health.js";
import { ago, ahead, clock, count, list, notBefore, percent, span, whole } from "./words.js";

const SCHEDULERS: Record<string, string> = { slurm: "Slurm", kube: "Kubernetes", ray: "Ray" };

// SessionJob is a job in the list of a session; times are seconds of the session.
interface SessionJob {
  job: string;
  name?: string;
  user?: string;
  state: string;
  gpus: number;
  types: string[];
  running_on?: string[];
  start_s?: number;
  end_s?: number;
  earliest_end_s?: number;
  reason?: string;
  reason_short?: string;
}

interface SessionJobs {
  jobs: SessionJob[];
  total: number;
}

const LISTED = 200; // jobs that wait, and jobs that run

export function Sessions({ server }: { server: Server }) {
  const now = useNow(5000);
  const [all, setAll] = useState<Session[] | null>(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    if (document.hidden) return;
    get<{ sessions: Session[] | null; next?: string }>("/v1/sessions?limit=200").then(
      a => (setAll(a.sessions ?? []), setMore(!!a.next), setError("")),
      (e: unknown) => setError((e as Error).message),
    );
  }, [now]);
  const of = new Map((server.clusters ?? []).map(c => [c.session, c.name]));
  return (
    <>
      <h1>Sessions</h1>
      {error && <Notice>{error}</Notice>}
      {all?.length === 0 && <p class="none">There is no session. A cluster makes one with its first node.</p>}
      {!!all?.length && (
        <Table label="Sessions" heads={["Session", "Cluster", "Policy", "Created", "Events", "In memory"]}>
          {all.map(s => (
            <tr key={s.id}>
              <td>
                <a href={link("", "session", s.id)}>{s.id.slice(0, 12)}</a>
              </td>
              <td>
                {of.has(s.id) && <a href={link(of.get(s.id)!, "overview")}>{of.get(s.id)}</a>}
                {s.followed && SCHEDULERS[s.followed.helper]}
              </td>
              <td>{s.policy}</td>
              <td>{ago(Date.parse(s.created), now)}</td>
              <td class="number">{whole(s.last_seq)}</td>
              <td>{s.active ? "yes" : "no"}</td>
            </tr>
          ))}
        </Table>
      )}
      {more && <p class="soft">These are the 200 oldest. `hare sessions list` has all.</p>}
    </>
  );
}

interface SessionPageProps {
  id: string;
  server: Server;
  further?: boolean; // another one is above
}

export function SessionPage({ id, server, further }: SessionPageProps) {
  const Title = further ? "h2" : "h1";
  const now = useNow(3000);
  const [session, setSession] = useState<Session | null>(null);
  const [plan, setPlan] = useState<Plan | null | undefined>(undefined);
  const [jobs, setJobs] = useState<{ waiting: SessionJobs; running: SessionJobs } | null>(null);
  const [error, setError] = useState("");
  const path = `/v1/sessions/${encodeURIComponent(id)}`;
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      while (!stop.signal.aborted) {
        await shown();
        const began = performance.now();
        try {
          const session = await get<Session>(path, stop.signal);
          setSession(session);
          if (session.followed) {
            const list = (query: string) =>
              get<SessionJobs>(`${path}/jobs?limit=${LISTED}&${query}`, stop.signal);
            const waiting = await list("state=waiting&state=gathering&sort=place");
            setJobs({ waiting, running: await list("state=running&sort=end") });
          }
          setPlan(await get<Plan>(`${path}/plan`, stop.signal));
          setError("");
        } catch (e) {
          if (e instanceof Refused && e.code === "no_plan") setPlan(null);
          else if (e instanceof Refused) setError(e.message);
        }
        // A plan of many jobs takes long to make and to read.
        await pause(Math.max(3000, 10 * (performance.now() - began)), stop.signal);
      }
    })();
    return () => stop.abort();
  }, [path]);
  if (!session) return error ? <Notice>{error}</Notice> : <p class="none">Loading …</p>;
  // Times of a session on its own clock are durations since its beginning.
  const real = session.clock === "server";
  const at = (s: number): number => Date.parse(session.created) + s * 1e3;
  const when = (s: number | null): string =>
    s === null ? "" : real ? (at(s) > now ? ahead(at(s), now) : clock(at(s), now)) : `after ${span(s)}`;
  const auth = server.keyed ? ' -H "Authorization: Bearer $HARE_API_KEY"' : "";
  const cluster = server.clusters?.find(c => c.session === id);
  const st = session.status;
  const helper = session.followed;
  return (
    <article>
      <header class="title">
        <Title>
          {helper ? SCHEDULERS[helper.helper] : "Session"}{" "}
          {id !== helper?.helper && <span class="soft">{id.slice(0, 12)}</span>}
        </Title>
        {helper && <span class="soft">as hare {helper.helper} keeps it, which alone changes it</span>}
        {cluster && <a href={link(cluster.name, "overview")}>cluster {cluster.name}</a>}
      </header>
      {helper?.stale && (
        <p class="stale" role="status">
          hare {helper.helper} has said nothing since {clock(Date.parse(helper.at!), now)} (
          {span((now - Date.parse(helper.at!)) / 1e3)}): what you see is from then.
        </p>
      )}
      {helper?.fault && <Notice>{helper.fault}</Notice>}
      {helper && st && server.mayChange && <Ask id={id} path={path} types={st.gpus.map(g => g.type)} />}
      {helper && jobs && (
        <FollowedJobs
          id={id}
          waiting={jobs.waiting}
          running={jobs.running}
          now={now}
          at={at}
          chart={server.keyed ? "" : `${path}/gantt.html`}
        />
      )}
      <div class="two">
        <Panel title="Its plan" id={`plan-${id}`}>
          <p class="answer">{goodness(plan)}</p>
          <dl class="figures">
            {plan?.gap != null && <Figure text="distance to the bound" value={percent(plan.gap, true)} />}
            <Figure text="policy" value={session.policy} />
            {session.planning && !helper && (
              <Figure text="plans taken" value={whole(session.planning.taken)} />
            )}
            {plan?.made_at_s != null && real && <Figure text="made" value={ago(at(plan.made_at_s), now)} />}
          </dl>
          {session.planning?.error && <Notice>{session.planning.error}</Notice>}
          {session.planning?.fallback && (
            <p>{session.planning.fallback} decides, because the plan is missing or too old.</p>
          )}
        </Panel>
        <Panel title="How do you know?" id={`know-${id}`}>
          <p>
            The plan has a value and a bound that no plan is below: weighted sums of the completion times of
            its jobs, counted from when it was made. The log of the session repeats every decision and
            compares it with a bound for every plan, even one that knew all in advance.
          </p>
          <Copy
            label="the plan with its bound"
            text={`hare online plan --server ${location.origin} --session ${id}`}
          />
          <Copy
            label="the log, repeated and compared"
            text={`curl -s${auth} ${location.origin}${path}/log > session.ndjson\nhare online replay session.ndjson\nhare online regret session.ndjson`}
          />
        </Panel>
      </div>
      {st && (
        <Panel title="GPUs and queues" id={`state-${id}`}>
          <Table
            label={`GPUs of ${id} by type`}
            heads={["Type", "In service", "Held", "Free", "Kept for a gang"]}
          >
            {st.gpus.map(g => (
              <tr key={g.type}>
                <td>{g.type}</td>
                <td class="number">{whole(g.in_service)}</td>
                <td class="number">{whole(g.held)}</td>
                <td class="number">{whole(g.free)}</td>
                <td class="number">{whole(g.gathered)}</td>
              </tr>
            ))}
          </Table>
          <p class="soft">
            {st.queues
              .map(q => `queue ${q.name}: ${whole(q.jobs)} jobs, ${whole(q.waiting)} waiting`)
              .join("; ")}
          </p>
        </Panel>
      )}
      {plan && !helper && plan.jobs.length > 0 && (
        <Panel title="Jobs of the plan" id="jobs">
          <Table
            label="Table of the plan"
            heads={["Job", "State", "Type", "Starts", "Ends", "Ends not before", "Waits for"]}
          >
            {plan.jobs.slice(0, 200).map(j => (
              <tr key={j.job}>
                <td>
                  {cluster ? <a href={link(cluster.name, "job", j.job)}>{j.job}</a> : <bdi>{j.job}</bdi>}
                </td>
                <td>{j.running ? "running" : "waiting"}</td>
                <td>{list(j.types)}</td>
                <td>{when(j.start_s)}</td>
                <td>{when(j.end_s)}</td>
                <td>
                  {j.earliest_end_s === null
                    ? ""
                    : real
                      ? clock(Math.floor(at(j.earliest_end_s) / 60e3) * 60e3, now)
                      : when(j.earliest_end_s)}
                </td>
                <td>
                  <bdi class="cut">{j.waits_for}</bdi>
                </td>
              </tr>
            ))}
          </Table>
          {plan.jobs.length > 200 && <p class="soft">and {whole(plan.jobs.length - 200)} more</p>}
        </Panel>
      )}
    </article>
  );
}

interface FollowedJobsProps {
  id: string;
  waiting: SessionJobs;
  running: SessionJobs;
  now: number;
  at(seconds: number): number;
  chart: string; // address of the picture; "" where a browser cannot open it
}

// FollowedJobs shows what waits and what runs in a session of a helper, under the names of its scheduler.
function FollowedJobs({ id, waiting, running, now, at, chart }: FollowedJobsProps) {
  const more = (l: SessionJobs) =>
    l.total > l.jobs.length && <p class="soft">and {whole(l.total - l.jobs.length)} more</p>;
  const time = (s: number | undefined, f: (t: number, now: number) => string) =>
    s === undefined ? "" : f(at(s), now);
  const names = (j: SessionJob) => (
    <>
      <td>
        <bdi>{j.job}</bdi>
      </td>
      <td>
        <bdi class="cut">{j.name}</bdi>
      </td>
      <td>
        <bdi>{j.user}</bdi>
      </td>
    </>
  );
  const first = waiting.jobs[0]?.start_s;
  return (
    <>
      <Panel
        title="What waits, and until when?"
        id={`waits-${id}`}
        aside={chart && <a href={chart}>past, now and plan</a>}
      >
        <p class="answer">
          {waiting.total
            ? count(waiting.total, "job waits", "jobs wait") +
              (first === undefined ? "." : `. The next one starts ${ahead(at(first), now)}.`)
            : "Nothing waits."}
        </p>
        {waiting.total > 0 && (
          <Table
            label={`Jobs of ${id} that wait`}
            heads={["Job", "Name", "User", "GPUs", "Starts", "Ends", "Ends not before", "Why it waits"]}
          >
            {waiting.jobs.map(j => (
              <tr key={j.job}>
                {names(j)}
                <td>
                  {j.gpus} × {j.types.join(" or ")}
                </td>
                <td>{time(j.start_s, ahead)}</td>
                <td>{time(j.end_s, ahead)}</td>
                <td>{time(j.earliest_end_s, notBefore)}</td>
                <td>
                  <bdi class="cut" title={j.reason}>
                    {j.reason_short || j.reason}
                  </bdi>
                </td>
              </tr>
            ))}
          </Table>
        )}
        {more(waiting)}
      </Panel>
      {running.total > 0 && (
        <Panel title={`Running: ${whole(running.total)}`} id={`runs-${id}`}>
          <Table
            label={`Jobs of ${id} that run`}
            heads={["Job", "Name", "User", "On", "Runs since", "Ends", "Ends not before"]}
          >
            {running.jobs.map(j => (
              <tr key={j.job}>
                {names(j)}
                <td>
                  <bdi class="cut">{list(j.running_on ?? [])}</bdi>
                </td>
                <td>{time(j.start_s, clock)}</td>
                <td>{time(j.end_s, ahead)}</td>
                <td>{time(j.earliest_end_s, notBefore)}</td>
              </tr>
            ))}
          </Table>
          {more(running)}
        </Panel>
      )}
    </>
  );
}
