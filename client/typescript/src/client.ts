import { EventRefused, HareError, Problem } from "./errors.js";
import { type Client, createClient } from "./generated/client/index.js";
import type {
  Agent,
  AgentList,
  ArrivingJob,
  BoundResult,
  CapacityLine,
  CapacityReport,
  CapacityRequest,
  Cluster,
  Event as SessionEvent,
  Explanation,
  Instance,
  JobChangePreview,
  JobPatch,
  JobPreview,
  ManagedCluster,
  ManagedClusterList,
  ManagedHistory,
  ManagedHistoryRow,
  ManagedJob,
  NewCluster,
  NewManagedJob,
  Options,
  Policies,
  Policy,
  Prices,
  Regret,
  Report,
  Result,
  Session,
  SessionJobRow,
  SessionPlan,
  SessionRequest,
  Simulation,
  SimulationLine,
  SimulationRequest,
  SolveJobs,
  SolveRequest,
  StoredReport,
  Version,
  WhatIfLine,
  WhatIfRequest,
} from "./generated/index.js";
import { chunks, lines, type Message, messages } from "./streams.js";

export interface Config {
  /** The URL of the server; the default is http://127.0.0.1:8080. */
  url?: string;
  /**
   * The API key, which is sent as Authorization: Bearer. Over plain HTTP it is sent only to loopback addresses, unless
   * insecure is set.
   */
  key?: string;
  insecure?: boolean;
  /**
   * How often a call that is safe to repeat is retried, and how often in a row a stream may fail without an event in
   * between; the default is 4.
   */
  retries?: number;
  /** The longest wait before the first retry, in seconds; it doubles with each retry, up to 10 s. Default: 0.2. */
  backoff?: number;
  /** The longest Retry-After, in seconds, for which the client waits; the default is 60. */
  maxRetryAfter?: number;
  /** Seconds without a byte after which a connection counts as broken; the default is 60. */
  idleTimeout?: number;
  fetch?: typeof fetch;
}

/** A solve that the server keeps. */
export interface Solve {
  id: string;
  status: "queued" | "running" | "succeeded" | "cancelled" | "failed";
  /** Why the solve stopped. */
  termination?: string;
  queue_position?: number;
  /** The value of the best schedule so far, in weight-seconds. */
  value: number | null;
  bound: number | null;
  gap: number | null;
  /** Why the solve failed. */
  error?: string;
  [more: string]: unknown;
}

/** One step of a solve. */
export interface Event {
  id: number;
  /** status, phase, incumbent, bound, checkpoint or done; later servers may send others. */
  type: string;
  /** Seconds since the solve was submitted. */
  at_s: number;
  status?: string;
  phase?: string;
  termination?: string;
  /** The value of the best schedule so far. */
  value?: number;
  /** The best bound so far. */
  bound?: number;
  [more: string]: unknown;
}

export interface SolveCall {
  /** The name and the labels by which lists of the server show and find the solve. */
  name?: string;
  labels?: Record<string, string>;
  /** Plans the rest of an earlier result again, from at_s on the clock of that result. */
  replan?: Pick<SolveRequest, "previous" | "previous_instance" | "at_s" | "stability">;
  /** A later call with the same key and content gets the same solve, also days later. */
  key?: string;
  /** Is called with each event. */
  progress?: (event: Event) => void;
  /** Ends the waiting and cancels the solve. */
  signal?: AbortSignal;
}

/** The answer to an event of a session. */
export interface SessionAnswer {
  seq: number;
  decisions: { type: "start" | "withdraw"; job: string; round: number; task: number; gpu: string; at_s: number }[];
}

/** What has changed of a managed cluster or of a session. */
export interface Changes {
  /** Of the last change: what to give as after to go on from there. */
  seq: number;
  /** Everything is to be read. */
  reset: boolean;
  /** Jobs that have come or changed. */
  jobs: string[];
  /** Jobs that have ended. */
  removed: string[];
  /** Of a cluster: agents that have come or changed. */
  agents: string[];
  /** Of a session: GPUs that have joined or left. */
  gpus: string[];
  /** A new plan is in force. */
  plan: boolean;
}

/** The time of a history; the default is the last day, in minutes. */
export interface HistorySpan {
  from?: Date;
  to?: Date;
  /** Seconds of a row, a multiple of 60. */
  stepS?: number;
}

