package clusters_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// copier is an agent that brings checkpoints of a job and gets them back.
type copier struct {
	t *testing.T
	s *server
	*node
	job     string
	attempt int64
	logged  int64 // of the output of task 0
}

func (k *copier) chunk(round int64, content string, offset int) *clusterdoc.CheckpointChunk {
	sum := sha256.Sum256([]byte(content))
	return &clusterdoc.CheckpointChunk{Epoch: k.epoch, Secret: k.secret, Job: k.job,
		Offset: int64(offset), CheckpointCopy: clusterdoc.CheckpointCopy{Attempt: k.attempt, Round: round,
			Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}}
}

// put brings the bytes of a checkpoint from an offset to another.
func (k *copier) put(round int64, content string, from, to int) (*clusterdoc.CheckpointStored, error) {
	return k.s.cluster().PutCheckpoint(k.t.Context(), k.r.Name, k.chunk(round, content, from),
		strings.NewReader(content[from:to]))
}

func (k *copier) mustPut(round int64, content string, from, to, next int, complete bool) {
	k.t.Helper()
	got, err := k.put(round, content, from, to)
	if err != nil || got.Next != int64(next) || got.Complete != complete {
		k.t.Fatalf("%+v %v", got, err)
	}
}

// refuse expects the code of a conflict.
func (k *copier) refuse(code string, round int64, content string, from, to int) {
	k.t.Helper()
	_, err := k.put(round, content, from, to)
	var conflict *ledger.Conflict
	if !errors.As(err, &conflict) || conflict.Code != code {
		k.t.Errorf("%v and not %s", err, code)
	}
}

func (k *copier) get(content string, offset int) (string, error) {
	f, err := k.s.cluster().OpenCheckpoint(k.t.Context(), k.r.Name, k.chunk(0, content, offset))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

func (k *copier) files() string {
	files, err := filepath.Glob(filepath.Join(k.s.copyDir, "*", k.job, "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])[:4]
	}
	return strings.Join(files, " ")
}

func newCopier(t *testing.T, maxCopies int64) *copier {
	s := newServer(t, time.Minute)
	s.close()
	s.copyDir, s.maxCopies = t.TempDir(), maxCopies
	s.open()
	c := s.create("fifo")
	k := &copier{t: t, s: s, node: &node{r: registration("a", "V100")}, attempt: 1}
	k.register(t, c)
	job, err := c.Submit(t.Context(), &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 9, GPUs: 1,
		Retries: 9}, "")
	if err != nil {
		t.Fatal(err)
	}
	k.job = job.ID
	await(t, c, k.job, clusterdoc.JobRunning, k.node)
	return k
}

func TestCopiesOfCheckpoints(t *testing.T) {
	k := newCopier(t, 0)
	c := k.s.cluster()
	const one, two, three = "checkpoint behind round 1", "that behind round 2", "and the one behind round 3"
	// Pieces come in order; what is there already, and what is behind a gap, is not stored.
	k.mustPut(1, one, 5, 9, 0, false)
	k.mustPut(1, one, 0, 9, 9, false)
	k.mustPut(1, one, 3, 12, 12, false)
	if job, err := c.Job(t.Context(), k.job); err != nil || job.CopyRound != 0 || k.files() != "1-1-" {
		t.Fatal(job, err, k.files())
	}
	k.mustPut(1, one, 12, len(one), len(one), true)
	k.mustPut(1, one, 0, len(one), len(one), true) // sent again, because the answer was lost
	if text, err := k.get(one, 3); err != nil || text != one[3:] {
		t.Error(text, err)
	}
	// The old copy stays until the new one is whole and right.
	k.mustPut(2, two, 0, 5, 5, false)
	if text, err := k.get(one, 0); err != nil || text != one || k.files() != "1-1- 1-2-" {
		t.Error(text, err, k.files())
	}
	wrong := k.chunk(2, two, 5)
	var conflict *ledger.Conflict
	_, err := c.PutCheckpoint(t.Context(), "a", wrong, bytes.NewReader(make([]byte, len(two)-5)))
	if !errors.As(err, &conflict) || conflict.Code != "damaged_checkpoint" || k.files() != "1-1-" {
		t.Error(err, k.files())
	}
	k.mustPut(2, two, 0, 6, 6, false)
	k.mustPut(3, three, 0, 6, 6, false) // the newest wins
	if k.files() != "1-1- 1-3-" {
		t.Error(k.files())
	}
	// A server that starts again goes on where it was, and keeps no other epoch.
	k.s.close()
	k.s.open()
	c = k.s.cluster()
	k.mustPut(3, three, 6, len(three), len(three), true)
	k.refuse("old_checkpoint", 2, two, 0, 5)
	k.epoch--
	k.refuse("stale_epoch", 4, one, 0, 5)
	k.epoch++
	k.attempt++
	if _, err := k.put(4, one, 0, 5); !errors.Is(err, clusters.ErrNoJob) {
		t.Error(err)
	}
	k.attempt--
	if job, err := c.Job(t.Context(), k.job); err != nil || job.CopyRound != 3 || k.files() != "1-3-" {
		t.Error(job, err, k.files())
	}
	if _, err := k.get(two, 0); !errors.Is(err, clusters.ErrNoCheckpoint) {
		t.Error(err)
	}
	// A copy that is damaged on the disk is lost, and another may take its place.
	files, err := filepath.Glob(filepath.Join(k.s.copyDir, "*", k.job, "*"))
	if err != nil || len(files) != 1 || os.WriteFile(files[0], []byte("and the one behind round 4"), 0o600) != nil {
		t.Fatal(files, err)
	}
	if _, err := k.get(three, 0); !errors.Is(err, clusters.ErrNoCheckpoint) {
		t.Error(err)
	}
	if job, err := c.Job(t.Context(), k.job); err != nil || job.CopyRound != 0 {
		t.Error(job, err)
	}
	k.mustPut(2, two, 0, len(two), len(two), true)
	// One that is gone, as behind a backup that was restored, is noticed at the start.
	k.s.close()
	if err := os.RemoveAll(k.s.copyDir); err != nil {
		t.Fatal(err)
	}
	k.s.open()
	c = k.s.cluster()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		job, err := c.Job(t.Context(), k.job)
		if err == nil && job.CopyRound == 0 {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(job, err)
		}
	}
	if s := k.s.Stats(t.Context()); s.Copies != 0 {
		t.Errorf("%+v", s)
	}
}

