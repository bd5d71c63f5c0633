package executor_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

// A copy that is damaged is not used: the job begins anew, and says so, and the next copy takes its place.
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
	l.awaitJob(id, "that the copy is lost", func(j *description.Job) bool { return j.CopyRound == 0 })
	l.awaitJob(id, "a copy of the second attempt", func(j *description.Job) bool { return j.CopyRound > 0 })
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

// spoiler is a server for agents that takes no checkpoints, or damages those that are brought and says the hash that
// they have then, as an agent would that does not look at them.
type spoiler struct {
	*server
	refuse, spoil atomic.Bool
}

func (s *spoiler) PutCheckpoint(ctx context.Context, cluster, agent string, at *description.CheckpointChunk,
	piece []byte) (*description.CheckpointStored, error) {
	if s.refuse.Load() {
		return nil, errors.New("it takes none")
	}
	bad := *at
	if s.spoil.Load() && at.Bytes == int64(len(piece)) { // the checkpoints here are one piece
		piece = slices.Clone(piece)
		piece[len(piece)-1] ^= 1
		sum := sha256.Sum256(piece)
		bad.SHA256 = hex.EncodeToString(sum[:])
	}
	return s.server.PutCheckpoint(ctx, cluster, agent, &bad, piece)
}

// A copy that was damaged before it was brought does not fail the job, which begins anew.
func TestCopyOfDamagedCheckpoint(t *testing.T) {
	dir, env, open := gatedModule(t)
	l := newLab(t, 2*time.Second, "cpu=1")
	bad := &spoiler{server: l.server}
	bad.spoil.Store(true)
	l.homes["a"] = t.TempDir()
	l.stop["a"] = agentOf(t, bad, "a", l.homes["a"], "cpu=1", 0)
	n := &description.NewJob{Module: "gated", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "a copy", func(j *description.Job) bool { return j.CopyRound > 0 })
	l.loseNode("a")
	l.homes["b"] = t.TempDir()
	l.start("b")
	open(true)
	job := l.awaitJob(id, "the end", func(j *description.Job) bool { return j.State.Final() })
	if job.State != description.JobSucceeded || len(job.Attempts) != 2 {
		t.Fatalf("%+v", job)
	}
	expectLoop(t, l.checkpoints("b", id), n, 3)
}

// A checkpoint that is damaged on its node is not brought.
func TestDamagedCheckpointIsNotBrought(t *testing.T) {
	dir, env, open := gatedModule(t)
	l := newLab(t, time.Minute, "cpu=1")
	s := &spoiler{server: l.server}
	s.refuse.Store(true)
	l.homes["a"] = t.TempDir()
	l.stop["a"] = agentOf(t, s, "a", l.homes["a"], "cpu=1", 0)
	n := &description.NewJob{Module: "gated", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "a checkpoint", func(j *description.Job) bool { return j.Round > 0 })
	time.Sleep(2 * time.Second) // for the rounds before the gate, which take milliseconds
	files, err := filepath.Glob(filepath.Join(l.checkpoints("a", id), "*.hare"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	bad := filepath.Join(t.TempDir(), "bad")
	if os.WriteFile(bad, content, 0o600) != nil || os.Rename(bad, files[0]) != nil {
		t.Fatal("the checkpoint cannot be damaged")
	}
	time.Sleep(500 * time.Millisecond) // for what was read before
	s.refuse.Store(false)
	time.Sleep(2500 * time.Millisecond) // an agent tries again after a second
	if job, err := l.Job(t.Context(), id); err != nil || job.CopyRound != 0 {
		t.Errorf("%+v %v", job, err)
	}
	open(true)
	if job := await(t, l.server, id, description.JobSucceeded, description.JobFailed); job.State !=
		description.JobSucceeded {
		t.Errorf("%+v", job)
	}
	expectLoop(t, l.checkpoints("a", id), n, 3)
}
