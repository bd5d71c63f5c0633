// Where the reader is, in the part of the address after #.
import { COLUMNS, type View } from "./table.js";

export interface Route {
  cluster: string; // "" where the page is of no cluster
  // overview, queue, nodes, gantt, submit, job, solves, solve, compare, sessions, session, reports, report, start
  page: string;
  id: string; // of a job, solve or session, or KIND/ID of a report
  query: URLSearchParams;
}

const PAGES = ["queue", "nodes", "gantt", "submit"];

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").map(p => {
    try {
      return decodeURIComponent(p);
    } catch {
      return p;
    }
  });
  const route = { cluster: "", page: "overview", id: "", query: new URLSearchParams(query) };
  if (parts[0] === "c" && parts[1]) {
    route.cluster = parts[1];
    if (parts[2] === "jobs" && parts[3]) return { ...route, page: "job", id: parts[3] };
    if (parts[2] && PAGES.includes(parts[2])) route.page = parts[2];
  } else if (parts[0] === "solves" || parts[0] === "sessions" || parts[0] === "reports") {
    route.page = parts[1] ? parts[0].slice(0, -1) : parts[0];
    route.id = parts.slice(1).join("/"); // of a report also as it is typed, KIND/ID
  } else if (parts[0] === "start" || parts[0] === "compare") route.page = parts[0];
  return route;
}

export function link(cluster: string, page: string, id = "", query = ""): string {
  const q = query && "?" + query;
  if (
    !cluster ||
    page.startsWith("solve") ||
    page.startsWith("session") ||
    page.startsWith("report") ||
    page === "start" ||
    page === "compare"
  ) {
    if (page === "solve" || page === "session" || page === "report")
      return `#/${page}s/${encodeURIComponent(id)}${q}`;
    return page === "overview" ? "#/" : `#/${page}${q}`;
  }
  const c = `#/c/${encodeURIComponent(cluster)}`;
  if (page === "job") return `${c}/jobs/${encodeURIComponent(id)}${q}`;
  return page === "overview" ? c + q : `${c}/${page}${q}`;
}

// viewOf reads the view of the table from the address.
export function viewOf(q: URLSearchParams): View {
  const filters: Record<string, string> = {};
  for (const c of COLUMNS) {
    const text = q.get(c.key);
    if (text) filters[c.key] = text;
  }
  return {
    q: q.get("q") ?? "",
    filters,
    sort: q.get("sort") ?? "",
    group: q.get("group") ?? "",
    columns: (q.get("columns") ?? "").split(",").filter(k => COLUMNS.some(c => c.key === k)),
  };
}

export function queryOf(v: View): string {
  const q = new URLSearchParams();
  if (v.q) q.set("q", v.q);
  for (const c of COLUMNS) if (v.filters[c.key]) q.set(c.key, v.filters[c.key]!);
  if (v.sort) q.set("sort", v.sort);
  if (v.group) q.set("group", v.group);
  if (v.columns.length) q.set("columns", v.columns.join(","));
  return q.toString();
}