/** Tells whether a solve has ended. */
export const isDone = (solve: Pick<Solve, "status">): boolean =>
  solve.status !== "queued" && solve.status !== "running";

/** Where to begin to read an output of a job of a managed cluster. */
export interface LogPosition {
  /** The process of the job; the default is 0. */
  task?: number;
  /** The default is stdout. */
  stream?: "stdout" | "stderr";
  /** From 1; the default is the last one. */
  attempt?: number;
  /** In bytes. */
  offset?: number;
  /** Waits for the start of the job, and goes on until the attempt has ended. */
  follow?: boolean;
  signal?: AbortSignal;
}

/** Tells whether a job of a managed cluster has ended. */
export const jobEnded = (job: Pick<ManagedJob, "state">): boolean =>
  job.state === "succeeded" || job.state === "failed" || job.state === "cancelled";

/** Query parameters; one with several values is repeated. */
export type Query = Record<string, string | number | readonly string[]>;

const longPoll = 25; // seconds that one request waits for the end of a solve
const maxBackoff = 10;
const maxLine = 64 << 20;

interface Call {
  method?: string;
  body?: unknown;
  text?: string; // is sent in place of body
  headers?: Record<string, string>;
  query?: Query;
  repeatable?: boolean;
  signal?: AbortSignal | undefined;
  onStart?: (response: Response) => void; // of a stream
}

/** An error of the network, not of the server. */
class Broken extends HareError {
  override name = "Broken";
}

/** Nothing came on a stream for idleTimeout. */
class Quiet extends Broken {
  override name = "Quiet";
}

/** A client of one server. */
export class Hare {
  /** The client to pass to the generated operations, which are not retried. */
  readonly api: Client;
  private readonly url: string;
  private readonly headers: Record<string, string>;
  private readonly cfg: Required<Pick<Config, "retries" | "backoff" | "maxRetryAfter" | "idleTimeout" | "fetch">>;

