package service

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/solver"
)

// What computes has a thread of its own, and its panic is its caller's, with the place
// where it began.
func TestComputePanics(t *testing.T) {
	want := errors.New("an error")
	if v, err := onThread(func() (int, error) { return 7, want }); v != 7 || err != want {
		t.Errorf("%d %v", v, err)
	}
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "lost\n") || !strings.Contains(p, "TestComputePanics") {
			t.Errorf("panic: %s", p)
		}
	}()
	_, _ = onThread(func() (int, error) { panic("lost") })
	t.Error("the panic is gone")
}

// The cores are shared out among the solves that run.
func TestWorkers(t *testing.T) {
	s := New(Config{Solver: solver.Config{Workers: 4}, Running: 8})
	for running, want := range []int{4, 4, 2, 1, 1, 1} {
		if got := s.workers(); got != want {
			t.Errorf("%d goroutines while %d solves run, want %d", got, running, want)
		}
		if err := s.queue.Admit(admission.Call{}); err != nil {
			t.Fatal(err)
		}
		s.queue.Enqueue(admission.Call{})
	}
}
