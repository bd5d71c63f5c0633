package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var roundKills = flag.Int("round-kills", 4, "how many agents, servers, runners, programs and workers are killed "+
	"under a round job")

// atGate is how long a job that has come to its gate may save nothing: the rounds before the gate may not be saved.
const atGate = 5 * time.Second

// TestRoundKills kills agents, the server, and the processes of a round job at random, each time after the job has
// gone on. Its parameters are those of a plain loop, and the journal shows that no round was lost.
func TestRoundKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	env := map[string]string{"PYTHONPATH": executortest.Python(t)}
	k := newKilled(t)
	modules, checkpoints := k.modules(), filepath.Join(k.dir, "checkpoints")
	n := &clusterdoc.NewJob{Module: "slow", Directory: modules, CheckpointDirectory: checkpoints, GPUs: 2, Tasks: 3,
		Rounds: int64(40 * (*roundKills + 1)), Seed: 5, Retries: 1000, Env: env}
	gate := executortest.NewGate(t, env, n.Rounds-1) // the job does not end before all is killed
	job, err := k.client.SubmitJob(t.Context(), "lab", n, "")
	if err != nil {
		t.Fatal(err)
	}
	id, last := job.ID, int64(0)
	look := func() {
		if job, err = k.client.ClusterJob(t.Context(), "lab", id); err != nil {
			t.Fatalf("%v\n%s", err, k.lastLogs())
		}
		if job.Round < last {
			t.Errorf("round %d follows round %d, and the checkpoints are shared", job.Round, last)
		}
	}
	begun := time.Now()
	for killed, gone := 0, begun; !job.State.Final(); {
		look()
		if time.Since(begun) > patience+time.Duration(*roundKills)*10*time.Second {
			t.Fatalf("the job does not end: %s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
		}
		stuck := gate.Reached() && time.Since(gone) > atGate
		if killed == *roundKills || job.Round == last && !stuck {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		last = job.Round
		k.killRound(checkpoints, killed%50 == 49)
		gone = time.Now()
		if killed++; killed == *roundKills {
			gate.Open()
		}
	}
	if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds {
		t.Fatalf("%s\n%s", clustertext.Job(job, time.Now()), k.lastLogs())
	}
	executortest.ExpectLoop(t, checkpoints, &job.NewJob, job.Tasks)
	if n := executortest.SumOf(k.kills); n != *roundKills {
		t.Errorf("%d kills, not %d: %v", n, *roundKills, k.kills)
	}
	kill9(k.server)
	report, err := audit.Journal(bytes.NewReader(k.journal()), audit.Rules{Lease: 3 * time.Second, Kill: 5 * time.Second})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d rounds in %d attempts; killed: %v; %+v", n.Rounds, len(job.Attempts), k.kills, report)
}

// modules is a folder with the round jobs line and slow.
func (k *killed) modules() string {
	k.t.Helper()
	modules := filepath.Join(k.dir, "modules")
	if err := os.Mkdir(modules, 0o700); err != nil {
		k.t.Fatal(err)
	}
	executortest.Modules(k.t, modules)
	return modules
}

// killRound kills one of the processes that a round job depends on.
func (k *killed) killRound(checkpoints string, long bool) {
	k.killOne(long, runRounds, func(what string) []int { return roundProcesses(k.t, checkpoints, what) })
}

// killOne kills an agent, for longer than its lease or not, the server, a runner, a program or a worker. processes
// finds those of the last two, whose arguments have a word.
func (k *killed) killOne(long bool, program string, processes func(word string) []int) {
	what := []string{"agent", "server", "runner", program, "hare_worker"}[k.rng.IntN(5)]
	switch {
	case long:
		k.kill(true)
	case what == "agent":
		i := k.rng.IntN(len(k.agents))
		kill9(k.agents[i])
		k.kills[what]++
		k.agent(i)
	case what == "server":
		kill9(k.server)
		k.kills[what]++
		k.serve()
	default:
		executortest.KillOne(k.t, k.rng, func() []int {
			if what == "runner" {
				return k.runners()
			}
			return processes(what)
		})
		k.kills[what]++
	}
}

// roundProcesses are the processes with a directory for checkpoints, or one below, with an argument that begins with a
// word.
func roundProcesses(t *testing.T, checkpoints, word string) []int {
	t.Helper()
	return executortest.Processes(t, func(p *executortest.Process) bool {
		return p.HasWord(word) && p.KeepsIn(checkpoints)
	})
}

// journal has the lines of the journal of the only cluster. The server must not run.
func (k *killed) journal() (lines []byte) {
	k.t.Helper()
	all, err := sqlite.Open(k.t.Context(), filepath.Join(k.dir, "data"))
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		if err := all.Close(); err != nil {
			k.t.Error(err)
		}
	}()
	journals := store.Journals(all)
	metas, err := journals.Sessions(k.t.Context())
	if err != nil || len(metas) != 1 {
		k.t.Fatal(metas, err)
	}
	for seq := int64(1); ; {
		rows, err := journals.Rows(k.t.Context(), metas[0].ID, seq, store.ReadBytes)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(rows) == 0 {
			return lines
		}
		for i := range rows {
			lines = append(lines, rows[i].Data...)
			seq = rows[i].Last + 1
		}
	}
}
