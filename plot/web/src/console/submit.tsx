// A new job: what would happen to it, and to others, before it is submitted.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, now as serverNow, Refused } from "./api.js";
import type { Job } from "./jobs.js";
import { EMPTY, Fault, type Form, jobOf, type Preview, smaller } from "./newjob.js";
import { Notice, Panel, Table, useNow, useWatched } from "./parts.js";
import { link } from "./route.js";
import type { ClusterStore, Server } from "./store.js";
import { ahead, clock, count, figure, notBefore, span, whole } from "./words.js";

const WAIT = 300; // milliseconds without a key pressed after which the server is asked
const AGAIN = 15e3; // milliseconds after which a preview is old
const MOST = 10; // delayed jobs that are listed

const said = (e: unknown): string => (e instanceof Refused ? e.message : "The server does not answer.");

interface Known {
  body: string; // that was asked about
  preview?: Preview;
  at: number;
  error?: string;
}

export function Submit({ store, server }: { store: ClusterStore; server: Server }) {
  useWatched(store);
  const now = useNow();
  const [form, setForm] = useState<Form>(EMPTY);
  const [json, setJSON] = useState<string | null>(null); // null: the form says what the job is
  const [known, setKnown] = useState<Known | null>(null);
  const [sending, setSending] = useState(false);
  const [error, setError] = useState("");
  const types = useMemo(
    () => [...new Set(store.agents.flatMap(a => a.devices.map(d => d.type)))].sort(),
    [store.agents],
  );
  const [body, fault] = useMemo(() => {
    try {
      if (json !== null) return [json.trim() && JSON.stringify(JSON.parse(json)), ""];
      return [form.command.trim() && JSON.stringify(jobOf(form)), ""];
    } catch (e) {
      return ["", e instanceof Fault ? e.message : `this is not JSON: ${(e as Error).message}`];
    }
  }, [form, json]);
  // A request that is sent twice submits one job.
  const key = useMemo(() => [...crypto.getRandomValues(new Uint32Array(4))].join("-"), [body]);
  const send = (body: string, path: string, headers = {}, signal?: AbortSignal) =>
    call(`${store.path}/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body,
      ...(signal && { signal }),
    });

  // What is typed is looked at when the reader pauses.
  const [asked, ask] = useState({ body: "", fault: "" });
  useEffect(() => {
    setError("");
    const timer = setTimeout(() => ask({ body, fault }), WAIT);
    return () => clearTimeout(timer);
  }, [body, fault]);
  useEffect(() => {
    if (!asked.body || !server.mayChange) return;
    const stop = new AbortController();
    send(asked.body, "jobs:preview?sooner=true", {}, stop.signal)
      .then(async r => setKnown({ ...asked, preview: (await r.json()) as Preview, at: serverNow() }))
      .catch((e: unknown) => {
        if (!stop.signal.aborted) setKnown({ ...asked, error: said(e), at: serverNow() });
      });
    return () => stop.abort();
  }, [asked, server.mayChange, Math.floor(now / AGAIN)]);

  if (!server.mayChange) return <Notice>This key may not submit jobs.</Notice>;
  const field = (
    name: keyof Omit<Form, "times">,
    text: string,
    more: object = {},
    hint?: ComponentChildren,
  ) => (
    <label>
      {text}
      <input
        value={form[name]}
        spellcheck={false}
        autocomplete="off"
        onInput={e => setForm({ ...form, [name]: e.currentTarget.value })}
        {...more}
      />
      {hint && <small>{hint}</small>}
    </label>
  );
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!body || sending) return;
    setSending(true);
    try {
      const job = (await (await send(body, "jobs", { "Idempotency-Key": key })).json()) as Job;
      store.ask({ jobs: [job.id], plan: true });
      location.hash = link(store.name, "job", job.id);
    } catch (e) {
      setError(said(e));
      setSending(false);
    }
  };
  return (
    <div class="two">
      <Panel
        title="The job"
        id="job"
        aside={
          <button
            type="button"
            aria-pressed={json !== null}
            onClick={() => setJSON(json === null ? body && JSON.stringify(JSON.parse(body), null, 2) : null)}
          >
            as JSON
          </button>
        }
      >
        <form class="new" onSubmit={e => void submit(e)}>
          {json !== null ? (
            <label>
              Document of the job
              <textarea
                rows={14}
                value={json}
                spellcheck={false}
                placeholder={'{"command": ["python", "train.py"], "gpus": 2, "on": {"V100": 3600}}'}
                onInput={e => setJSON(e.currentTarget.value)}
              />
            </label>
          ) : (
            <>
              {field(
                "command",
                "Command",
                { required: true, placeholder: "python train.py --epochs 3" },
                "No shell reads it; quotes keep words together.",
              )}
              {field("gpus", "GPUs", { type: "number", min: 1, class: "short" })}
              {types.length > 0 && (
                <fieldset>
                  <legend>How long it takes on each type that it may run on</legend>
                  <div class="times">
                    {types.map(t => (
                      <label key={t}>
                        {t}
                        <input
                          value={form.times[t] ?? ""}
                          placeholder="45 min"
                          autocomplete="off"
                          onInput={e =>
                            setForm({ ...form, times: { ...form.times, [t]: e.currentTarget.value } })
                          }
                        />
                      </label>
                    ))}
                  </div>
                  <small>? where nobody knows. All empty: any type, and the server learns the times.</small>
                </fieldset>
              )}
              {field("name", "Name", { placeholder: "of the command" })}
              {field("user", "User")}
              {field("labels", "Labels", { placeholder: "team=vision night" })}
            </>
          )}
          {asked.fault && <Notice>{asked.fault[0]!.toUpperCase() + asked.fault.slice(1)}.</Notice>}
          {error && <Notice>{error}</Notice>}
          <button type="submit" class="fresh" disabled={sending}>
            Submit
          </button>
        </form>
      </Panel>
      <Panel title="If it is submitted now" id="preview">
        <div aria-live="polite" aria-busy={known?.body !== body}>
          {!body ? (
            <p class="soft">
              {fault ? "" : "When it would start, and whom it would delay, is said here as you type."}
            </p>
          ) : known ? (
            <Expected known={known} now={now} store={store} stale={known.body !== body} />
          ) : (
            <p class="soft">Asking …</p>
          )}
        </div>
      </Panel>
    </div>
  );
}

// Expected says what is expected; jobs are linked to those of a cluster, if there is one.
export function Expected(p: { known: Known; now: number; store?: ClusterStore; stale: boolean }) {
  const { preview: v, at, error } = p.known;
  if (!v) return <Notice>{error}</Notice>;
  const after = (s: number | undefined): number => (s === undefined ? NaN : at + s * 1e3);
  const [start, end, earliest] = [v.expected_in_s, v.expected_end_in_s, v.earliest_end_in_s].map(after) as [
    number,
    number,
    number,
  ];
  return (
    <div class={p.stale ? "old" : ""}>
      <p class="answer">
        {isNaN(start)
          ? `No start is known: ${v.reason_short || "the plan has none"}.`
          : v.expected_in_s === 0
            ? "It starts at once."
            : `It starts ${ahead(start, at)}.`}
      </p>
      {v.reason && <p>{v.reason}</p>}
      <dl class="pairs">
        {v.place && (
          <>
            <dt>place in the queue</dt>
            <dd>{figure(v.place)}</dd>
          </>
        )}
        {!isNaN(end) && (
          <>
            <dt>ends, about</dt>
            <dd>
              {clock(end, at)}, {span((end - start) / 1e3)} after its start
            </dd>
          </>
        )}
        {!isNaN(earliest) && (
          <>
            <dt>ends not before</dt>
            <dd>{notBefore(earliest, at)}, proved</dd>
          </>
        )}
      </dl>
      <p>
        <b>{v.delayed ? `${count(v.delayed, "job")} would end later` : "It delays nobody."}</b>
        {v.delayed > 0 && ":"}
      </p>
      {v.delayed > 0 && (
        <Table label="Jobs that end later" heads={["Job", "Name", "User", "Ends later by"]}>
          {v.delays.slice(0, MOST).map(d => (
            <tr key={d.job}>
              <td>{p.store ? <a href={link(p.store.name, "job", d.job)}>{d.job}</a> : <bdi>{d.job}</bdi>}</td>
              <td>
                <bdi class="cut">{d.name}</bdi>
              </td>
              <td>
                <bdi class="cut">{d.user}</bdi>
              </td>
              <td>{span(d.by_s)}</td>
            </tr>
          ))}
        </Table>
      )}
      {v.delayed > MOST && <p class="soft">and {whole(v.delayed - MOST)} more</p>}
      {v.sooner && (
        <p>
          With {smaller(v.sooner, p.known.body)} it would start{" "}
          {v.sooner.expected_in_s === 0 ? "at once" : ahead(after(v.sooner.expected_in_s), at)}
          {v.sooner.expected_end_in_s !== undefined &&
            ` and end ${ahead(after(v.sooner.expected_end_in_s), at)}`}
          .
        </p>
      )}
      <p class="soft">This holds if {v.assumes}.</p>
    </div>
  );
}
