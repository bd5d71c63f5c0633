// Calls of the server that the page comes from. The key is in memory only.

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

let key = "";
let onKey: () => void = () => {};
let skew = 0; // of the server's clock against the reader's, in milliseconds

export function useKey(text: string): void {
  key = text.trim();
}

// whenKeyWanted sets what is called where the server asks for a key.
export function whenKeyWanted(f: () => void): void {
  onKey = f;
}

// now is the time on the server's clock.
export const now = (): number => Date.now() + skew;

// call sends a request and returns its answer if its status is 2xx.
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const used = key;
  const headers = new Headers(init.headers);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const sent = Date.now();
  const r = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit" });
  const date = Date.parse(r.headers.get("Date") ?? "");
  // The Date header has whole seconds, and an answer that took long was dated at any time of the wait.
  if (!isNaN(date) && Date.now() - sent < 2000) {
    const off = date + 500 - (sent + Date.now()) / 2;
    if (Math.abs(off - skew) > 2000) skew = Math.abs(off) > 2000 ? off : 0;
  }
  if (r.ok) return r;
  let [code, detail] = ["", `${r.status} ${r.statusText}`];
  try {
    const problem = (await r.json()) as { code?: string; detail?: string };
    [code, detail] = [problem.code ?? "", problem.detail ?? detail];
  } catch {
    // not a problem document, as where a proxy answers
  }
  if (r.status === 401 && used === key) onKey(); // not of a call that another key made
  throw new Refused(r.status, code, detail);
}

const LATE = 30e3; // milliseconds after which a server that says nothing is taken for gone

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(LATE);
  const r = await call(path, { signal: signal ? AbortSignal.any([signal, late]) : late });
  return (await r.json()) as T;
}

export interface Message {
  id: string;
  event: string;
  data: string;
}

// messages splits a stream of server-sent events.
export function messages(): (text: string) => Message[] {
  let rest = "";
  return text => {
    rest += text;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop()!;
    return blocks.flatMap(block => {
      const m: Message = { id: "", event: "message", data: "" };
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        const [, field, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
        if (field === "data") data.push(value!);
        else if (field === "id") m.id = value!;
        else if (field === "event") m.event = value!;
      }
      if (!data.length) return [];
      m.data = data.join("\n");
      return [m];
    });
  };
}

// listen reads a stream of events until it ends. The server says something every 15 s at least: where it does not, the
// stream is taken for broken.
export async function listen(
  path: string,
  after: string,
  signal: AbortSignal,
  each: (m: Message) => void,
  opened: () => void = () => {},
): Promise<void> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (after) headers["Last-Event-ID"] = after;
  const quiet = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => quiet.abort(), 1.5 * LATE);
  };
  heard();
  try {
    const r = await call(path, { headers, signal: AbortSignal.any([signal, quiet.signal]) });
    opened();
    const read = r.body!.pipeThrough(new TextDecoderStream()).getReader();
    const split = messages();
    for (;;) {
      const { done, value } = await read.read();
      if (done) return;
      heard();
      split(value).forEach(each);
    }
  } finally {
    clearTimeout(timer);
  }
}

// pause waits; it ends early where the signal is aborted.
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(done => {
    const end = () => {
      clearTimeout(t);
      signal?.removeEventListener("abort", end);
      done();
    };
    const t = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
