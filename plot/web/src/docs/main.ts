// The page that renders the specification of the server it comes from.
import { indent } from "./indent.js";
import {
  fill,
  kind,
  limits,
  type Operation,
  type Parameter,
  type Schema,
  type Specification,
  type Words,
} from "./schema.js";

const MOST_SHOWN = 40_000; // characters of an answer

type Child = Node | string | undefined;

function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...inner: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...(inner.filter(x => x !== undefined && x !== "") as (Node | string)[]));
  return e;
}

function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const main = document.querySelector("main")!;
const contents = byId<HTMLDetailsElement>("contents");
const key = byId<HTMLInputElement>("key"); // sent only with calls, and never stored

const words = (w: Words): HTMLElement =>
  el("span", {}, ...w.map(x => (typeof x === "string" ? x : el("a", { href: `#schema-${x.name}` }, x.name))));
// A table that is wider than a phone scrolls, by keyboard too.
const wide = (table: HTMLTableElement): HTMLElement => el("div", { class: "wide", tabindex: "0" }, table);
const star = (on: boolean): Child => (on ? el("span", { class: "need", title: "required" }, " *") : "");

function row(name: string, need: boolean, value: HTMLElement, s: Schema, text: string): HTMLElement {
  return el(
    "tr",
    {},
    el("td", {}, el("code", {}, name), star(need)),
    el("td", {}, value, limits(s) ? el("div", { class: "soft" }, limits(s)) : ""),
    el("td", {}, text),
  );
}

function fields(s: Schema): HTMLElement {
  if (!s.properties) return el("p", {}, s.enum || s.oneOf || s.type ? words(kind(s)) : "");
  return wide(
    el(
      "table",
      {},
      el("tr", {}, el("th", {}, "name"), el("th", {}, "value"), el("th", {}, "meaning")),
      ...Object.entries(s.properties).map(([name, p]) =>
        row(name, (s.required ?? []).includes(name), words(kind(p)), p, p.description ?? ""),
      ),
    ),
  );
}

// inputs shows the parameters of a call with a field for each.
function inputs(parameters: Parameter[]): {
  table: HTMLElement;
  values: (where: string) => Record<string, string>;
} {
  const all = parameters.map(p => ({
    p,
    field: el("input", { "aria-label": p.name, autocomplete: "off", spellcheck: "false" }),
  }));
  const table = wide(
    el(
      "table",
      {},
      el("tr", {}, el("th", {}, "parameter"), el("th", {}, "value"), el("th", {}, "meaning")),
      ...all.map(({ p, field }) =>
        row(
          p.name,
          p.required ?? false,
          el("div", {}, field, el("div", { class: "soft" }, `${p.in}, `, words(kind(p.schema ?? {})))),
          p.schema ?? {},
          p.description ?? "",
        ),
      ),
    ),
  );
  const values = (where: string) =>
    Object.fromEntries(
      all.filter(x => x.p.in === where && x.field.value !== "").map(x => [x.p.name, x.field.value]),
    );
  return { table, values };
}

// shown formats an answer for readers.
function shown(type: string, text: string): string {
  const laid = type.endsWith("json") && !type.includes("ndjson") ? indent(text) : text;
  return laid.length > MOST_SHOWN ? laid.slice(0, MOST_SHOWN) + "\n…" : laid;
}

let lastSolve = ""; // request and answer, for the example of verification

// entry is a call or a document, folded below its heading. A link to it unfolds it.
function entry(id: string, heading: HTMLElement, ...inner: Child[]): [HTMLElement, HTMLDetailsElement] {
  const box = el("details", {}, el("summary", {}, heading), ...inner);
  return [el("article", { id }, box), box];
}

