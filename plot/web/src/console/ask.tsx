// One more job for the queue of another scheduler: when it would start, asked of a copy of its helper's session.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, now as serverNow, Refused } from "./api.js";
import type { Preview } from "./newjob.js";
import { Panel, useNow } from "./parts.js";
import { Expected } from "./submit.js";
import { seconds } from "./words.js";

const WAIT = 300; // milliseconds without a change after which the server is asked

export function Ask({ id, path, types }: { id: string; path: string; types: string[] }) {
  const now = useNow();
  const [gpus, setGPUs] = useState("1");
  const [time, setTime] = useState("");
  const [left, setLeft] = useState<string[]>([]); // types that it may not run on
  const [known, setKnown] = useState<{ body: string; preview?: Preview; at: number; error?: string } | null>(
    null,
  );
  const body = useMemo(() => {
    const [tasks, estimate] = [Number(gpus), seconds(time)];
    const on = types.filter(t => !left.includes(t));
    if (!Number.isInteger(tasks) || tasks < 1 || !(estimate > 0) || !on.length) return "";
    const profiles = Object.fromEntries(on.map(t => [t, {}]));
    return JSON.stringify({ id: "a new job", sync: "rigid", tasks, on: profiles, estimate_s: estimate });
  }, [gpus, time, left, types.join()]);
  useEffect(() => {
    if (!body) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const asked = { method: "POST", headers: { "Content-Type": "application/json" }, body };
      call(`${path}/jobs:preview`, { ...asked, signal: stop.signal })
        .then(async r => setKnown({ body, preview: (await r.json()) as Preview, at: serverNow() }))
        .catch((e: unknown) => {
          const error = e instanceof Refused ? e.message : "The server does not answer.";
          if (!stop.signal.aborted) setKnown({ body, error, at: serverNow() });
        });
    }, WAIT);
    return () => (clearTimeout(timer), stop.abort());
  }, [body]);
  return (
    <Panel title="When would one more job start?" id={`ask-${id}`}>
      <form class="ask" onSubmit={e => e.preventDefault()}>
        <label>
          GPUs
          <input
            type="number"
            min={1}
            class="short"
            value={gpus}
            onInput={e => setGPUs(e.currentTarget.value)}
          />
        </label>
        <label>
          it runs for
          <input
            class="short"
            value={time}
            placeholder="45 min"
            autocomplete="off"
            onInput={e => setTime(e.currentTarget.value)}
          />
        </label>
        {types.length > 1 &&
          types.map(t => (
            <label key={t} class="tick">
              <input
                type="checkbox"
                checked={!left.includes(t)}
                onChange={() => setLeft(left.includes(t) ? left.filter(x => x !== t) : [...left, t])}
              />
              {t}
            </label>
          ))}
      </form>
      <div aria-live="polite" aria-busy={known?.body !== body}>
        {body && known && <Expected known={known} now={now} stale={known.body !== body} />}
      </div>
    </Panel>
  );
}
