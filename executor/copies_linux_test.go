package executor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/description"
)

// loseNode ends an agent with all that runs there, and removes its files.
func (l *lab) loseNode(name string) {
	l.t.Helper()
	l.stop[name]()
	for _, pid := range runnersOf(l.t, l.homes[name]) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // a process may still write
		err := os.RemoveAll(l.homes[name])
		if err == nil {
			return
		}
		if time.Since(begun) > 10*time.Second {
			l.t.Fatal(err)
		}
	}
}

// gated is the example line, which waits at round 20 until a file is there.
const gated = `import os, time
from line import build, optimiser, loss
import line

BACKEND = "plain"

def batch(round, task):
    while round >= 20 and not os.path.exists(os.environ.get("GATE", "/")):
        time.sleep(0.01)
    return line.batch(round, task)
`

// gatedModule is moduleFolder with the module gated, and a function that opens its gate, or closes it.
func gatedModule(t *testing.T) (dir string, env map[string]string, open func(bool)) {
	t.Helper()
	dir, env = moduleFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "gated.py"), []byte(gated), 0o600); err != nil {
		t.Fatal(err)
	}
	env["GATE"] = filepath.Join(t.TempDir(), "gate")
	return dir, env, func(on bool) {
		err := os.Remove(env["GATE"])
		if on {
			err = os.WriteFile(env["GATE"], nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitJob waits until something holds of a job that has not ended.
func (l *lab) awaitJob(id, what string, holds func(j *description.Job) bool) *description.Job {
	l.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		job, err := l.Job(l.t.Context(), id)
		if err != nil || time.Since(begun) > time.Minute {
			l.t.Fatalf("%s: not in time: %+v %v", what, job, err)
		}
		if holds(job) {
			return job
		}
	}
}

// A job whose nodes are lost with all that they had goes on from the copy that the server has, bit for bit.
func TestRoundJobGoesOnFromTheCopy(t *testing.T) {
	dir, env, open := gatedModule(t)
	for _, nodes := range []int{1, 2} {
		l := newLab(t, 2*time.Second, "cpu=1", []string{"a", "b"}[:nodes]...)
		n := &description.NewJob{Module: "gated", Directory: dir, Env: env, Rounds: 40, Tasks: 3, GPUs: nodes, Nodes: nodes,
			Seed: 3}
		id := submitRounds(t, l.server, n)
		before := l.awaitJob(id, "a copy", func(j *description.Job) bool { return j.CopyRound > 0 })
		for name := range l.stop {
			l.loseNode(name)
		}
		for _, name := range []string{"c", "d"}[:nodes] {
			l.homes[name] = t.TempDir()
			l.start(name)
		}
		open(true)
		job := l.awaitJob(id, "the end", func(j *description.Job) bool { return j.State.Final() })
		if job.State != description.JobSucceeded || job.Round != n.Rounds || len(job.Attempts) != 2 ||
			job.CopyRound < before.CopyRound {
			t.Fatalf("%+v", job)
		}
		if nodes > 1 {
			l.expectCopies(job, n, 3)
		} else {
			expectLoop(t, l.checkpoints("c", id), n, 3)
		}
		open(false)
		output := readOutput(t, l.server, id, 2)
		if !strings.Contains(output, "goes on from the checkpoint behind ") {
			t.Errorf("the second attempt began anew: %s", output)
		}
	}
}

// readOutput reads what the first task of an attempt has printed.
func readOutput(t *testing.T, s *server, id string, attempt int64) string {
	t.Helper()
	var all strings.Builder
	_, _, err := s.CopyLog(t.Context(), description.TaskID{Job: id, Attempt: attempt}, description.StreamStdout, 0,
		func(piece []byte) error { all.Write(piece); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A copy that is damaged is not used: the job begins anew, and says so.
func TestDamagedCopyIsRefused(t *testing.T) {
	dir, env, open := gatedModule(t)
	l := newLab(t, 2*time.Second, "cpu=1", "a")
	n := &description.NewJob{Module: "gated", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "a copy", func(j *description.Job) bool { return j.CopyRound > 0 })
	l.loseNode("a")
	files, err := filepath.Glob(filepath.Join(l.copyDir, "*", id, "*"))
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, ".part") })
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(files[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	l.homes["b"] = t.TempDir()
	l.start("b")
	open(true)
	job := l.awaitJob(id, "the end", func(j *description.Job) bool { return j.State.Final() })
	if job.State != description.JobSucceeded || len(job.Attempts) != 2 {
		t.Fatalf("%+v", job)
	}
	if out := readOutput(t, l.server, id, 2); strings.Contains(out, "goes on from") {
		t.Error(out)
	}
	expectLoop(t, l.checkpoints("b", id), n, 3)
}
