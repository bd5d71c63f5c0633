package main

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/audit"
	"github.com/hare-sched/hare/clusters/description"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/store/sqlite"
)

var roundKills = flag.Int("round-kills", 4, "how many agents, servers, runners, programs and workers are killed "+
	"under a round job")

// trainSlowly is the example line whose rounds take some milliseconds.
const trainSlowly = `import time
from line import build, optimiser, loss
import line

BACKEND = "plain"

def batch(round, task):
    time.sleep(0.01)
    return line.batch(round, task)
`

// TestRoundKills kills agents, the server, and the processes of a round job at random, each time after the job has
// gone on. Its parameters are those of a plain loop, and the journal shows that no round was lost.
func TestRoundKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	source := workerSource(t)
	k := newKilled(t)
	modules, checkpoints := k.modules(), filepath.Join(k.dir, "checkpoints")
	n := &description.NewJob{Module: "slow", Directory: modules, CheckpointDirectory: checkpoints, GPUs: 2, Tasks: 3,
		Rounds: int64(40 * (*roundKills + 1)), Seed: 5, Retries: 1000, Env: map[string]string{"PYTHONPATH": source}}
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
	for killed := 0; killed < *roundKills || !job.State.Final(); {
		look()
		if time.Since(begun) > patience+time.Duration(*roundKills)*10*time.Second {
			t.Fatalf("the job does not end: %s\n%s", jobText(job, time.Now()), k.lastLogs())
		}
		if job.State.Final() {
			break
		}
		if job.Round == last || killed == *roundKills {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		last = job.Round
		k.killRound(checkpoints, killed%50 == 49)
		killed++
	}
	if job.State != description.JobSucceeded || job.Round != n.Rounds {
		t.Fatalf("%s\n%s", jobText(job, time.Now()), k.lastLogs())
	}
	k.expectLoop(job, checkpoints, source)
	kill9(k.server)
	report, err := audit.Journal(bytes.NewReader(k.journal()), audit.Rules{Lease: 3 * time.Second, Kill: 5 * time.Second})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d rounds in %d attempts; killed: %v; %+v", n.Rounds, len(job.Attempts), k.kills, report)
}

// workerSource is where Python finds the package of workers.
func workerSource(t *testing.T) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 11)").Run(); err != nil {
		t.Skip("no Python 3.11")
	}
	source, err := filepath.Abs("../../worker/src")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// modules is a folder with the example line, and slow, which is line with tasks that take 10 ms.
func (k *killed) modules() string {
	k.t.Helper()
	modules := filepath.Join(k.dir, "modules")
	line, err := os.ReadFile("../../worker/examples/line.py")
	if err != nil {
		k.t.Fatal(err)
	}
	if err := os.Mkdir(modules, 0o700); err != nil {
		k.t.Fatal(err)
	}
	for name, text := range map[string]string{"line.py": string(line), "slow.py": trainSlowly} {
		if err := os.WriteFile(filepath.Join(modules, name), []byte(text), 0o600); err != nil {
			k.t.Fatal(err)
		}
	}
	return modules
}

// expectLoop compares the only checkpoint of a directory with what a plain loop gives, bit for bit. For slow the loop
// is that of line, which computes the same sooner.
func (k *killed) expectLoop(job *description.Job, checkpoints, source string) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(checkpoints, "*.hare"))
	if err != nil || len(files) != 1 {
		k.t.Fatal(files, err)
	}
	saved, err := os.ReadFile(files[0])
	if err != nil {
		k.t.Fatal(err)
	}
	_, state, _ := bytes.Cut(saved, []byte("\n"))
	module := job.Module
	if module == "slow" {
		module = "line"
	}
	loop := exec.Command("python3", "../../executor/worker/testdata/loop.py", job.Directory, module,
		fmt.Sprint(job.Tasks), fmt.Sprint(job.Seed), fmt.Sprint(job.Rounds))
	loop.Env = append(os.Environ(), "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")
	out, err := loop.Output()
	if err != nil {
		k.t.Fatal(err)
	}
	if want, err := hex.DecodeString(strings.TrimSpace(string(out))); err != nil || !bytes.Equal(state, want) {
		k.t.Errorf("the parameters %x of job %s are not those of a loop: %x (%v)", state, job.ID, want, err)
	}
}

// killRound kills one of the processes that a round job depends on.
func (k *killed) killRound(checkpoints string, long bool) {
	k.killOne(long, runRounds, func(what string) []int { return roundProcesses(checkpoints, what) })
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
		pids := k.runners()
		if what != "runner" {
			pids = processes(what)
		}
		if len(pids) > 0 && syscall.Kill(pids[k.rng.IntN(len(pids))], syscall.SIGKILL) == nil {
			k.kills[what]++
		}
	}
}

// roundProcesses are the processes with a directory for checkpoints whose arguments have a word.
func roundProcesses(checkpoints, word string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		args, _ := os.ReadFile(file)
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && bytes.Contains(args, []byte("\x00"+word)) &&
			bytes.Contains(environment, []byte("HARE_CHECKPOINT_DIR="+checkpoints+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
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