  constructor(config: Config = {}) {
    const given = config.url ?? "http://127.0.0.1:8080";
    const url = URL.canParse(given) ? new URL(given) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.search || url.username) {
      throw new HareError(`url "${given}": give scheme and host, as in https://hare.example:8443`);
    }
    if (config.key && url.protocol === "http:" && !config.insecure && !isLoopback(url.hostname)) {
      throw new HareError("a key over plain HTTP can be read on the way: use https, or set insecure");
    }
    this.url = url.href.replace(/\/+$/, "");
    this.headers = config.key ? { Authorization: `Bearer ${config.key}` } : {};
    this.cfg = {
      retries: config.retries ?? 4,
      backoff: config.backoff ?? 0.2,
      maxRetryAfter: config.maxRetryAfter ?? 60,
      idleTimeout: config.idleTimeout ?? 60,
      fetch: config.fetch ?? ((input, init) => fetch(input, init)),
    };
    this.api = createClient({ baseUrl: this.url, headers: this.headers, fetch: this.cfg.fetch });
  }

  /** Solves an instance. The solve runs on the server: after a broken connection the client resumes waiting for it. */
  async solve(instance: Instance, options?: Options, call: SolveCall = {}): Promise<Result> {
    const prefer = call.progress ? "respond-async" : `wait=${longPoll}`;
    const response = await this.post(instance, options, call, prefer);
    if (response.status === 200) return (await response.json()) as Result;
    let solve = (await response.json()) as Solve;
    try {
      if (call.progress) {
        for await (const event of this.events(solve.id, 0, call.signal)) call.progress(event);
      }
      solve = await this.wait(solve.id, call.signal);
      if (solve.status === "failed") throw new HareError(`solve ${solve.id} failed: ${solve.error}`);
      return await this.result(solve.id, call.signal);
    } catch (error) {
      if (!isDone(solve)) {
        // A solve that is not cancelled ends by itself.
        await this.once(path("solves", solve.id, "cancel"), {
          method: "POST",
          signal: AbortSignal.timeout(2000),
        }).catch(() => undefined);
      }
      throw error;
    }
  }

  /** Submits a solve and does not wait for its end. */
  async submit(instance: Instance, options?: Options, call: Omit<SolveCall, "progress"> = {}): Promise<Solve> {
    const response = await this.post(instance, options, call, "respond-async");
    if (response.status === 202) return (await response.json()) as Solve;
    const id = response.headers.get("Hare-Solve-Id");
    if (!id) throw new HareError("this server answers at once and keeps no solves: call solve");
    return this.get(id);
  }

  private post(instance: Instance, options: Options | undefined, call: SolveCall, prefer: string): Promise<Response> {
    const headers = { "Idempotency-Key": call.key ?? newKey(), Prefer: prefer };
    return this.call(path("solves"), {
      method: "POST",
      body: { instance, options, name: call.name, labels: call.labels, ...call.replan },
      headers,
      repeatable: true,
      signal: call.signal,
    });
  }

  /** Resolves to the state of a solve. */
  get(id: string): Promise<Solve> {
    return this.json(path("solves", id));
  }

  /** Resolves once the solve has ended. */
  async wait(id: string, signal?: AbortSignal): Promise<Solve> {
    for (let attempt = 0; ; attempt++) {
      const began = Date.now();
      const solve = await this.json<Solve>(path("solves", id), { query: { wait: longPoll }, signal });
      if (isDone(solve)) return solve;
      if (Date.now() - began >= longPoll * 500) attempt = -1;
      // Otherwise the server did not wait: it is shutting down, or a proxy answered in its place.
      else await sleep(this.pause(attempt), signal);
    }
  }

  /**
   * Yields the events of a solve that follow the event with the id after, up to done. After a broken connection the
   * stream resumes behind the last event, so that each event comes once.
   */
  async *events(id: string, after = 0, signal?: AbortSignal): AsyncGenerator<Event> {
    for await (const m of this.follow(path("solves", id, "events"), after, signal)) {
      yield { at_s: 0, ...JSON.parse(m.data), id: m.id, type: m.event };
      if (m.event === "done") return;
    }
  }

  /** Resolves to the result of a solve that has ended. */
  result(id: string, signal?: AbortSignal): Promise<Result> {
    return this.json(path("solves", id, "result"), { signal });
  }

  /** Resolves to the schedule alone, as application/json, application/x-ndjson or text/csv. */
  async schedule(id: string, accept = "application/json", query: Record<string, string> = {}): Promise<string> {
    return (
      await this.call(path("solves", id, "schedule"), { headers: { Accept: accept }, query, repeatable: true })
    ).text();
  }

  /** Asks a solve to stop with its best schedule and bound so far; idempotent. */
  cancel(id: string): Promise<Solve> {
    return this.json(path("solves", id, "cancel"), { method: "POST" });
  }

  /** Deletes a solve that has ended. */
  delete(id: string): Promise<void> {
    return this.remove(path("solves", id));
  }

  /** Yields the solves that the server keeps, and fetches them page by page. */
  solves(query: Query = {}): AsyncGenerator<Solve> {
    return this.pages(path("solves"), "solves", query);
  }

  /** Resolves to the jobs of a solve with their times. */
  jobs(id: string, query: { sort?: string; limit?: number } = {}): Promise<SolveJobs> {
    return this.json(path("solves", id, "jobs"), { query });
  }

  /**
   * Says why a job starts and ends when it does. With by_s or earlier_s it also says which changes would end the job
   * in time; the search for changes stops after time_limit_s.
   */
  explain(
    id: string,
    job: string,
    query: { by_s?: number; earlier_s?: number; time_limit_s?: number } = {},
  ): Promise<Explanation> {
    return this.json(path("solves", id, "jobs", job), { query });
  }

  /** Resolves to the prices of GPU time, by type and time, that prove the bound. */
  prices(id: string): Promise<Prices> {
    return this.json(path("solves", id, "prices"));
  }

  /** Resolves to a lower bound on the objective of every feasible schedule. */
  bound(instance: Instance, method: Options["bound"] = "price"): Promise<BoundResult> {
    return this.json(path("bounds"), { method: "POST", body: { instance, method } });
  }

  /**
   * Verifies a result. For a replan, previous is the earlier result, which says what had started, and previousInstance
   * its instance, where that differs from instance.
   */
  verify(instance: Instance, result: Result, previous?: Result, previousInstance?: Instance): Promise<Report> {
    const body = { instance, result, previous, previous_instance: previousInstance };
    return this.json(path("verify"), { method: "POST", body });
  }

  /**
   * Yields the outcome of each scenario as soon as the server has it. The call is retried until the first outcome has
   * come; a stream that breaks later is an error.
   */
  whatIf(request: WhatIfRequest, signal?: AbortSignal): AsyncGenerator<WhatIfLine> {
    return this.jsonLines(path("what-if"), request, signal);
  }

  /** Yields the what-ifs that the server keeps, the newest first; q and label filter them. */
  whatIfs(query: Query = {}): AsyncGenerator<StoredReport> {
    return this.pages(path("what-if"), "reports", query);
  }

  /** Resolves to what a what-if that the server keeps was answered. */
  async keptWhatIf(id: string): Promise<WhatIfLine[]> {
    const headers = { Accept: "application/x-ndjson" };
    const text = await (await this.call(path("what-if", id), { headers, repeatable: true })).text();
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  /** Deletes a what-if that the server keeps. */
  deleteWhatIf(id: string): Promise<void> {
    return this.remove(path("what-if", id));
  }

  /** Simulates jobs under policies, and resolves to the report. */
  simulate(request: SimulationRequest, signal?: AbortSignal): Promise<Simulation> {
    return this.json(path("simulations"), { method: "POST", body: request, repeatable: true, signal });
  }

  /** Yields the simulations that the server keeps, the newest first; q and label filter them. */
  simulations(query: Query = {}): AsyncGenerator<StoredReport> {
    return this.pages(path("simulations"), "reports", query);
  }

  /** Resolves to what a simulation that the server keeps was answered. */
  keptSimulation(id: string): Promise<Simulation> {
    return this.json(path("simulations", id));
  }

  /** Deletes a simulation that the server keeps. */
  deleteSimulation(id: string): Promise<void> {
    return this.remove(path("simulations", id));
  }

  /**
   * Yields each run of simulate as it ends, lines of progress, and a summary last. A run that fails throws Problem.
   * The call is retried until the first line has come; a stream that breaks later is an error.
   */
  async *followSimulation(request: SimulationRequest, signal?: AbortSignal): AsyncGenerator<SimulationLine> {
    yield* this.linesUntil<SimulationLine>("summary", path("simulations"), request, signal);
  }

  /** Makes a plan of capacity, and resolves to its report. */
  capacity(request: CapacityRequest, signal?: AbortSignal): Promise<CapacityReport> {
    return this.json(path("capacity"), { method: "POST", body: request, repeatable: true, signal });
  }

  /**
   * Yields lines of progress of capacity, the first bound that is proved, and the report last. Failures are those of
   * followSimulation.
   */
  async *followCapacity(request: CapacityRequest, signal?: AbortSignal): AsyncGenerator<CapacityLine> {
    yield* this.linesUntil<CapacityLine>("report", path("capacity"), request, signal);
  }

  /** Yields the plans of capacity that the server keeps, the newest first; q and label filter them. */
  capacityPlans(query: Query = {}): AsyncGenerator<StoredReport> {
    return this.pages(path("capacity"), "reports", query);
  }

  /** Resolves to the report of a plan of capacity that the server keeps. */
  keptCapacity(id: string): Promise<CapacityReport> {
    return this.json(path("capacity", id));
  }

  /** Deletes a plan of capacity that the server keeps. */
  deleteCapacity(id: string): Promise<void> {
    return this.remove(path("capacity", id));
  }

  private async *linesUntil<T extends SimulationLine | CapacityLine>(
    end: T["line"],
    at: string,
    request: object,
    signal?: AbortSignal,
  ): AsyncGenerator<T> {
    let last = "";
    for await (const line of this.jsonLines<T>(at, request, signal)) {
      last = line.line;
      if (line.error) throw new Problem(line.error.status, line.error);
      yield line;
    }
    if (last !== end) throw new HareError(`the answer broke off before its ${end}`);
  }

  private async *jsonLines<T>(at: string, body: object, signal?: AbortSignal): AsyncGenerator<T> {
    let came = 0;
    for (let attempt = 0; ; attempt++) {
      try {
        const call = { method: "POST", body, headers: { Accept: "application/x-ndjson" }, signal };
        for await (const part of this.stream(at, call)) {
          for await (const line of lines(part, maxLine)) {
            if (line === "") continue;
            came++;
            yield JSON.parse(line);
          }
        }
        return;
      } catch (error) {
        if (came > 0) throw error;
        await this.again(error, true, attempt, signal);
      }
    }
  }

  version(): Promise<Version> {
    return this.json(path("version"));
  }

  /** The policies that sessions take, with what each goes by and its parameters. */
  async policies(): Promise<Policy[]> {
    return (await this.json<Policies>(path("policies"))).policies;
  }

  /**
   * Opens a session. The call is not retried when the network fails, since the server may have opened the session.
   */
  createSession(cluster: Cluster, more: Omit<SessionRequest, "cluster"> = {}): Promise<Session> {
    return this.json(path("sessions"), { method: "POST", body: { cluster, ...more }, repeatable: false });
  }

  session(id: string): Promise<Session> {
    return this.json(path("sessions", id));
  }

  /** The plan that a session follows. A policy that makes no plans throws a Problem with the code no_plan. */
  sessionPlan(id: string): Promise<SessionPlan> {
    return this.json(path("sessions", id, "plan"));
  }

  /** Yields the jobs of a session that have not ended; the query may have state, type, q and sort. */
  sessionJobs(id: string, query: Query = {}): AsyncGenerator<SessionJobRow> {
    return this.pages(path("sessions", id, "jobs"), "jobs", query);
  }

  /** Resolves to when a job, as in an event job_arrived, would start and end if it arrived now and no other did. */
  previewSessionJob(id: string, job: ArrivingJob): Promise<JobPreview> {
    return this.json(`${path("sessions", id)}/jobs:preview`, { method: "POST", body: job });
  }

  /** Yields the sessions, the oldest first; q and label filter them. */
  sessions(query: Query = {}): AsyncGenerator<Session> {
    return this.pages(path("sessions"), "sessions", query);
  }

  /**
   * Sends events and resolves to the answer to each. The events are numbered: after a broken connection all events are
   * sent again, and the server repeats its answers to those that it has recorded. The first event that the server
   * refuses throws EventRefused.
   */
  async apply(id: string, events: SessionEvent[]): Promise<SessionAnswer[]> {
    const text = events.map((e) => `${JSON.stringify(e)}\n`).join("");
    const headers = { "Content-Type": "application/x-ndjson", Accept: "application/x-ndjson" };
    let got = 0;
    for (let attempt = 0; attempt <= this.cfg.retries; attempt++) {
      const response = await this.call(path("sessions", id, "events"), {
        method: "POST",
        text,
        headers,
        repeatable: true,
      });
      const answers = (await response.text())
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const bad = answers.find((a) => a.error);
      if (bad && bad.error.code !== "draining") throw new EventRefused(bad.seq, bad.error);
      if (!bad && answers.length === events.length) return answers;
      got = answers.length;
      await sleep(this.pause(attempt));
    }
    throw new HareError(`${got} of ${events.length} events were answered`);
  }

  /** Yields the answers of a session, past and future, until it is deleted. */
  async *decisions(id: string, after = 0, signal?: AbortSignal): AsyncGenerator<SessionAnswer> {
    for await (const m of this.follow(path("sessions", id, "decisions"), after, signal)) yield JSON.parse(m.data);
  }

  /** Yields what changes of a session after the event of a number, until it is deleted, like clusterChanges. */
  async *sessionChanges(id: string, after = 0, signal?: AbortSignal): AsyncGenerator<Changes> {
    for await (const m of this.follow(path("sessions", id, "changes"), after, signal)) yield changes(m);
  }

  /**
   * Compares a session with the best plan in hindsight. With against, the name of a policy of sessions, the answer
   * also says what that policy would have done with the same jobs and GPUs.
   */
  regret(id: string, against?: string): Promise<Regret> {
    return this.json(path("sessions", id, "regret"), { query: against === undefined ? {} : { against } });
  }

  deleteSession(id: string): Promise<void> {
    return this.remove(path("sessions", id));
  }

  /** Resolves to the managed clusters by name. */
  async clusters(): Promise<ManagedCluster[]> {
    return (await this.json<ManagedClusterList>(path("clusters"))).clusters;
  }

  /**
   * Makes a managed cluster. Its first agent or job also makes it, with the default policy. The call is not retried
   * when the network fails.
   */
  createCluster(cluster: NewCluster): Promise<ManagedCluster> {
    return this.json(path("clusters"), { method: "POST", body: cluster, repeatable: false });
  }

  /** Resolves to a managed cluster: what is in service, and how many jobs are in which state. */
  cluster(name: string): Promise<ManagedCluster> {
    return this.json(path("clusters", name));
  }

  /** Removes a managed cluster in which no job waits or runs, with its jobs and their logs. */
  deleteCluster(name: string): Promise<void> {
    return this.remove(path("clusters", name));
  }

  /**
   * Submits a command to a managed cluster, such as
   * { command: ["python", "train.py"], gpus: 2, on: { V100: 3600, T4: 0 } }, where on has the seconds that the job
   * takes by GPU type, 0 where they are not known. The same call with the same key gives the same job.
   */
  submitJob(cluster: string, job: NewManagedJob, key = newKey()): Promise<ManagedJob> {
    const headers = { "Idempotency-Key": key };
    return this.json(path("clusters", cluster, "jobs"), { method: "POST", body: job, headers });
  }

  /**
   * Resolves to when a job would start and end if it were submitted now and no other job came, and which jobs it would
   * delay; with sooner also to which smaller job would start earlier. A cluster whose policy makes no plans throws a
   * Problem with the code no_plan.
   */
  previewJob(cluster: string, job: NewManagedJob, sooner = false): Promise<JobPreview> {
    const query = sooner ? "?sooner=true" : "";
    return this.json(`${path("clusters", cluster)}/jobs:preview${query}`, { method: "POST", body: job });
  }

  /**
   * Yields the jobs of a managed cluster, the oldest first and each with its last attempt. The query chooses and
   * orders them: state, user, name, type, label, q, sort.
   */
  clusterJobs(cluster: string, query: ManagedJob["state"] | Query = {}): AsyncGenerator<ManagedJob> {
    const all = typeof query === "string" ? { state: query } : query;
    return this.pages(path("clusters", cluster, "jobs"), "jobs", all);
  }

  /** Resolves to a job of a managed cluster: what it waits for, where it runs, how its attempts ended. */
  clusterJob(cluster: string, id: string, signal?: AbortSignal): Promise<ManagedJob> {
    return this.json(path("clusters", cluster, "jobs", id), { signal });
  }

  /** Resolves once the job has ended. */
  async waitJob(cluster: string, id: string, signal?: AbortSignal): Promise<ManagedJob> {
    for (let pause = 0.1; ; pause = Math.min(pause * 1.5, 2)) {
      const job = await this.clusterJob(cluster, id, signal);
      if (jobEnded(job)) return job;
      await sleep(pause, signal);
    }
  }

  /** Changes the weight or the labels of a job that has not ended, holds it or releases it. */
  changeJob(cluster: string, id: string, change: JobPatch): Promise<ManagedJob> {
    return this.json(path("clusters", cluster, "jobs", id), { method: "PATCH", body: change });
  }

  /**
   * Resolves to what is expected of a job with a change and without it, and which other jobs would pay or gain. A
   * cluster whose policy makes no plans throws a Problem with the code no_plan.
   */
  previewChange(cluster: string, id: string, change: JobPatch): Promise<JobChangePreview> {
    return this.json(path("clusters", cluster, "jobs", id, "preview"), { method: "POST", body: change });
  }

  /** Ends a job, and resolves before its processes have ended. A job that has ended stays as it is. */
  cancelJob(cluster: string, id: string): Promise<ManagedJob> {
    return this.json(path("clusters", cluster, "jobs", id, "cancel"), { method: "POST" });
  }

  /**
   * Yields what a process of a job has printed, in the last attempt or in the given one. A connection that breaks is
   * resumed where it broke.
   */
  async *jobLog(cluster: string, id: string, from: LogPosition = {}): AsyncGenerator<Uint8Array> {
    const { task = 0, stream = "stdout", follow = false, signal } = from;
    let { attempt, offset = 0 } = from;
    let last = !follow;
    for (let failures = 0; ; ) {
      const query: Query = { task, stream, offset };
      if (attempt !== undefined) query["attempt"] = attempt;
      if (!last) query["follow"] = "true";
      try {
        const onStart = (response: Response) => {
          attempt = Number(response.headers.get("Hare-Attempt")) || attempt;
        };
        const call = { query, headers: { Accept: "text/plain" }, signal, onStart };
        for await (const body of this.stream(path("clusters", cluster, "jobs", id, "logs"), call)) {
          for (;;) {
            const next = await body.next().catch((e: unknown) => broken(e, signal));
            if (next.done) break;
            offset += next.value.byteLength;
            failures = 0;
            yield next.value;
          }
        }
        if (last) return;
      } catch (error) {
        if (error instanceof Quiet) continue; // the job prints nothing
        if (!follow || !(error instanceof Problem) || error.code !== "not_started") {
          await this.again(error, true, failures++, signal);
          continue;
        }
      }
      // The job has not started, the attempt has ended, or the server is shutting down.
      const job = await this.clusterJob(cluster, id, signal);
      if (!job.attempts?.length) {
        if (jobEnded(job)) return;
        await sleep(0.5, signal);
      } else if (job.attempts.some((a) => a.attempt === attempt && a.ended)) {
        last = true;
      } else {
        await sleep(this.pause(0), signal);
      }
    }
  }

  /**
   * Yields what changes of a managed cluster after the change of a number, until it is deleted. Who reads again what a
   * change names has what the lists have. The first change has reset, which says that everything is to be read, unless
   * the server remembers the number.
   */
  async *clusterChanges(cluster: string, after = 0, signal?: AbortSignal): AsyncGenerator<Changes> {
    for await (const m of this.follow(path("clusters", cluster, "changes"), after, signal)) yield changes(m);
  }

  /** Resolves to how many jobs waited and ran and GPUs were used, by time; a day until now without times. */
  async clusterHistory(cluster: string, span: HistorySpan = {}): Promise<ManagedHistoryRow[]> {
    const query: Record<string, string> = {};
    if (span.from) query["from"] = span.from.toISOString();
    if (span.to) query["to"] = span.to.toISOString();
    if (span.stepS) query["step_s"] = String(span.stepS);
    return (await this.json<ManagedHistory>(path("clusters", cluster, "history"), { query })).rows;
  }

  /** Resolves to the agents of a managed cluster, one a node, by name. */
  async agents(cluster: string): Promise<Agent[]> {
    return (await this.json<AgentList>(path("clusters", cluster, "agents"))).agents;
  }

  /** Keeps new work from an agent: what runs there goes on. */
  async drain(cluster: string, agent: string, reason?: string): Promise<Agent[]> {
    const call = { method: "POST", body: { reason } };
    return (await this.json<AgentList>(path("clusters", cluster, "agents", agent, "drain"), call)).agents;
  }

  /** Ends drain. */
  async undrain(cluster: string, agent: string): Promise<Agent[]> {
    const at = path("clusters", cluster, "agents", agent, "undrain");
    return (await this.json<AgentList>(at, { method: "POST" })).agents;
  }

  // Requests and retries.

  private async json<T>(at: string, call: Call = {}): Promise<T> {
    return (await this.call(at, { repeatable: true, ...call })).json() as Promise<T>;
  }

  /** Sends a call until it is answered completely, may not be repeated, or has failed too often. */
  private async call(at: string, call: Call): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      try {
        const response = await this.once(at, call);
        // An incomplete answer counts as none.
        const body = await response.arrayBuffer().catch((e) => broken(e, call.signal));
        return new Response(body.byteLength > 0 ? body : null, { status: response.status, headers: response.headers });
      } catch (error) {
        await this.again(error, call.repeatable ?? false, attempt, call.signal);
      }
    }
  }

  private async once(at: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = { Accept: "application/json", ...this.headers, ...call.headers };
    const init: RequestInit = { method: call.method ?? "GET", headers };
    if (call.body !== undefined || call.text !== undefined) {
      headers["Content-Type"] ??= "application/json";
      init.body = call.text ?? JSON.stringify(call.body);
    }
    if (call.signal) init.signal = call.signal;
    const query = new URLSearchParams();
    for (const [name, values] of Object.entries(call.query ?? {})) {
      for (const value of [values].flat()) query.append(name, String(value));
    }
    const target = this.url + at + (query.size > 0 ? `?${query}` : "");
    const response = await this.cfg
      .fetch(target, init)
      .catch((e) => broken(e, call.signal, `${init.method} ${this.url}${at}: `));
    if (!response.ok) throw await Problem.of(response);
    return response;
  }

  /** Waits before the next attempt, or throws where there is none. */
  private async again(error: unknown, repeatable: boolean, attempt: number, signal?: AbortSignal): Promise<void> {
    let wait = this.pause(attempt);
    let retry = repeatable && error instanceof Broken && !permanent(error);
    if (error instanceof Problem) {
      wait = Math.max(wait, error.retryAfter);
      retry = (error.refused || (repeatable && error.transient)) && wait <= this.cfg.maxRetryAfter;
    }
    if (!retry || attempt >= this.cfg.retries) throw error;
    await sleep(wait, signal);
  }

  /** Returns the wait before a retry: exponential backoff with jitter in its upper half. */
  private pause(attempt: number): number {
    return Math.min(this.cfg.backoff * 2 ** attempt, maxBackoff) * (0.5 + Math.random() / 2);
  }

  /** Yields the chunks of one connection of a stream, which breaks after idleTimeout and closes when the loop ends. */
  private async *stream(at: string, call: Call): AsyncGenerator<AsyncGenerator<Uint8Array>> {
    const own = new AbortController();
    const stop = () => own.abort(call.signal?.reason);
    call.signal?.addEventListener("abort", stop);
    if (call.signal?.aborted) stop();
    const { idleTimeout } = this.cfg;
    const timedOut = () => own.abort(new Quiet(`nothing came for ${idleTimeout} s`));
    let timer = setTimeout(timedOut, idleTimeout * 1000);
    try {
      const response = await this.once(at, { ...call, signal: own.signal });
      call.onStart?.(response);
      if (!response.body) return;
      yield chunks(response.body, () => {
        clearTimeout(timer);
        timer = setTimeout(timedOut, idleTimeout * 1000);
      });
    } catch (error) {
      if (error instanceof HareError) throw error;
      broken(error, call.signal);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", stop);
      own.abort();
    }
  }

  private async *follow(at: string, after: number, signal?: AbortSignal): AsyncGenerator<Message> {
    for (let failures = 0; ; failures++) {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (after > 0) headers["Last-Event-ID"] = String(after);
      try {
        for await (const body of this.stream(at, { headers, signal })) {
          const found = messages(body, maxLine);
          for (;;) {
            // What the reader of this stream throws must not pass for the network's failure.
            const next = await found.next().catch((e) => broken(e, signal));
            if (next.done) break;
            const m = next.value;
            if (m.event === "end") throw ended(m);
            if (m.id > 0 && m.id <= after && m.event !== "reset") continue; // sent twice
            after = m.id || after;
            failures = 0;
            yield m;
          }
        }
        throw new Broken("the stream ended early");
      } catch (error) {
        await this.again(error, true, failures, signal);
      }
    }
  }

  private async *pages<T>(at: string, name: string, query: Query): AsyncGenerator<T> {
    const asked: Query = { ...query };
    for (;;) {
      const page = await this.json<Record<string, unknown>>(at, { query: asked });
      yield* page[name] as T[];
      if (!page["next"]) return;
      asked["after"] = String(page["next"]);
    }
  }

  private async remove(at: string): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.once(at, { method: "DELETE" });
        return;
      } catch (error) {
        if (attempt > 0 && error instanceof Problem && error.status === 404) return; // an attempt before did it
        await this.again(error, true, attempt);
      }
    }
  }
}

