// Small parts that all views share.
import type { ComponentChildren } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { now } from "./api.js";

// useWatched draws a component again with each change of a store.
export function useWatched(store: { watch(f: () => void): () => void } | null): void {
  const [, again] = useReducer<number, void>(n => n + 1, 0);
  useEffect(() => store?.watch(() => again()), [store]);
}

// useNow is the time, which goes on every few seconds.
export function useNow(every = 5000): number {
  const [t, set] = useState(now());
  useEffect(() => {
    const timer = setInterval(() => set(now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return Math.max(t, now() - every);
}

// useTheme draws a component again where the page turns light or dark.
export function useTheme(): number {
  const [n, again] = useReducer<number, void>(n => n + 1, 0);
  useEffect(() => {
    const f = () => again();
    document.documentElement.addEventListener("themechange", f);
    return () => document.documentElement.removeEventListener("themechange", f);
  }, []);
  return n;
}

export function useWidth(): number {
  const [w, set] = useState(innerWidth);
  useEffect(() => {
    const f = () => set(innerWidth);
    addEventListener("resize", f);
    return () => removeEventListener("resize", f);
  }, []);
  return w;
}

export function State({ of }: { of: string }) {
  return (
    <span class={`state ${of}`}>
      <i aria-hidden="true" />
      {of}
    </span>
  );
}

export function Panel(p: {
  title: string;
  id: string;
  aside?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <section class={`panel ${p.class ?? ""}`} aria-labelledby={p.id}>
      <header>
        <h2 id={p.id}>{p.title}</h2>
        {p.aside}
      </header>
      {p.children}
    </section>
  );
}

// Table is a table of few rows, which scrolls sideways where there is no room for it.
export function Table(p: { label: string; heads: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={p.label}>
      <table class="plain">
        <thead>
          <tr>
            {p.heads.map(h => (
              <th key={h} scope="col">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{p.children}</tbody>
      </table>
    </div>
  );
}

export function Figure(p: { value: ComponentChildren; text: string; bad?: boolean }) {
  return (
    <div class={p.bad ? "figure bad" : "figure"}>
      <dt>{p.text}</dt>
      <dd>{p.value}</dd>
    </div>
  );
}

// Copy is a command that can be copied.
export function Copy({ text, label }: { text: string; label: string }) {
  const [done, set] = useState(false);
  const code = useRef<HTMLPreElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without HTTPS there is no clipboard to write to: the text is selected instead.
      getSelection()?.selectAllChildren(code.current!);
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <div class="copy">
      <pre ref={code} tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <button type="button" onClick={() => void copy()} aria-label={`Copy: ${label}`}>
        {done ? "copied" : "copy"}
      </button>
    </div>
  );
}

// Notice is a line that says that something went wrong.
export function Notice({ children }: { children: ComponentChildren }) {
  return (
    <p class="notice" role="alert">
      {children}
    </p>
  );
}
