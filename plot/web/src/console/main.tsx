// The console: what runs, what waits and until when, and how good that is.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { now, pause, Refused, useKey, whenKeyWanted } from "./api.js";
import { GanttPage } from "./gantt.js";
import { JobPage } from "./job.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { useNow, useWatched } from "./parts.js";
import { Queue } from "./queue.js";
import { ReportPage, Reports } from "./reports.js";
import { link, parse, type Route } from "./route.js";
import { SessionPage, Sessions } from "./sessions.js";
import { Compare, SolvePage, Solves } from "./solves.js";
import { Start } from "./start.js";
import { ClusterStore, Server } from "./store.js";
import { Submit } from "./submit.js";
import { clock, span } from "./words.js";

const server = new Server();
let store: ClusterStore | null = null;

whenKeyWanted(() => {
  server.keyWanted = server.keyed = true;
  server.keyChanged();
  server.tell();
});

// keep asks for what the server has, soon again while it does not answer.
async function keep(): Promise<void> {
  for (;;) {
    try {
      if (!server.keyWanted) await server.load();
    } catch (e) {
      server.failed(e);
    }
    await pause(server.staleSince || server.keyWanted || !server.clusters ? 1000 : 15_000);
  }
}

// choose makes the store of a cluster and stops the one before.
function choose(name: string): ClusterStore | null {
  if (store?.name === name) return store;
  store?.stop();
  store = name ? new ClusterStore(name, server) : null;
  void store?.run();
  return store;
}

function App() {
  useWatched(server);
  const [route, setRoute] = useState<Route>(parse(location.hash));
  useEffect(() => {
    const f = () => setRoute(parse(location.hash));
    addEventListener("hashchange", f);
    return () => removeEventListener("hashchange", f);
  }, []);
  const clusters = server.clusters ?? [];
  const home = route.page === "overview" && !route.cluster;
  const here = clusters.find(c => c.name === store?.name) ?? clusters[0]; // the one before, if it is there
  const cluster = route.cluster || (home ? (here?.name ?? "") : (store?.name ?? here?.name ?? ""));
  const [, again] = useState(0);
  useEffect(() => {
    const s = choose(server.keyWanted ? "" : cluster);
    again(n => n + 1);
    return s?.watch(() => again(n => n + 1));
  }, [cluster, server.keyWanted]);
  const current = store?.name === cluster ? store : null;
  const page = `${route.page} ${route.id}`;
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      // Who goes on by keyboard goes on in the new page.
      scrollTo(0, 0);
      document.getElementById("main")?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [page, route.cluster]);
  useEffect(() => {
    const what = route.id || (route.page === "overview" ? cluster : route.page);
    document.title = what ? `${what} · Hare` : "Hare";
  }, [page, cluster]);
  return (
    <>
      <Top route={route} cluster={cluster} />
      <Stale />
      <main id="main" tabIndex={-1} class={"at-" + route.page}>
        {server.keyWanted ? <Login /> : <View route={route} cluster={cluster} current={current} />}
      </main>
      <footer class="soft">
        <span>hare {server.version}</span>
        <a href="/docs">HTTP interface</a>
        <a href={link("", "start")}>how to begin</a>
        {current?.doc && <span>{current.live ? "changes arrive as they happen" : "connecting …"}</span>}
      </footer>
    </>
  );
}

function View({ route, cluster, current }: { route: Route; cluster: string; current: ClusterStore | null }) {
  switch (route.page) {
    case "solves":
      return <Solves />;
    case "solve":
      return <SolvePage key={route.id} id={route.id} server={server} />;
    case "compare":
      return (
        <Compare key={route.query.toString()} a={route.query.get("a") ?? ""} b={route.query.get("b") ?? ""} />
      );
    case "sessions":
      return <Sessions server={server} />;
    case "session":
      return <SessionPage key={route.id} id={route.id} server={server} />;
    case "reports":
      return <Reports />;
    case "report":
      return <ReportPage key={route.id} id={route.id} server={server} />;
    case "start":
      return <Start server={server} cluster="" />;
  }
  if (!server.clusters && !cluster)
    return <p class="none">{server.staleSince ? "The server does not answer." : "Loading …"}</p>;
  if (!cluster) {
    if (server.followed.length) {
      return (
        <>
          {server.followed.map((s, i) => (
            <SessionPage key={s.id} id={s.id} server={server} further={i > 0} />
          ))}
        </>
      );
    }
    if (server.solves) return <Solves />;
    if (server.sessions) return <Sessions server={server} />;
    return <Start server={server} cluster="" />;
  }
  if (!current) return <p class="none">Loading …</p>;
  if (current.gone) return <p class="none">There is no cluster of that name.</p>;
  const title: Record<string, string> = {
    overview: cluster,
    queue: "Queue",
    nodes: "Nodes",
    gantt: "Past, now and plan",
    submit: "A new job",
  };
  const head = title[route.page] && (
    <h1 class={route.page === "overview" || route.page === "submit" ? "" : "hidden"}>{title[route.page]}</h1>
  );
  switch (route.page) {
    case "queue":
      return (
        <>
          {head}
          <Queue key={cluster} store={current} route={route} />
        </>
      );
    case "nodes":
      return (
        <>
          {head}
          <Nodes key={cluster} store={current} server={server} />
        </>
      );
    case "gantt":
      return (
        <>
          {head}
          <GanttPage key={cluster} store={current} />
        </>
      );
    case "submit":
      return (
        <>
          {head}
          <Submit key={cluster} store={current} server={server} />
        </>
      );
    case "job":
      return <JobPage key={cluster + route.id} store={current} server={server} id={route.id} />;
  }
  if (current.loaded && !current.agents.length && !current.rows.size)
    return <Start server={server} cluster={cluster} />;
  return (
    <>
      {head}
      <Overview key={cluster} store={current} />
    </>
  );
}

