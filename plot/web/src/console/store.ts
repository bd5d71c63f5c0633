// What the page knows of the server and of one cluster, kept up to date.
import { call, get, listen, type Message, now, pause, Refused } from "./api.js";
import { ACTIVE, ENDED, isActive, type Job, type Plan, planned, type Row, rowOf } from "./jobs.js";

export interface Cluster {
  name: string;
  created: string;
  policy: string;
  session?: string;
  agents: number;
  gpus: number;
  free_gpus: number;
  jobs: Record<string, number>;
}

export interface Agent {
  name: string;
  version: string;
  address?: string;
  state: "ready" | "draining" | "drained" | "lost";
  reason?: string;
  seen_s: number;
  heard: number; // when, on the server's clock, by seen_s
  labels?: Record<string, string>;
  devices: {
    gpu: string;
    type: string;
    state: "free" | "busy" | "quarantined";
    reason?: string;
    job?: string;
  }[];
}

export interface Session {
  id: string;
  created: string;
  policy: string;
  clock: string;
  gpus: number;
  last_seq: number;
  active: boolean;
  followed?: { helper: string; at?: string; stale?: boolean; fault?: string }; // of a helper, which keeps it
  status?: {
    now_us: number;
    jobs: number;
    waiting_tasks: number;
    running_tasks: number;
    queues: { name: string; jobs: number; waiting: number }[];
    gpus: { type: string; in_service: number; free: number; gathered: number; held: number }[];
  };
  planning?: {
    state: string;
    fallback?: string;
    made: number;
    taken: number;
    refused: number;
    failed: number;
    late: number;
    error?: string;
  };
}

// Minute is a row of a cluster's history.
export interface Minute {
  at: string;
  waiting: number;
  running: number;
  waiting_gpus: number;
  used: Record<string, number>;
  in_service: Record<string, number>;
  started: number;
  ended: number;
  wait_s?: number;
}

// Gantt is the chart that a server makes of a cluster.
export interface Gantt {
  now: string;
  rows: { gpu: string; type: string; node: string }[];
  spans: {
    job: string;
    name?: string;
    rows: number[];
    from: string;
    to: string; // now, where nobody knows
    kind: "past" | "now" | "plan";
    earliest_end?: string;
  }[];
}

class Watched {
  private readonly watchers = new Set<() => void>();
  private told = false;

  watch(f: () => void): () => void {
    this.watchers.add(f);
    return () => void this.watchers.delete(f);
  }

  // tell tells the watchers soon, once for all that comes until then: a table of 100,000 rows takes time to draw.
  tell(): void {
    if (this.told) return;
    this.told = true;
    setTimeout(() => {
      this.told = false;
      for (const f of this.watchers) f();
    }, 30);
  }
}

// Server is what is known of the server.
export class Server extends Watched {
  version = "";
  clusters: Cluster[] | null = null; // null before the first answer
  managed = true; // whether the server manages clusters
  solves = 0; // 0 or 1: whether there is one
  sessions = 0;
  followed: Session[] = []; // sessions of helpers
  keyWanted = false;
  keyed = false; // whether the server asks for keys
  mayChange = true; // whether the reader may cancel and drain
  private epoch = 0; // counts keys
  staleSince = 0; // 0 while the server answers
  lastAnswer = 0;

  answered(): void {
    this.lastAnswer = now();
    if (this.staleSince) {
      this.staleSince = 0;
      this.tell();
    }
  }

  // failed notes that a call had no answer; refusals are answers.
  failed(e: unknown): void {
    if (e instanceof Refused && e.status < 500) return;
    if (!this.staleSince) {
      this.staleSince = this.lastAnswer || now();
      this.tell();
    }
  }

  // keyChanged forgets what another key saw, and what it allowed.
  keyChanged(): void {
    this.epoch++;
    this.clusters = null;
    this.mayChange = false;
  }

