package executor_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/runner"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var roundKills = flag.Int("hare.roundkills", 3, "how many agents, runners, programs and workers are killed")

// moduleFolder is a folder with round jobs, and the variables with which Python finds the worker.
func moduleFolder(t *testing.T) (dir string, env map[string]string) {
	t.Helper()
	path := executortest.Python(t)
	dir = t.TempDir()
	executortest.Modules(t, dir)
	for name, text := range map[string]string{"broken.py": "import no_such_module\n",
		"dies.py": "import os\nfrom line import *\ndef loss(p, b): os._exit(3)\n",
		"nan.py":  "from line import *\nimport line\ndef loss(p, b): return float('nan'), line.loss(p, b)[1]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, map[string]string{"PYTHONPATH": path}
}

func submitRounds(t *testing.T, s *server, n *clusterdoc.NewJob) string {
	t.Helper()
	job, err := s.Submit(t.Context(), n, "")
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

func TestRoundJobs(t *testing.T) {
	dir, env := moduleFolder(t)
	s := newServer(t, time.Minute)
	home := t.TempDir()
	agent(t, s, "a", home, "cpu=2")
	relaxed := &clusterdoc.NewJob{Module: "line", Directory: dir, Env: env, Rounds: 5, Tasks: 3, GPUs: 2, Seed: 7}
	id := submitRounds(t, s, relaxed)
	job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobSucceeded || job.Round != 5 || job.Loss == "" ||
		len(job.Attempts[0].Tasks[0].GPUs) != 2 {
		t.Fatalf("%+v", job)
	}
	executortest.ExpectLoop(t, filepath.Join(home, "checkpoints", id), relaxed, 3)
	gang := &clusterdoc.NewJob{Module: "nan", Directory: dir, Env: env, Rounds: 2, GPUs: 2, Sync: "gang"}
	id = submitRounds(t, s, gang)
	if job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed); job.Loss != "NaN" || job.Round != 2 {
		t.Errorf("%+v", job)
	}
	executortest.ExpectLoop(t, filepath.Join(home, "checkpoints", id), gang, 2)
	for module, want := range map[string]string{
		"broken": "module: broken.py:1: ModuleNotFoundError: No module named 'no_such_module'",
		"absent": "module: ModuleNotFoundError: No module named 'absent'",
	} {
		id := submitRounds(t, s, &clusterdoc.NewJob{Module: module, Directory: dir, Env: env, Rounds: 2, GPUs: 1})
		if job := await(t, s, id, clusterdoc.JobFailed, clusterdoc.JobSucceeded); job.Reason != want {
			t.Errorf("%s: %s", module, job.Reason)
		}
	}
	id = submitRounds(t, s, &clusterdoc.NewJob{Module: "line", Directory: dir + "/no", Env: env, Rounds: 2,
		GPUs: 1})
	job = await(t, s, id, clusterdoc.JobFailed, clusterdoc.JobSucceeded)
	if job.Reason != "the node has no directory "+dir+"/no" {
		t.Error(job.Reason)
	}
}

// A round job that is started again goes back to the node that has its checkpoint, where the nodes share nothing.
func TestRoundJobGoesBackToItsCheckpoint(t *testing.T) {
	dir, env := moduleFolder(t)
	s := newServer(t, time.Minute)
	homes := map[string]string{"a": t.TempDir(), "b": t.TempDir()}
	agent(t, s, "b", homes["b"], "cpu=1")
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: 120, Tasks: 2, GPUs: 1,
		Retries: 10}
	g := executortest.NewGate(t, env, n.Rounds-1) // the job does not end before its programs are killed
	id := submitRounds(t, s, n)
	// saved waits until so many attempts have begun and a round more is saved, and returns the rounds.
	saved := func(attempts int, more int64) int64 {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			job, err := s.Job(t.Context(), id)
			if err != nil || job.State.Final() || time.Since(begun) > time.Minute {
				t.Fatalf("the job does not go on behind round %d: %+v %v", more, job, err)
			}
			on := job.Round > more || g.Reached() && time.Since(begun) > atGate
			if on && len(job.Attempts) >= attempts {
				return job.Round
			}
		}
	}
	rounds := saved(1, 0)
	agent(t, s, "a", homes["a"], "cpu=1")
	rng := rand.New(rand.NewPCG(3, 17))
	for kill := range 2 {
		executortest.KillOne(t, rng, func() []int {
			return processesOf(t, filepath.Join(homes["b"], "checkpoints", id), "run-rounds")
		})
		rounds = saved(kill+2, rounds)
	}
	g.Open()
	job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobSucceeded || len(job.Attempts) < 3 {
		t.Fatalf("%+v", job)
	}
	for _, at := range job.Attempts {
		if at.Tasks[0].Agent != "b" {
			t.Errorf("attempt %d was on node %s", at.Attempt, at.Tasks[0].Agent)
		}
	}
	executortest.ExpectLoop(t, filepath.Join(homes["b"], "checkpoints", id), n, 2)
}