function call(path: string, verb: string, op: Operation): HTMLElement {
  const [media, body] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
  const [article, box] = entry(
    op.operationId,
    el("h3", {}, el("span", { class: `verb ${verb}` }, verb.toUpperCase()), el("code", {}, path), op.summary),
    op.description ? el("p", {}, op.description) : "",
  );
  const { table, values } = inputs(op.parameters ?? []);
  if (op.parameters?.length) box.append(el("h4", {}, "Parameters"), table);
  let area: HTMLTextAreaElement | undefined;
  if (body) {
    area = el("textarea", { spellcheck: "false", "aria-label": `request body of ${path}` });
    const example =
      typeof body.example === "string"
        ? body.example
        : body.example
          ? indent(JSON.stringify(body.example))
          : undefined;
    area.value = example ?? (path === "/v1/verify" ? '{"instance": …, "result": …}' : "");
    box.append(el("h4", {}, `Body, ${media}: `, words(kind(body.schema))), area);
  }
  const method = verb === "get" ? "" : verb === "post" && body ? "" : ` -X ${verb.toUpperCase()}`;
  const sent = body
    ? ` -H 'Content-Type: ${media}' ${media!.includes("ndjson") ? "--data-binary" : "-d"} @request.json`
    : "";
  box.append(el("pre", { tabindex: "0" }, `curl -s${method} '${location.origin}${path}'${sent}`));
  const answers = el(
    "table",
    {},
    el("tr", {}, el("th", {}, "status"), el("th", {}, "media type and schema"), el("th", {}, "when")),
  );
  for (const [code, r] of Object.entries(op.responses)) {
    const kinds = el("td");
    for (const [type, c] of Object.entries(r.content ?? {}))
      kinds.append(el("div", {}, `${type} `, c.schema?.$ref ? words(kind(c.schema)) : ""));
    answers.append(el("tr", {}, el("td", {}, el("code", {}, code)), kinds, el("td", {}, r.description)));
  }
  const out = el("pre", { hidden: "", tabindex: "0", "aria-live": "polite" });
  const go = el("button", { type: "button" }, "Try it");
  const stop = el("button", { type: "button", hidden: "" }, "Stop");
  go.onclick = async () => {
    out.hidden = false;
    const at = fill(path, values("path"));
    if (at.missing.length) {
      out.textContent = `Fill in ${at.missing.join(" and ")} first.`;
      return;
    }
    const query = new URLSearchParams(values("query")).toString();
    const headers: Record<string, string> = { ...values("header") };
    if (media) headers["Content-Type"] = media;
    if (key.value) headers["Authorization"] = `Bearer ${key.value.trim()}`;
    const cut = new AbortController();
    stop.onclick = () => cut.abort();
    stop.hidden = false;
    out.textContent = "…";
    const began = performance.now();
    let head = "";
    let text = "";
    try {
      const r = await fetch(at.path + (query && `?${query}`), {
        method: verb.toUpperCase(),
        headers,
        body: area?.value,
        signal: cut.signal,
      });
      const type = (r.headers.get("Content-Type") ?? "").split(";")[0]!;
      head = `${r.status} ${r.statusText} ${type}`;
      if (type === "image/png") {
        out.textContent = `${head}, ${(await r.blob()).size.toLocaleString("en")} bytes`;
        return;
      }
      // Streams are shown as they arrive.
      const reader = r.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let last = began; reader; ) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        if (performance.now() - last > 100) {
          last = performance.now();
          out.textContent = `${head}\n${text.slice(-MOST_SHOWN)}`;
        }
      }
      if (path === "/v1/solves" && r.ok && area)
        lastSolve = `{"instance":${JSON.stringify(JSON.parse(area.value).instance)},"result":${text}}`;
      const took = (performance.now() - began).toFixed(0);
      const size = text.length.toLocaleString("en");
      out.textContent = `${head} in ${took} ms, ${size} characters\n${shown(type, text)}`;
    } catch (e) {
      out.textContent = cut.signal.aborted ? `${head}, stopped\n${text.slice(-MOST_SHOWN)}` : String(e);
    } finally {
      stop.hidden = true;
    }
  };
  const buttons = el("p", {}, go, stop);
  box.append(el("h4", {}, "Answers"), wide(answers), buttons);
  if (path === "/v1/verify" && area) {
    const into = area;
    const take = el("button", { type: "button" }, "Take the last solve of this page");
    take.onclick = () => (into.value = lastSolve ? indent(lastSolve) : "Try POST /v1/solves first.");
    buttons.append(take);
  }
  box.append(out);
  return article;
}

// Elements that the filter may hide, each with the text that it searches.
interface Entry {
  text: string;
  parts: HTMLElement[];
}

function render(spec: Specification): void {
  byId("about").textContent = spec.info.description;
  const sections: { parts: HTMLElement[]; entries: Entry[] }[] = [];
  const section = (title: string, description: string) => {
    const parts = [el("h2", {}, title), el("h2", {}, description)];
    contents.append(parts[0]!);
    main.append(parts[1]!);
    sections.push({ parts, entries: [] });
  };
  const add = (link: HTMLElement, article: HTMLElement) => {
    contents.append(link);
    main.append(article);
    sections[sections.length - 1]!.entries.push({
      text: `${link.textContent} ${article.querySelector("h3")!.textContent}`.toLowerCase(),
      parts: [link, article],
    });
  };
  for (const tag of spec.tags) {
    section(tag.name, tag.description);
    for (const [path, verbs] of Object.entries(spec.paths)) {
      for (const [verb, op] of Object.entries(verbs)) {
        if (!(op.tags ?? []).includes(tag.name)) continue;
        add(
          el(
            "a",
            { href: `#${op.operationId}` },
            el("small", { class: verb }, verb.toUpperCase()),
            ` ${path}`,
          ),
          call(path, verb, op),
        );
      }
    }
  }
  section("Documents", "The JSON documents");
  main.append(
    el("p", { class: "soft" }, "Fields with ", el("span", { class: "need" }, "*"), " are required."),
  );
  for (const [name, s] of Object.entries(spec.components.schemas)) {
    const [article, box] = entry(
      `schema-${name}`,
      el("h3", {}, name),
      s.description ? el("p", {}, s.description) : "",
      fields(s),
    );
    if (s.additionalProperties === false) box.append(el("p", { class: "soft" }, "Other names are refused."));
    add(el("a", { href: `#schema-${name}` }, name), article);
  }
  const filter = byId<HTMLInputElement>("filter");
  const apply = () => {
    const q = filter.value.trim().toLowerCase();
    let count = 0;
    for (const { parts, entries } of sections) {
      let any = false;
      for (const e of entries) {
        const match = e.text.includes(q);
        if (match) count++;
        any ||= match;
        for (const p of e.parts) p.hidden = !match;
      }
      for (const p of parts) p.hidden = !any;
    }
    byId("none").textContent = q ? (count ? `${count} found` : "nothing has this in its name") : "";
    if (q) contents.open = true;
  };
  filter.oninput = apply;
  // A link unfolds what it leads to, and clears the filter where that hides it.
  const jump = () => {
    const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (at?.hidden) {
      filter.value = "";
      apply();
    }
    at?.querySelector("details")?.setAttribute("open", "");
    at?.scrollIntoView();
  };
  addEventListener("hashchange", jump);
  if (location.hash) jump();
}

if (matchMedia("(max-width: 52rem)").matches) contents.open = false;
fetch("/openapi.json")
  .then(r => r.json())
  .then(render)
  .catch(e => (byId("about").textContent = `The specification cannot be loaded: ${e}`));
