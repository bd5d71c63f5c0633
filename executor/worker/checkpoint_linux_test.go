package worker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hare-sched/hare/executor/worker"
)

// train runs rounds of a job, all tasks on device 0.
func train(t *testing.T, n *worker.Node, j worker.Job, from, to int64) {
	t.Helper()
	for round := from; round < to; round++ {
		for task := range j.Tasks {
			if _, err := n.Run(t.Context(), 0, worker.Task{Job: j.ID, Round: round, Task: task}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.Step(t.Context(), 0, j.ID, round); err != nil {
			t.Fatal(err)
		}
	}
}

// A job goes on from its checkpoint on another node as if nothing had happened.
func TestJobGoesOnFromItsCheckpoint(t *testing.T) {
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 3, Seed: 5}
	path := filepath.Join(t.TempDir(), "j.hare")
	first := newNode(t, worker.Config{})
	if err := first.Add(t.Context(), 0, j); err != nil {
		t.Fatal(err)
	}
	train(t, first, j, 0, 2)
	if v, err := first.Save("j", path); err != nil || v != 2 {
		t.Fatalf("version %d is saved, %v", v, err)
	}
	train(t, first, j, 2, 5)
	if v, err := first.Save("j", path); err != nil || v != 5 {
		t.Fatalf("version %d is saved, %v", v, err)
	}
	if _, err := first.Save("j", filepath.Join(path, "below")); err == nil {
		t.Error("a checkpoint is written below a file")
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v are beside the checkpoint, %v", left, err)
	}

	second := newNode(t, worker.Config{})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(name string, change func([]byte) []byte) {
		t.Helper()
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, change(bytes.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		var checkpoint *worker.CheckpointError
		if _, err := second.Resume(t.Context(), 0, j, bad); !errors.As(err, &checkpoint) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := worker.VerifyCheckpoint(bad); !errors.As(err, &checkpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, err := worker.VerifyCheckpoint(path); err != nil || v != 5 {
		t.Errorf("the checkpoint is behind round %d, %v", v, err)
	}
	for i := range whole {
		if i%7 == 0 || i > len(whole)-3 {
			damage("a byte is changed", func(b []byte) []byte { b[i] ^= 1; return b })
		}
	}
	damage("a cut file", func(b []byte) []byte { return b[:len(b)-1] })
	damage("a longer file", func(b []byte) []byte { return append(b, 0) })
	damage("an empty file", func([]byte) []byte { return nil })
	for _, change := range []func(*worker.Job){
		func(j *worker.Job) { j.Seed++ }, func(j *worker.Job) { j.Tasks++ }, func(j *worker.Job) { j.Module = "empty" },
	} {
		other := j
		change(&other)
		var checkpoint *worker.CheckpointError
		if _, err := second.Resume(t.Context(), 0, other, path); !errors.As(err, &checkpoint) {
			t.Errorf("%+v goes on from the checkpoint of another job: %v", other, err)
		}
	}
	for range 2 {
		if v, err := second.Resume(t.Context(), 0, j, path); err != nil || v != 5 {
			t.Fatalf("the job goes on at version %d, %v", v, err)
		}
	}
	train(t, second, j, 5, 9)
	got, _, err := second.State("j")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, loop(t, j, 9)) {
		t.Error("the state differs from that of a loop of 9 rounds")
	}
}
