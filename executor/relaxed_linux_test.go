package executor_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/runner"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var relaxedKills = flag.Int("hare.relaxedkills", 4, "how many agents, pools and workers are killed under relaxed jobs")

// relaxedModules is a folder with round jobs that workers of agents can train.
func relaxedModules(t *testing.T) string {
	t.Helper()
	dir, env := moduleFolder(t)
	t.Setenv("PYTHONPATH", env["PYTHONPATH"])
	return dir
}

// relaxed is a job of the folder.
func relaxed(id, module, dir string, tasks int, rounds int64) *relaxedJob {
	return &relaxedJob{id: id, dir: dir, start: clusterdoc.RoundStart{Module: module, Tasks: tasks, Rounds: rounds,
		Seed: int64(len(id)), Checkpoint: id + ".hare"}}
}

// expectLoops compares the checkpoints of jobs with plain loops of line, which computes what slow computes.
func (o *orders) expectLoops(dir string) {
	o.t.Helper()
	for _, j := range o.jobs {
		n := &clusterdoc.NewJob{Module: "line", Directory: dir, Rounds: j.start.Rounds, Seed: j.start.Seed,
			Env: map[string]string{"PYTHONPATH": os.Getenv("PYTHONPATH")}}
		executortest.ExpectLoop(o.t, j.checkpoints, n, j.start.Tasks)
	}
}

func TestRelaxedJobsShareDevices(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 1)
	for _, name := range []string{"a", "b"} {
		agentOf(t, o, name, t.TempDir(), "cpu=2", 0)
	}
	for k := range 3 {
		j := relaxed(fmt.Sprintf("j%d", k+1), "slow", dir, 3+k, 40)
		j.checkpoints = t.TempDir()
		o.add(j)
	}
	o.await("all jobs end", time.Minute, o.over)
	o.expectLoops(dir)
	both := false
	for _, j := range o.jobs {
		nodes := map[string]bool{}
		for at := range j.used {
			nodes[at[:1]] = true
		}
		both = both || len(nodes) == 2
		if len(j.used) < 2 || !j.done || j.attempt != 1 {
			t.Errorf("job %s ran on %v in %d attempts (%s)", j.id, j.used, j.attempt, j.failed)
		}
		log := o.log(clusterdoc.TaskID{Job: j.id, Attempt: 1})
		if n := strings.Count(log, "\n"); n != 40 || !strings.Contains(log, "round 39: loss "+j.loss+"\n") {
			t.Errorf("job %s printed %d lines: %s", j.id, n, log)
		}
	}
	switches := 0
	for _, jobs := range o.sequence {
		switches += len(slices.Compact(jobs)) - 1
	}
	if !both || switches < 30 {
		t.Errorf("a job used both nodes: %v; devices went %d times from a job to another one", both, switches)
	}
}

// TestRelaxedJobsAreKilled kills agents, pools, their runners and workers while three jobs share four devices, each
// with memory for about two of their models.
func TestRelaxedJobsAreKilled(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 2)
	names := []string{"a", "b"}
	homes, stops := map[string]string{}, map[string]func(){}
	start := func(name string) { stops[name] = agentOf(t, o, name, homes[name], "cpu=2", 40) }
	for _, name := range names {
		homes[name] = t.TempDir()
		start(name)
	}
	kills := *relaxedKills
	if testing.Short() {
		kills = min(kills, 2)
	}
	for k := range 3 {
		j := relaxed(fmt.Sprintf("j%d", k+1), "slow", dir, []int{4, 1, 3}[k], int64(12*(kills+1)))
		j.checkpoints = t.TempDir()
		j.hold = j.start.Rounds - 1 // no job ends before all is killed
		o.add(j)
	}
	rng := rand.New(rand.NewPCG(1, 17))
	done := map[string]int{}
	last := int64(-1)
	for range kills {
		o.await("the jobs go on", time.Minute, func() bool {
			sum, waiting := int64(0), 0
			for _, j := range o.jobs {
				sum += j.saved
				if j.round == j.hold {
					waiting++
				}
			}
			if sum <= last+2 && waiting < len(o.jobs) {
				return false
			}
			last = sum
			return true
		})
		name := names[rng.IntN(2)]
		switch what := []string{"agent", "runner", "pool", "worker"}[rng.IntN(4)]; what {
		case "agent":
			stops[name]()
			start(name)
			done[what]++
		case "runner":
			executortest.KillOne(t, rng, func() (pids []int) {
				if p, ok := runner.Find(filepath.Join(homes[name], "pool")); ok {
					pids = append(pids, p.PID)
				}
				return pids
			})
			done[what]++
		default:
			word := map[string]string{"pool": "run-pool", "worker": "hare_worker"}[what]
			executortest.KillOne(t, rng, func() []int { return poolProcesses(t, homes[name], word) })
			done[what]++
		}
	}
	o.letGo()
	o.await("all jobs end", 2*time.Minute, o.over)
	o.expectLoops(dir)
	if n := executortest.SumOf(done); n != kills {
		t.Errorf("%d kills, not %d: %v", n, kills, done)
	}
	attempts := 0
	for _, j := range o.jobs {
		attempts += int(j.attempt)
		if j.failed != "" {
			t.Errorf("job %s failed: %s", j.id, j.failed)
		}
	}
	t.Logf("killed %v; %d attempts", done, attempts)
}

// poolProcesses are the processes of an agent's pool with an argument that begins with a word.
func poolProcesses(t *testing.T, home, word string) []int {
	t.Helper()
	return executortest.Processes(t, func(p *executortest.Process) bool { return p.HasWord(word) && p.IsIn(home) })
}
