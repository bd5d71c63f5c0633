package executor_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
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

// awaitJob waits until something holds of a job that has not ended.
func (l *lab) awaitJob(id, what string, holds func(j *clusterdoc.Job) bool) *clusterdoc.Job {
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
	dir, env := moduleFolder(t)
	for _, nodes := range []int{1, 2} {
		g := executortest.NewGate(t, env, 20)
		l := newLab(t, 2*time.Second, "cpu=1", []string{"a", "b"}[:nodes]...)
		n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: 40, Tasks: 3, GPUs: nodes, Nodes: nodes,
			Seed: 3}
		id := submitRounds(t, l.server, n)
		before := l.awaitJob(id, "a copy", func(j *clusterdoc.Job) bool { return j.CopyRound > 0 })
		for name := range l.stop {
			l.loseNode(name)
		}
		for _, name := range []string{"c", "d"}[:nodes] {
			l.homes[name] = t.TempDir()
			l.start(name)
		}
		g.Open()
		job := l.awaitJob(id, "the end", func(j *clusterdoc.Job) bool { return j.State.Final() })
		if job.State != clusterdoc.JobSucceeded || job.Round != n.Rounds || len(job.Attempts) != 2 ||
			job.CopyRound < before.CopyRound {
			t.Fatalf("%+v", job)
		}
		if nodes > 1 {
			l.expectCopies(job, n, 3)
		} else {
			executortest.ExpectLoop(t, l.checkpoints("c", id), n, 3)
		}
		if out := output(t, l.server, id, 2, "stdout"); !strings.Contains(out, "goes on from the checkpoint after ") {
			t.Errorf("the second attempt began again: %s", out)
		}
	}
}

// A copy that is damaged is not used: the job begins again, and says so, and the next copy takes its place.
func TestDamagedCopyIsRefused(t *testing.T) {
	dir, env := moduleFolder(t)
	g := executortest.NewGate(t, env, 20)
	l := newLab(t, 2*time.Second, "cpu=1", "a")
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "a copy", func(j *clusterdoc.Job) bool { return j.CopyRound > 0 })
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
	l.awaitJob(id, "that the copy is lost", func(j *clusterdoc.Job) bool { return j.CopyRound == 0 })
	l.awaitJob(id, "a copy of the second attempt", func(j *clusterdoc.Job) bool { return j.CopyRound > 0 })
	g.Open()
	job := l.awaitJob(id, "the end", func(j *clusterdoc.Job) bool { return j.State.Final() })
	if job.State != clusterdoc.JobSucceeded || len(job.Attempts) != 2 {
		t.Fatalf("%+v", job)
	}
	if out := output(t, l.server, id, 2, "stdout"); strings.Contains(out, "goes on from") {
		t.Error(out)
	}
	executortest.ExpectLoop(t, l.checkpoints("b", id), n, 3)
}

// spoiler is a server for agents that takes no checkpoints, or damages those that are brought and says the hash that
// they have then, as an agent would that does not look at them. It counts the pieces that it has damaged, and all.
type spoiler struct {
	*server
	refuse, spoil   atomic.Bool
	spoiled, pieces atomic.Int64
}

func (s *spoiler) PutCheckpoint(ctx context.Context, cluster, agent string, at *clusterdoc.CheckpointChunk,
	piece []byte) (*clusterdoc.CheckpointStored, error) {
	s.pieces.Add(1)
	if s.refuse.Load() {
		return nil, errors.New("it takes none")
	}
	bad := *at
	if s.spoil.Load() && at.Bytes == int64(len(piece)) { // the checkpoints here are one piece
		piece = slices.Clone(piece)
		piece[len(piece)-1] ^= 1
		sum := sha256.Sum256(piece)
		bad.SHA256 = hex.EncodeToString(sum[:])
		s.spoiled.Add(1)
	}
	return s.server.PutCheckpoint(ctx, cluster, agent, &bad, piece)
}

// A copy that was damaged before it was brought does not fail the job, which begins again.
func TestCopyOfDamagedCheckpoint(t *testing.T) {
	dir, env := moduleFolder(t)
	g := executortest.NewGate(t, env, 20)
	l := newLab(t, 2*time.Second, "cpu=1")
	bad := &spoiler{server: l.server}
	bad.spoil.Store(true)
	l.homes["a"] = t.TempDir()
	l.stop["a"] = agentOf(t, bad, "a", l.homes["a"], "cpu=1", 0)
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "a copy", func(j *clusterdoc.Job) bool { return j.CopyRound > 0 })
	l.loseNode("a")
	if n, all := bad.spoiled.Load(), bad.pieces.Load(); n == 0 || n < all {
		t.Fatalf("%d of %d pieces of copies are damaged", n, all)
	}
	l.homes["b"] = t.TempDir()
	l.start("b")
	g.Open()
	job := l.awaitJob(id, "the end", func(j *clusterdoc.Job) bool { return j.State.Final() })
	if job.State != clusterdoc.JobSucceeded || len(job.Attempts) != 2 {
		t.Fatalf("%+v", job)
	}
	if out := output(t, l.server, id, 2, "stdout"); strings.Contains(out, "goes on from") {
		t.Error(out)
	}
	executortest.ExpectLoop(t, l.checkpoints("b", id), n, 3)
}

// said are the lines that an agent has logged.
type said struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.Write(b)
}

// await waits until a line has all words.
func (s *said) await(t *testing.T, words ...string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		text := s.lines.String()
		s.mu.Unlock()
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return
			}
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the agent never says %q:\n%s", words, text)
		}
	}
}

// A checkpoint that is damaged on its node is not brought.
func TestDamagedCheckpointIsNotBrought(t *testing.T) {
	dir, env := moduleFolder(t)
	g := executortest.NewGate(t, env, 20)
	l := newLab(t, time.Minute, "cpu=1")
	s := &spoiler{server: l.server}
	s.refuse.Store(true)
	var log said
	l.homes["a"] = t.TempDir()
	l.stop["a"] = agentOf(t, s, "a", l.homes["a"], "cpu=1", 0, func(c *executor.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	n := &clusterdoc.NewJob{Module: "slow", Directory: dir, Env: env, Rounds: 30, Tasks: 3, GPUs: 1, Seed: 3}
	id := submitRounds(t, l.server, n)
	l.awaitJob(id, "the gate", func(*clusterdoc.Job) bool { return g.Reached() })
	log.await(t, "the server has no copy", "it takes none")
	files, err := filepath.Glob(filepath.Join(l.checkpoints("a", id), "*.hare"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	replace := func(content []byte) {
		t.Helper()
		bad := filepath.Join(t.TempDir(), "bad")
		if os.WriteFile(bad, content, 0o600) != nil || os.Rename(bad, files[0]) != nil {
			t.Fatal("the checkpoint cannot be damaged")
		}
	}
	replace(content)
	log.await(t, "the server has no copy", "its hash is not that of its header")
	// The agent has no earlier content in its hands any more, and the server would take a copy.
	pieces := s.pieces.Load()
	s.refuse.Store(false)
	replace([]byte("no checkpoint\n")) // an agent that has tried again says something else
	log.await(t, "the server has no copy", "is not a checkpoint")
	if job, err := l.Job(t.Context(), id); err != nil || job.CopyRound != 0 || s.pieces.Load() != pieces {
		t.Errorf("%d pieces are brought: %+v %v", s.pieces.Load()-pieces, job, err)
	}
	g.Open()
	if job := await(t, l.server, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed); job.State !=
		clusterdoc.JobSucceeded {
		t.Errorf("%+v", job)
	}
	executortest.ExpectLoop(t, l.checkpoints("a", id), n, 3)
}