  async load(): Promise<void> {
    const began = this.epoch;
    this.version = (await get<{ version: string }>("/v1/version")).version;
    const list = async <T>(path: string): Promise<T[]> => {
      const answer = await get<Record<string, T[]>>(path);
      return Object.values(answer).find(Array.isArray) ?? [];
    };
    const none = <T>(e: unknown): T[] => {
      if (e instanceof Refused && e.status === 404) return [];
      throw e;
    };
    const [clusters, solves, sessions, helpers] = await Promise.all([
      list<Cluster>("/v1/clusters").catch((e: unknown) => {
        if (e instanceof Refused && e.status === 404) this.managed = false;
        return none<Cluster>(e);
      }),
      list("/v1/solves?limit=1").catch(none),
      list("/v1/sessions?limit=1").catch(none),
      list<Session>("/v1/sessions?label=helper").catch(none<Session>),
    ]);
    if (began !== this.epoch) return; // the reader has logged out, or in with another key
    this.clusters = clusters;
    this.solves = solves.length;
    this.sessions = sessions.length;
    this.followed = helpers.filter(s => s.followed);
    this.keyWanted = false;
    this.answered();
    this.tell();
  }

  // askRole finds out whether the key may change something, by a call that changes nothing: those who may are told
  // what is wrong with its body.
  async askRole(): Promise<void> {
    const asked = { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" };
    this.mayChange = await call("/v1/verify", asked).then(
      () => true,
      (e: unknown) => e instanceof Refused && (e.status === 400 || e.status === 422),
    );
    this.tell();
  }
}

// shown waits until the reader sees the page.
export function shown(): Promise<void> {
  return new Promise(done => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

const HIDDEN = 5000; // milliseconds after which a page that nobody sees stops to listen
const PAGE = 1000;
const MOST_SINGLE = 40; // jobs that are asked for one by one
export const MOST_ENDED = 100_000; // jobs that have ended and are read, the latest

interface Change {
  jobs?: string[];
  agents?: string[];
  plan?: boolean;
  removed?: string[];
}

// ClusterStore keeps the jobs, nodes and plan of one cluster.
export class ClusterStore extends Watched {
  doc: Cluster | null = null;
  agents: Agent[] = [];
  session: Session | null = null;
  plan: Plan | null | undefined; // null where the policy makes none
  history: Minute[] | null = null;
  readonly rows = new Map<string, Row>();
  version = 0; // grows with each change
  loaded = false; // whether the jobs that have not ended are known
  complete = false; // whether those that have ended are known as well
  older = 0; // how many of them are not read, because there are more than MOST_ENDED
  live = false; // whether the server streams changes
  gone = false; // no such cluster
  private types = new Map<string, string>();
  private readonly end = new AbortController();
  private last = ""; // id of the last change
  private readonly due = { jobs: new Set<string>(), all: false, agents: false, plan: false };
  private wake: () => void = () => {};
  readonly path: string;

  constructor(
    readonly name: string,
    private readonly server: Server,
  ) {
    super();
    this.path = `/v1/clusters/${encodeURIComponent(name)}`;
  }

  get signal(): AbortSignal {
    return this.end.signal;
  }

  stop(): void {
    this.end.abort();
  }

  typeOf = (gpu: string): string | undefined => this.types.get(gpu);

  private changed(): void {
    this.version++;
    this.server.answered();
    this.tell();
  }

  // run keeps the store up to date until stop is called.
  async run(): Promise<void> {
    for (let wait = 500; !this.signal.aborted; wait = Math.min(15e3, wait * 2)) {
      const began = performance.now();
      try {
        await shown();
        await this.all();
        await this.follow();
      } catch (e) {
        if (this.signal.aborted) return;
        if (document.hidden) continue;
        if (e instanceof Refused && e.status === 404) {
          this.gone = true;
          this.tell();
        }
        this.server.failed(e);
      }
      if (performance.now() - began > 30e3) wait = 500; // it went well for a while
      await pause(wait * (0.5 + Math.random()), this.signal);
    }
  }

  // all loads all but the jobs that have ended.
  private async all(): Promise<void> {
    await this.describe();
    await this.active();
    this.loaded = true;
    this.gone = false;
    this.changed();
    if (!this.complete) void this.ended();
    await this.planNow();
    this.changed();
  }

  private async describe(): Promise<void> {
    const [doc, agents] = await Promise.all([
      get<Cluster>(this.path, this.signal),
      get<{ agents: Agent[] | null }>(`${this.path}/agents`, this.signal),
    ]);
    const at = now();
    this.doc = doc;
    this.agents = agents.agents ?? [];
    for (const a of this.agents) a.heard = at - a.seen_s * 1e3;
    this.types = new Map(this.agents.flatMap(a => a.devices.map(d => [d.gpu, d.type] as const)));
    this.changed();
  }

  // list reads the jobs of a query, page by page, until page returns true. total counts those of all pages.
  private async list(query: string, page: (rows: Row[], total: number) => boolean | void): Promise<void> {
    for (let after = ""; ; ) {
      const answer = await get<{ jobs: Job[] | null; next?: string; total: number }>(
        `${this.path}/jobs?${query}&limit=${PAGE}${after && "&after=" + encodeURIComponent(after)}`,
        this.signal,
      );
      const at = now();
      const rows = (answer.jobs ?? []).map(j => rowOf(j, at, this.typeOf));
      this.server.answered();
      if (page(rows, answer.total) || !answer.next || !rows.length) return;
      after = answer.next;
    }
  }

  private async active(): Promise<void> {
    const seen = new Set<string>();
    const first = !this.loaded;
    await Promise.all(
      ACTIVE.map(state =>
        this.list(`state=${state}`, rows => {
          for (const r of rows) {
            seen.add(r.id);
            this.rows.set(r.id, r);
          }
          if (first) this.changed();
        }),
      ),
    );
    const left = [...this.rows.values()].filter(r => isActive(r.state) && !seen.has(r.id)).map(r => r.id);
    if (left.length <= MOST_SINGLE) await this.single(left);
    else await this.ended(left.length);
  }

  // single asks for single jobs.
  private async single(ids: readonly string[]): Promise<void> {
    await Promise.all(
      ids.map(async id => {
        try {
          const job = await get<Job>(`${this.path}/jobs/${id}`, this.signal);
          this.rows.set(id, rowOf(job, now(), this.typeOf));
        } catch (e) {
          if (!(e instanceof Refused && e.status === 404)) throw e;
          this.rows.delete(id);
        }
      }),
    );
  }

  private reading: Promise<void> | undefined;

  // ended reads the jobs that have ended, the latest first: MOST_ENDED of them, or what brings it to so many that were
  // active and are not. One reading goes on at a time.
  private ended(unknown = Infinity): Promise<void> {
    return (this.reading ??= this.readEnded(unknown).finally(() => (this.reading = undefined)));
  }

  private async readEnded(unknown: number): Promise<void> {
    let read = 0;
    try {
      const query = ENDED.map(state => `state=${state}`).join("&") + "&sort=-submitted";
      await this.list(query, (rows, total) => {
        for (const r of rows) {
          if (isActive(this.rows.get(r.id)?.state ?? "")) unknown--;
          this.rows.set(r.id, r);
        }
        read += rows.length;
        this.older = Math.max(0, total - MOST_ENDED);
        this.changed();
        return read >= MOST_ENDED || unknown <= 0;
      });
      this.complete = true;
      this.changed();
    } catch (e) {
      if (!this.signal.aborted) this.server.failed(e);
    }
  }

  // planNow reads the session and its plan, and gives rows without expected times those of the plan.
  private async planNow(): Promise<void> {
    const id = this.doc?.session;
    if (!id) return;
    const known = <T>(before: T): ((e: unknown) => T | null) => {
      return e => {
        if (!(e instanceof Refused) || e.status >= 500) throw e;
        return e.status === 404 ? null : before; // too many calls say nothing of a plan
      };
    };
    const [session, plan] = await Promise.all([
      get<Session>(`/v1/sessions/${id}`, this.signal).catch(known(this.session)),
      get<Plan>(`/v1/sessions/${id}/plan`, this.signal).catch(known(this.plan)),
    ]);
    this.session = session;
    this.plan = plan;
    if (!plan) return;
    // Where the clock of the session is the server's, it began when the session was made.
    const at = session?.clock === "server" ? Date.parse(session.created) + plan.at_s * 1e3 : now();
    for (const p of plan.jobs) {
      const r = this.rows.get(p.job);
      if (r) planned(r, p, plan, at);
    }
  }

  private async past(): Promise<void> {
    const to = now();
    const from = to - 86400e3;
    const query = `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}&step_s=600`;
    try {
      this.history = (
        await get<{ rows: Minute[] | null }>(`${this.path}/history?${query}`, this.signal)
      ).rows;
    } catch (e) {
      if (!(e instanceof Refused)) throw e;
      this.history = null;
    }
    this.tell();
  }

  // follow hears of changes by a stream.
  private async follow(): Promise<void> {
    const ended = new AbortController();
    this.signal.addEventListener("abort", () => ended.abort(), { signal: ended.signal });
    // Browsers open few connections to a server: pages that nobody sees leave theirs to others.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => ended.abort(), HIDDEN);
    };
    document.addEventListener("visibilitychange", look);
    let failure: unknown;
    const pump = this.pump(ended.signal).catch((e: unknown) => {
      failure = e;
      ended.abort();
    });
    const opened = () => {
      this.live = true;
      this.tell();
    };
    try {
      const hear = (m: Message) => this.hear(m.event, m.data, m.id);
      await listen(`${this.path}/changes`, this.last, ended.signal, hear, opened);
    } catch (e) {
      throw failure ?? e;
    } finally {
      this.live = false;
      document.removeEventListener("visibilitychange", look);
      clearTimeout(timer);
      ended.abort();
      this.wake();
      await pump;
    }
    if (failure) throw failure;
  }

  private hear(event: string, data: string, id: string): void {
    if (id) this.last = id;
    if (event === "reset") {
      if (this.complete) void this.ended();
      return this.ask({ all: true, agents: true, plan: true });
    }
    const c = JSON.parse(data) as Change; // removed jobs have ended
    this.ask({ jobs: [...(c.jobs ?? []), ...(c.removed ?? [])], agents: !!c.agents?.length, plan: !!c.plan });
  }

  // ask has something read again.
  ask(what: { jobs?: string[]; all?: boolean; agents?: boolean; plan?: boolean }): void {
    for (const j of what.jobs ?? []) this.due.jobs.add(j);
    this.due.all ||= !!what.all || this.due.jobs.size > MOST_SINGLE;
    this.due.agents ||= !!what.agents || !!what.jobs?.length;
    this.due.plan ||= !!what.plan;
    this.wake();
  }

  // pump reads what is due: single jobs at once, and what may be long, the lists of jobs and of nodes, in no more than
  // a tenth of the time.
  private async pump(signal: AbortSignal): Promise<void> {
    const { due } = this;
    let history = 0;
    let rest = 0; // until when lists of jobs are not read again
    let restNodes = 0; // and those of nodes
    const until = (began: number): number => {
      const ended = performance.now();
      return ended + Math.min(60e3, 10 * (ended - began));
    };
    while (!signal.aborted) {
      const now = performance.now();
      const lists = (due.all || due.plan) && now >= rest;
      const nodes = lists || (due.agents && now >= restNodes);
      const old = !history || now - history >= 60e3;
      if (!lists && !nodes && !old && !due.jobs.size) {
        let wait = 5000;
        if (due.all || due.plan) wait = Math.min(wait, rest - now);
        if (due.agents) wait = Math.min(wait, restNodes - now);
        await new Promise<void>(done => {
          const t = setTimeout(done, Math.max(20, wait));
          this.wake = () => {
            clearTimeout(t);
            done();
          };
        });
        continue;
      }
      if (old) {
        history = now;
        await this.past();
      }
      const jobs = [...due.jobs];
      due.jobs.clear();
      if (lists) due.all = due.plan = false;
      if (nodes) {
        due.agents = false;
        await this.describe();
        restNodes = until(now);
      }
      if (jobs.length <= MOST_SINGLE) await this.single(jobs);
      if (lists) {
        // A new plan changes the expected times of all that wait.
        const began = performance.now();
        await this.active();
        await this.planNow();
        rest = until(began);
      }
      this.changed();
      await pause(50, signal);
    }
  }
}
