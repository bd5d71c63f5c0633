package worker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/worker"
)

// occupy has a task of another job run on device 0 of a node until the function that it returns is called.
func occupy(t *testing.T, node *worker.Node, next ...string) (free func()) {
	t.Helper()
	dir := modules(t, map[string]string{"waits": good + "import os, time\nhere = os.path.dirname(__file__)\n" +
		"def loss(p, b):\n open(here + '/begun', 'w').close()\n" +
		" while not os.path.exists(here + '/free'): time.sleep(0.005)\n return 0.0, {'x': [0.0] * 1000}\n"})
	if err := node.Add(t.Context(), 0, worker.Job{ID: "waits", Module: "waits", Directory: dir, Tasks: 1}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() {
		_, err := node.Run(t.Context(), 0, worker.Task{Job: "waits"}, next)
		ran <- err
	}()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the task does not begin")
		}
	}
	return func() {
		t.Helper()
		select {
		case err := <-ran:
			t.Fatalf("the task has ended before: %v", err)
		default:
		}
		if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// in fails where a call has not returned after some time.
func in(t *testing.T, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s waits for the task of another job", what)
		return nil
	}
}

// A job is removed, and another one added with its ID, while a device that knows it computes for a third one.
func TestRemoveDuringTheTaskOfAnotherJob(t *testing.T) {
	node := newNode(t, worker.Config{Devices: 2})
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 2, Seed: 5}
	if err := node.Add(t.Context(), 0, j); err != nil {
		t.Fatal(err)
	}
	train(t, node, j, 0, 1)
	if _, err := node.Run(t.Context(), 1, worker.Task{Job: "j", Round: 1}, nil); err != nil {
		t.Fatal(err)
	}
	free := occupy(t, node)
	if err := in(t, "Remove", func() error { return node.Remove("j") }); err != nil {
		t.Error(err)
	}
	if err := node.Remove("j"); !errors.Is(err, worker.ErrUnknownJob) {
		t.Errorf("removed twice: %v", err)
	}
	j.Seed = 6
	if err := in(t, "Add", func() error { return node.Add(t.Context(), 1, j) }); err != nil {
		t.Fatal(err)
	}
	free()
	train(t, node, j, 0, 2) // also on device 0, which knew the other one
	if got, _, err := node.State("j"); err != nil || !bytes.Equal(got, loop(t, j, 2)) {
		t.Errorf("the state differs from that of a loop: %v", err)
	}
}

// The copy of a job's state that waits behind the task of another job holds neither its steps nor its end.
func TestCopiesAheadHoldNothing(t *testing.T) {
	node := newNode(t, worker.Config{Devices: 2})
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 1, Seed: 5}
	if err := node.Add(t.Context(), 0, j); err != nil {
		t.Fatal(err)
	}
	free := occupy(t, node, "j")
	for round := range int64(3) {
		if err := in(t, "a step", func() error {
			if _, err := node.Run(t.Context(), 1, worker.Task{Job: "j", Round: round}, nil); err != nil {
				return err
			}
			_, err := node.Step(t.Context(), 1, "j", round)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	free()
	if c, err := node.Counts(0); err != nil || c.Prefetches != 1 {
		t.Errorf("there was no copy ahead: %+v %v", c, err)
	}
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j", Round: 3}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Step(t.Context(), 0, "j", 3); err != nil {
		t.Fatal(err)
	}
	if got, _, err := node.State("j"); err != nil || !bytes.Equal(got, loop(t, j, 4)) {
		t.Errorf("the state differs from that of a loop: %v", err)
	}
}

// Release does not wait for a worker that is being started.
func TestReleaseEndsAStart(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	node := newNode(t, worker.Config{Python: []string{interpreter(t, "sys"), "-c",
		"import time; open('" + begun + "', 'w').close(); time.sleep(600)"}})
	added := make(chan error, 1)
	go func() {
		added <- node.Add(t.Context(), 0, worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 1})
	}()
	for from := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Since(from) > 30*time.Second {
			t.Fatal("the worker is not started")
		}
	}
	if err := in(t, "Release", func() error { return node.Release(0) }); err != nil {
		t.Error(err)
	}
	var crash *worker.CrashError
	if err := <-added; !errors.As(err, &crash) {
		t.Errorf("the call: %v", err)
	}
}
