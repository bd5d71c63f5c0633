package rounds

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-sched/hare/executor/worker"
)

// TestGather collects the gradients of a round: those of other rounds do not count, and of two results the first does.
func TestGather(t *testing.T) {
	s := NewServer(ServerConfig{Job: worker.Job{ID: "j", Tasks: 2}})
	s.version = 3
	first, second := 1.0, 2.0
	s.Took(worker.Task{Round: 2, Task: 0}, &second)
	s.Took(worker.Task{Round: 3, Task: 1}, &first)
	s.Took(worker.Task{Round: 3, Task: 1}, &second)
	stop := make(chan struct{})
	close(stop)
	if stopped, err := s.Gather(t.Context(), stop); !stopped || err != nil {
		t.Error(stopped, err)
	}
	gathered := make(chan error, 1)
	go func() {
		stopped, err := s.Gather(t.Context(), nil)
		if stopped {
			err = errors.New("stopped")
		}
		gathered <- err
	}()
	s.Took(worker.Task{Round: 3, Task: 0}, nil)
	if err := <-gathered; err != nil {
		t.Error(err)
	}
	if s.losses[1] != &first {
		t.Errorf("the loss is %v", *s.losses[1])
	}
}

// TestAwait waits for a round that is there, and for one that never comes.
func TestAwait(t *testing.T) {
	s := NewServer(ServerConfig{})
	s.version = 3
	if v, err := s.Await(t.Context(), 2); v != 3 || err != nil {
		t.Error(v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Await(ctx, 4); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
