// What a server without data says: how to give it some.
import { Copy, Panel } from "./parts.js";
import type { Server } from "./store.js";

export function Start({ server, cluster }: { server: Server; cluster: string }) {
  const at = location.origin;
  const lab = cluster || "lab";
  return (
    <div class="start">
      <h1>
        {cluster
          ? `Cluster ${cluster} is empty`
          : server.clusters?.length || server.solves
            ? "How to begin"
            : "This server is empty"}
      </h1>
      <p class="lead">
        Hare decides which job runs when on which GPU, and proves how far its plan can be from the best
        possible one. Three commands show it.
      </p>
      <ol>
        {server.managed && (
          <>
            <li>
              <Panel title="Lend it GPUs" id="lend">
                <p>
                  One agent on each machine finds NVIDIA's GPUs by itself. This one pretends four, so that you
                  need none; leave <code>--devices</code> out for real ones.
                </p>
                <Copy
                  label="start an agent"
                  text={`hare agent --server ${at} --cluster ${lab} --devices V100=2,T4=2`}
                />
              </Panel>
            </li>
            <li>
              <Panel title="Submit a job" id="submit">
                <p>
                  It says how long it takes on each type. Submit a few, and this page shows when each will
                  start.
                </p>
                <Copy
                  label="submit a job"
                  text={`hare submit --server ${at} --cluster ${lab} --gpus 2 --seconds V100=600,T4=1500 --name night -- python train.py`}
                />
              </Panel>
            </li>
          </>
        )}
        <li>
          <Panel title="Or plan a week of your own cluster" id="solve">
            <p>
              Turn Slurm's history into an instance and have it solved here; nothing of the cluster is
              changed.
            </p>
            <Copy
              label="import and solve"
              text={`hare import slurm --since 7d -o week.json\nhare solve week.json --server ${at} --time-limit 1m -o plan.json`}
            />
          </Panel>
        </li>
      </ol>
    </div>
  );
}
