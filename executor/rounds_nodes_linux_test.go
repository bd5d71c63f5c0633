package executor_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// lab is a cluster of agents whose nodes share nothing.
type lab struct {
	t *testing.T
	*server
	homes   map[string]string
	stop    map[string]func()
	devices string
}

func newLab(t *testing.T, lease time.Duration, devices string, names ...string) *lab {
	l := &lab{t: t, server: newServer(t, lease), homes: map[string]string{}, stop: map[string]func(){}, devices: devices}
	for _, name := range names {
		l.homes[name] = t.TempDir()
		l.start(name)
	}
	return l
}

func (l *lab) start(name string) { l.stop[name] = agent(l.t, l.server, name, l.homes[name], l.devices) }

func (l *lab) checkpoints(name, id string) string {
	return filepath.Join(l.homes[name], "checkpoints", id)
}

// expectCopies checks that all nodes of the last attempt of a job have the parameters of a loop.
func (l *lab) expectCopies(job *clusterdoc.Job, n *clusterdoc.NewJob, tasks int) {
	l.t.Helper()
	at := job.Attempts[len(job.Attempts)-1]
	var first []byte
	for k, task := range at.Tasks {
		dir := l.checkpoints(task.Agent, job.ID)
		if k == 0 {
			executortest.ExpectLoop(l.t, dir, n, tasks)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.hare"))
		if len(files) != 1 {
			l.t.Fatalf("node %s has the checkpoints %v", task.Agent, files)
		}
		content, err := os.ReadFile(files[0])
		if err != nil || k > 0 && !bytes.Equal(content, first) {
			l.t.Errorf("node %s has another checkpoint than the first: %v", task.Agent, err)
		}
		first = content
	}
}

func TestRoundJobsOnSeveralNodes(t *testing.T) {
	dir, env := moduleFolder(t)
	l := newLab(t, time.Minute, "cpu=2", "a", "b", "c")
	for _, n := range []*clusterdoc.NewJob{
		{Module: "line", Rounds: 5, Tasks: 7, GPUs: 3, Nodes: 3, Seed: 7},
		{Module: "line", Rounds: 4, GPUs: 4, Nodes: 2, Sync: "gang", Seed: 1},
		{Module: "nan", Rounds: 2, GPUs: 2, Nodes: 2},
	} {
		n.Directory, n.Env = dir, env
		id := submitRounds(t, l.server, n)
		job := await(t, l.server, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
		if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds || len(job.Attempts[0].Tasks) != n.Nodes {
			t.Fatalf("%+v", job)
		}
		l.expectCopies(job, n, max(n.Tasks, n.GPUs))
	}
	id := submitRounds(t, l.server, &clusterdoc.NewJob{Module: "broken", Directory: dir, Env: env, Rounds: 2, GPUs: 2,
		Nodes: 2})
	job := await(t, l.server, id, clusterdoc.JobFailed, clusterdoc.JobSucceeded)
	_, why, _ := strings.Cut(job.Reason, ": ") // behind the number of the task
	if why != "module: broken.py:1: ModuleNotFoundError: No module named 'no_such_module'" {
		t.Error(job.Reason)
	}
}

// A job on two of three nodes ends with the parameters of a plain loop, although agents, runners, programs, workers
// and whole nodes are killed, and goes on from the last round that it has said to be saved.
func TestRoundJobOnSeveralNodesIsKilled(t *testing.T) {
	dir, env := moduleFolder(t)
	names := []string{"a", "b", "c"}
	l := newLab(t, 2*time.Second, "cpu=1", names...)
	kills := *roundKills
	if testing.Short() {
		kills = min(kills, 2)
	}
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: int64(30 * (kills + 1)), Tasks: 5, GPUs: 2,
		Nodes: 2, Seed: 3, Retries: 1000}
	g := executortest.NewGate(t, env, n.Rounds-1) // the job does not end before all is killed
	id := submitRounds(t, l.server, n)
	rng := rand.New(rand.NewPCG(2, 17))
	done := map[string]int{}
	last := int64(0)
	for range kills {
		var job *clusterdoc.Job
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			var err error
			if job, err = l.Job(t.Context(), id); err != nil || time.Since(begun) > time.Minute {
				t.Fatalf("the job does not go on behind round %d: %+v %v", last, job, err)
			}
			if job.State.Final() {
				t.Fatalf("the job ended after %v: %+v", done, job)
			}
			if job.Round < last {
				t.Errorf("round %d follows round %d", job.Round, last)
			}
			if job.Round > last || g.Reached() && time.Since(begun) > atGate {
				last = job.Round
				break
			}
		}
		task := rng.IntN(n.Nodes)
		nodeOf := func(job *clusterdoc.Job) string { return job.Attempts[len(job.Attempts)-1].Tasks[task].Agent }
		name := nodeOf(job)
		switch x := rng.IntN(5); x {
		case 0:
			l.stop[name]()
			l.start(name)
			done["agent"]++
		case 1: // the node, which comes back when the job has moved
			l.stop[name]()
			for _, pid := range runnersOf(t, l.homes[name]) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			there := func(k *clusterdoc.TaskInfo) bool { return k.Agent == name }
			for begun := time.Now(); slices.ContainsFunc(job.Attempts[len(job.Attempts)-1].Tasks, there); {
				var err error
				if job, err = l.Job(t.Context(), id); err != nil || time.Since(begun) > time.Minute {
					t.Fatalf("the job has not left node %s: %+v %v", name, job, err)
				}
				time.Sleep(5 * time.Millisecond)
			}
			l.start(name)
			done["node"]++
		default:
			what := []string{"runner", "run-rounds", "hare_worker"}[x-2]
			executortest.KillOne(t, rng, func() []int {
				now, err := l.Job(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if what == "runner" {
					return runnersOf(t, l.homes[nodeOf(now)])
				}
				return processesOf(t, l.checkpoints(nodeOf(now), id), what)
			})
			done[what]++
		}
	}
	g.Open()
	job, err := l.Job(t.Context(), id)
	for begun := time.Now(); err == nil && !job.State.Final() && time.Since(begun) < 2*time.Minute; {
		time.Sleep(5 * time.Millisecond)
		job, err = l.Job(t.Context(), id)
	}
	if err != nil || job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds {
		t.Fatalf("%+v %v", job, err)
	}
	l.expectCopies(job, n, 5)
	if sum := executortest.SumOf(done); sum != kills {
		t.Errorf("%d kills, not %d: %v", sum, kills, done)
	}
	t.Logf("killed %v, %s", done, fmt.Sprint(len(job.Attempts), " attempts, ", job.Round, " rounds"))
}