// Copies of jobs that have ended make room for others; one that does not fit is refused in a clear line.
func TestRoomOfCopies(t *testing.T) {
	k := newCopier(t, 100)
	c := k.s.cluster()
	forty, sixty := strings.Repeat("x", 40), strings.Repeat("y", 61)
	k.mustPut(1, forty, 0, 40, 40, true)
	k.refuse("checkpoint_too_large", 2, sixty, 0, 10)
	job, err := c.Job(t.Context(), k.job)
	if err != nil || job.CopyRound != 1 || !strings.HasPrefix(job.CopyProblem, "the checkpoint has 0.0 MiB, and ") {
		t.Errorf("%+v %v", job, err)
	}
	k.mustPut(2, sixty[:60], 0, 60, 60, true)
	if job, err = c.Job(t.Context(), k.job); err != nil || job.CopyRound != 2 || job.CopyProblem != "" {
		t.Errorf("%+v %v", job, err)
	}
	k.end(clusterdoc.TaskID{Job: k.job, Attempt: 1}, 0)
	await(t, c, k.job, clusterdoc.JobSucceeded, k.node)
	next, err := c.Submit(t.Context(), &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: 9, GPUs: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	await(t, c, next.ID, clusterdoc.JobRunning, k.node)
	k.job = next.ID
	k.mustPut(1, sixty, 0, 61, 61, true)
	if files, err := filepath.Glob(filepath.Join(k.s.copyDir, "*", "*", "*")); err != nil || len(files) != 1 {
		t.Error(files, err)
	}
	k.s.close()
	k.s.maxCopies = -1
	k.s.open()
	k.refuse("checkpoints_off", 2, forty, 0, 10)
}
