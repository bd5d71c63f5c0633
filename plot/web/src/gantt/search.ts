// Search of jobs and GPUs by a part of their names.

export interface Hit {
  kind: "job" | "gpu";
  index: number;
  text: string;
}

export interface Found {
  hits: Hit[]; // the best first, at most as many as requested
  jobs: number;
  gpus: number;
  // One byte for each job: 1 where the job matches.
  marked: Uint8Array;
}

// Index finds names that contain a text, ignoring upper and lower case.
export class Index {
  private readonly lower: { job: string[]; gpu: string[] };

  constructor(
    private readonly jobs: readonly string[],
    private readonly gpus: readonly string[],
  ) {
    this.lower = { job: jobs.map(s => s.toLowerCase()), gpu: gpus.map(s => s.toLowerCase()) };
  }

  // find takes O(names). Exact matches come first, then names that begin with the query,
  // then the others; in each group jobs come before GPUs, in their order.
  find(query: string, most: number): Found {
    const q = query.trim().toLowerCase();
    const found: Found = { hits: [], jobs: 0, gpus: 0, marked: new Uint8Array(this.jobs.length) };
    if (!q) return found;
    const ranks: Hit[][] = [[], [], []];
    const scan = (kind: "job" | "gpu", names: readonly string[]) => {
      let count = 0;
      this.lower[kind].forEach((name, index) => {
        const at = name.indexOf(q);
        if (at < 0) return;
        count++;
        if (kind === "job") found.marked[index] = 1;
        const rank = ranks[at > 0 ? 2 : name.length > q.length ? 1 : 0]!;
        if (rank.length < most) rank.push({ kind, index, text: names[index]! });
      });
      return count;
    };
    found.jobs = scan("job", this.jobs);
    found.gpus = scan("gpu", this.gpus);
    found.hits = ranks.flat().slice(0, most);
    return found;
  }
}

// counted describes the number of matches.
export function counted(found: Found): string {
  const count = (n: number, what: string) => (n === 1 ? `1 ${what}` : `${n.toLocaleString("en")} ${what}s`);
  if (!found.jobs && !found.gpus) return "no job and no GPU has this in its name";
  return [found.jobs && count(found.jobs, "job"), found.gpus && count(found.gpus, "GPU")]
    .filter(Boolean)
    .join(", ");
}
