package worker_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/worker"
)

// Two nodes compute the rounds of a job: the first makes the steps, the second one task of each round.
func TestGradientsOfAnotherNode(t *testing.T) {
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 3, Seed: 5}
	home, other := newNode(t, worker.Config{}), newNode(t, worker.Config{})
	for _, n := range []*worker.Node{home, other} {
		if err := n.Add(t.Context(), 0, j); err != nil {
			t.Fatal(err)
		}
	}
	var stale *worker.StaleError
	var bad *hare.InvalidError
	for round := range int64(4) {
		state, _, err := home.State("j")
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Adopt("j", round, state[1:]); !errors.As(err, &bad) {
			t.Errorf("a cut state: %v", err)
		}
		if err := other.Adopt("j", round, state); err != nil {
			t.Fatal(err)
		}
		if err := other.Adopt("j", round-1, state); !errors.As(err, &stale) {
			t.Errorf("an old state: %v", err)
		}
		there := worker.Task{Job: "j", Round: round, Task: 1}
		if _, err := other.Gradient(there); !errors.As(err, &stale) {
			t.Errorf("a gradient that was not computed: %v", err)
		}
		r, err := other.Run(t.Context(), 0, there, nil)
		if err != nil {
			t.Fatal(err)
		}
		gradient, err := other.Gradient(there)
		if err != nil {
			t.Fatal(err)
		}
		if err := home.Deliver(there, r, gradient[1:]); !errors.As(err, &bad) {
			t.Errorf("a cut gradient: %v", err)
		}
		late := there
		late.Round++
		if err := home.Deliver(late, r, gradient); !errors.As(err, &stale) {
			t.Errorf("a gradient of another round: %v", err)
		}
		for range 2 { // the second one is not used
			if err := home.Deliver(there, r, gradient); err != nil {
				t.Fatal(err)
			}
			clear(gradient)
		}
		train(t, home, j, round, round+1)
	}
	if got, _, err := home.State("j"); err != nil || !bytes.Equal(got, loop(t, j, 4)) {
		t.Errorf("the state differs from that of a loop: %v", err)
	}
}

// A copy ahead of what build() made is not used when version 0 comes from another node.
func TestAdoptedStateReplacesCopies(t *testing.T) {
	node := newNode(t, worker.Config{})
	dir := modules(t, map[string]string{"given": "BACKEND = 'plain'\ndef build(): return {'x': [1.0]}\n" +
		"def batch(r, t): return t\ndef loss(p, b): return p['x'][0], {'x': [0.0]}\n"})
	j := worker.Job{ID: "j", Module: "given", Directory: dir, Tasks: 1}
	if err := node.Add(t.Context(), 0, j); err != nil {
		t.Fatal(err)
	}
	occupy(t, node, "j")()
	state, _, err := node.State("j")
	if err != nil {
		t.Fatal(err)
	}
	clear(state)
	if err := node.Adopt("j", 0, state); err != nil {
		t.Fatal(err)
	}
	if r, err := node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil); err != nil || r.Loss == nil || *r.Loss != 0 {
		t.Errorf("the task had another state: %+v, %v", r, err)
	}
}
