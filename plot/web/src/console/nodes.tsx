// Nodes as a grid of GPUs, coloured by job, fault and drain.
import { useState } from "preact/hooks";
import { call, now } from "./api.js";
import { faulty } from "./health.js";
import { shade } from "./palette.js";
import { Notice, useTheme, useWatched } from "./parts.js";
import { link } from "./route.js";
import type { Agent, ClusterStore, Server } from "./store.js";
import { count, span } from "./words.js";

const byName = new Intl.Collator("en", { numeric: true });

export function Nodes({ store, server }: { store: ClusterStore; server: Server }) {
  useWatched(store);
  useTheme();
  const [q, setQ] = useState("");
  const text = q.trim().toLowerCase();
  const shown = store.agents
    .filter(a => !text || matches(a, text))
    .sort((a, b) => byName.compare(kind(a) + a.name, kind(b) + b.name));
  return (
    <>
      <div class="tools">
        <input
          type="search"
          value={q}
          placeholder="Find a node, GPU type, job or state"
          aria-label="Find a node"
          onInput={e => setQ(e.currentTarget.value)}
        />
        <p class="soft" role="status">
          {count(shown.length, "node")},{" "}
          {count(
            shown.reduce((n, a) => n + a.devices.length, 0),
            "GPU",
          )}
        </p>
        <p class="key soft">
          <span>
            <i class="did" /> busy, coloured by job
          </span>
          <span>
            <i class="idle" /> free
          </span>
          <span>
            <i class="fault" /> in quarantine
          </span>
          <span>
            <i class="off" /> draining, lost
          </span>
        </p>
      </div>
      {shown.length === 0 && (
        <p class="none">{store.agents.length ? "No node matches." : "No node has registered yet."}</p>
      )}
      <ul class="nodes">
        {shown.map(a => (
          <Node key={a.name} a={a} store={store} server={server} />
        ))}
      </ul>
    </>
  );
}

const kind = (a: Agent): string => a.devices[0]?.type ?? "";

function matches(a: Agent, text: string): boolean {
  const labels = Object.entries(a.labels ?? {}).map(([k, v]) => `${k}=${v}`);
  return [a.name, a.state, ...labels, ...a.devices.flatMap(d => [d.type, d.state, d.job ?? ""])].some(s =>
    s.toLowerCase().includes(text),
  );
}

function Node({ a, store, server }: { a: Agent; store: ClusterStore; server: Server }) {
  const [error, setError] = useState("");
  const [asks, setAsks] = useState(false);
  const busy = a.devices.filter(d => d.state === "busy").length;
  const jobs = [...new Set(a.devices.map(d => d.job).filter(Boolean))] as string[];
  const drained = a.state === "draining" || a.state === "drained";
  const types = [...new Set(a.devices.map(d => d.type))].join(", ");
  const turn = async (what: string) => {
    setAsks(false);
    try {
      await call(`${store.path}/agents/${encodeURIComponent(a.name)}/${what}`, {
        method: "POST",
      });
      setError("");
      store.ask({ agents: true });
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <li class={`node ${a.state}`}>
      <header>
        <h2>
          <bdi>{a.name}</bdi>
        </h2>
        <span class="soft">
          {types} · {busy} of {a.devices.length} busy
        </span>
        {a.state !== "ready" && <b class="mark">{a.state}</b>}
      </header>
      <ul class="cells" aria-label={`GPUs of ${a.name}`}>
        {a.devices.map(d => {
          const name = d.job ? store.rows.get(d.job)?.name : "";
          const say = `${d.gpu}, ${d.type}: ${d.state}${d.job ? `, ${d.job} ${name ?? ""}` : ""}${d.reason ? `, ${d.reason}` : ""}`;
          const number = d.gpu.slice(d.gpu.lastIndexOf("/") + 1);
          const shades = d.job ? shade(Number(d.job.slice(1))) : undefined;
          return (
            <li
              key={d.gpu}
              class={`gpu ${a.state === "lost" ? "lost" : faulty(d) ? "quarantined" : d.state}`}
              title={say}
            >
              {d.job ? (
                <a
                  href={link(store.name, "job", d.job)}
                  aria-label={say}
                  style={{ background: shades!.fill, color: shades!.ink }}
                >
                  {d.job}
                </a>
              ) : (
                <span aria-label={say} role="img">
                  {d.state === "quarantined" ? "!" : number}
                </span>
              )}
            </li>
          );
        })}
      </ul>
      {(a.reason || a.devices.some(d => d.reason)) && (
        <p class="why">
          {[a.reason, ...a.devices.filter(d => d.reason).map(d => `${d.gpu}: ${d.reason}`)]
            .filter(Boolean)
            .join("; ")}
        </p>
      )}
      {a.state === "lost" && <p class="why">not heard for {span((now() - a.heard) / 1e3)}</p>}
      {error && <Notice>{error}</Notice>}
      {server.mayChange && a.state !== "lost" && (
        <div class="acts">
          {drained ? (
            <button type="button" onClick={() => void turn("undrain")}>
              undrain
            </button>
          ) : asks ? (
            <>
              <span>
                {jobs.length
                  ? `${count(jobs.length, "job")} of it go on; nothing new starts here.`
                  : "Nothing new starts here."}
              </span>
              <button type="button" class="danger" onClick={() => void turn("drain")}>
                drain
              </button>
              <button type="button" onClick={() => setAsks(false)}>
                keep
              </button>
            </>
          ) : (
            <button type="button" onClick={() => setAsks(true)}>
              drain …
            </button>
          )}
        </div>
      )}
    </li>
  );
}