/**
 * Tells whether a connection would fail in the same way again: the certificate is not
 * trusted, or the two sides do not agree on TLS. Browsers do not report the reason.
 */
function permanent(error: unknown): boolean {
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code } = e as { code?: unknown };
    if (typeof code === "string" && /^ERR_(SSL|TLS)_|CERT|SIGNATURE/.test(code)) return true;
  }
  return false;
}

/** Throws why the network failed; what the caller ended is no failure. */
function broken(error: unknown, signal?: AbortSignal, call = ""): never {
  if (signal?.aborted && !(signal.reason instanceof Broken)) throw signal.reason;
  if (error instanceof HareError) throw error;
  if (!(error instanceof Error)) throw new Broken(call + String(error), { cause: error });
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  throw new Broken(call + error.message + cause, { cause: error });
}

/** Why the server ended a stream. */
function ended(m: Message): Problem {
  const code = String((JSON.parse(m.data) as { code?: unknown }).code ?? "");
  const status = ({ draining: 503, no_session: 404, no_solve: 404 } as Record<string, number>)[code] ?? 0;
  return new Problem(status, { code, detail: "the server ended the stream" });
}

function path(...parts: string[]): string {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function changes(m: Message): Changes {
  const none = { jobs: [], removed: [], agents: [], gpus: [], plan: false };
  return { ...none, ...JSON.parse(m.data), reset: m.event === "reset" };
}

function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