const LINKS = [
  ["overview", "Overview"],
  ["queue", "Queue"],
  ["nodes", "Nodes"],
  ["gantt", "Gantt"],
] as const;

function Top({ route, cluster }: { route: Route; cluster: string }) {
  const clusters = server.clusters ?? [];
  const here = (page: string) => (route.page === page || route.page + "s" === page ? "page" : undefined);
  return (
    <header class="top">
      <a class="brand" href="#/">
        <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
          <path
            d="M6 2c2.6 1.6 4.3 4.4 4.8 8h.9C11.7 6.600 13 3.900 15.500 2.200c.9 3 .5 5.900-1.100 8.500 2.800 1 4.600 3 4.600 5.700 0 3.300-3.100 5.600-7.200 5.600S4.600 19.800 4.600 16.600c0-2.500 1.500-4.500 3.900-5.500C6.200 8.500 5.300 5.400 6 2Z"
            fill="currentColor"
          />
        </svg>
        Hare
      </a>
      {clusters.length > 1 && (
        <label class="chooser">
          <span class="hidden">Cluster</span>
          <select
            value={cluster}
            onChange={e =>
              (location.hash = link(
                e.currentTarget.value,
                LINKS.some(l => l[0] === route.page) ? route.page : "overview",
              ))
            }
          >
            {clusters.map(c => (
              <option key={c.name}>{c.name}</option>
            ))}
          </select>
        </label>
      )}
      <nav aria-label="Views">
        {cluster &&
          LINKS.map(([page, text]) => (
            <a key={page} href={link(cluster, page)} aria-current={here(page)}>
              {text}
            </a>
          ))}
        {cluster && server.mayChange && (
          <a href={link(cluster, "submit")} aria-current={here("submit")}>
            Submit
          </a>
        )}
        <a href={link("", "solves")} aria-current={here("solves")}>
          Solves
        </a>
        <a href={link("", "sessions")} aria-current={here("sessions")}>
          Sessions
        </a>
        <a href={link("", "reports")} aria-current={here("reports")}>
          Reports
        </a>
      </nav>
      <span class="right">
        {server.keyed && !server.keyWanted && (
          <button
            type="button"
            onClick={() => {
              useKey("");
              server.keyWanted = true;
              server.keyChanged();
              server.tell();
            }}
          >
            log out
          </button>
        )}
      </span>
    </header>
  );
}

function Stale() {
  useWatched(server);
  const t = useNow(1000);
  return (
    <div role="status">
      {server.staleSince > 0 && (
        <p class="stale">
          No answer since {clock(server.staleSince, t)}
          <span aria-hidden="true"> ({span((now() - server.staleSince) / 1e3)})</span>: what you see is from
          then. Trying again …
        </p>
      )}
    </div>
  );
}

function Login() {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (e: Event) => {
    e.preventDefault();
    useKey(text);
    server.keyChanged();
    setBusy(true);
    setError("");
    try {
      await server.askRole();
      await server.load();
    } catch (e) {
      if (e instanceof Refused) {
        setError(e.message);
        server.keyWanted = true;
      } else setError("The server does not answer.");
    }
    setBusy(false);
  };
  return (
    <form class="login panel" onSubmit={e => void enter(e)}>
      <h1>A key, please</h1>
      <p>This server asks for one. It stays in the memory of this page, and is gone when you reload it.</p>
      <label>
        API key{" "}
        <input
          type="password"
          value={text}
          autocomplete="off"
          placeholder="hare_…"
          onInput={e => setText(e.currentTarget.value)}
          required
        />
      </label>
      <button type="submit" disabled={busy}>
        open
      </button>
      {error && (
        <p class="notice" role="alert">
          {error}
        </p>
      )}
      <p class="soft">
        <code>hare key create</code> makes keys.
      </p>
    </form>
  );
}

render(<App />, document.getElementById("app")!);
void keep();