// A job whose agents, runners, programs and workers are killed ends with the parameters of a plain loop.
func TestRoundJobIsKilled(t *testing.T) {
	dir, env := moduleFolder(t)
	s := newServer(t, time.Minute)
	home, checkpoints := t.TempDir(), t.TempDir()
	stop := agent(t, s, "a", home, "cpu=2")
	kills := *roundKills
	if testing.Short() {
		kills = min(kills, 2)
	}
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: int64(40 * (kills + 1)), Tasks: 3, GPUs: 2,
		Seed: 3, Retries: 1000, CheckpointDirectory: checkpoints}
	g := executortest.NewGate(t, env, n.Rounds-1) // the job does not end before all is killed
	id := submitRounds(t, s, n)
	rng := rand.New(rand.NewPCG(1, 17))
	done := map[string]int{}
	last := int64(0)
	for range kills {
		// The job has gone on since the last kill.
		for begun := time.Now(); ; {
			if t.Failed() || time.Since(begun) > time.Minute {
				t.Fatalf("the job does not go on behind round %d", last)
			}
			job, err := s.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
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
			time.Sleep(5 * time.Millisecond)
		}
		switch x := rng.IntN(4); x {
		case 0:
			stop()
			stop = agent(t, s, "a", home, "cpu=2")
			done["agent"]++
		default:
			what := []string{"runner", "run-rounds", "hare_worker"}[x-1]
			executortest.KillOne(t, rng, func() []int {
				if what == "runner" {
					return runnersOf(t, home)
				}
				return processesOf(t, checkpoints, what)
			})
			done[what]++
		}
	}
	g.Open()
	job, err := s.Job(t.Context(), id)
	for begun := time.Now(); err == nil && !job.State.Final() && time.Since(begun) < 2*time.Minute; {
		time.Sleep(5 * time.Millisecond)
		job, err = s.Job(t.Context(), id)
	}
	if err != nil || job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds {
		t.Fatalf("%+v", job)
	}
	executortest.ExpectLoop(t, checkpoints, n, 3)
	if sum := executortest.SumOf(done); sum != kills {
		t.Errorf("%d kills, not %d: %v", sum, kills, done)
	}
	t.Logf("killed %v, %d attempts, %d rounds", done, len(job.Attempts), job.Round)
}

// atGate is how long a job that has come to its gate may save nothing: the rounds before the gate may not be saved.
const atGate = 5 * time.Second

// runnersOf are the runners of an agent's tasks.
func runnersOf(t *testing.T, home string) (pids []int) {
	t.Helper()
	for _, dir := range tasksOf(t, home) {
		if p, ok := runner.Find(dir); ok {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// processesOf are the processes of a job, which has its checkpoints for itself, with an argument that begins with a
// word.
func processesOf(t *testing.T, checkpoints, word string) []int {
	t.Helper()
	return executortest.Processes(t, func(p *executortest.Process) bool {
		return p.HasWord(word) && p.KeepsIn(checkpoints)
	})
}
