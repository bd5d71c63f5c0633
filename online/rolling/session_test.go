package rolling_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	registry "github.com/hare-sched/hare/sim/policies"
)

// session is a small session whose plans the test makes.
type session struct {
	t *testing.T
	online.Planned
}

func openAside(t *testing.T, parameters string, gpus ...hare.TypeCount) session {
	t.Helper()
	p, err := registry.OpenSession("rolling", &hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: gpus}}},
		[]byte(parameters))
	if err != nil {
		t.Fatal(err)
	}
	return session{t, p.(online.Planned)}
}

func (se session) step(atS int64, e hare.Event) []hare.Decision {
	se.t.Helper()
	decisions, err := se.Step(atS*1e6, []hare.Event{e})
	if err != nil {
		se.t.Fatal(err)
	}
	return slices.Clone(decisions)
}

func (se session) arrive(atS int64, id string, weight, tasks int64, on ...hare.Profile) []hare.Decision {
	return se.step(atS, hare.Event{Type: hare.EventJobArrived, Job: id,
		Arrived: &hare.Job{ID: id, WeightMicro: weight * 1e6, Tasks: tasks, Sync: hare.Gang, On: on}})
}

func (se session) answer() string {
	se.t.Helper()
	q := se.Ask()
	if q == nil {
		se.t.Fatal("no plan is due")
	}
	plan, err := q.Answer(se.t.Context())
	if err != nil {
		se.t.Fatal(err)
	}
	return string(plan)
}

func (se session) take(plan string) {
	se.t.Helper()
	if err := se.Take([]byte(plan)); err != nil {
		se.t.Fatal(err)
	}
}

// refuse takes a plan that must be refused with a fault at a pointer, and changes nothing.
func (se session) refuse(plan, pointer, code string) {
	se.t.Helper()
	before := se.AppendSnapshot(nil)
	err := se.Take([]byte(plan))
	var invalid *hare.InvalidError
	if !errors.As(err, &invalid) || invalid.Pointer != pointer || invalid.Code != code {
		se.t.Errorf("%.400s: %v, want %s at %q", plan, err, code, pointer)
	}
	if !bytes.Equal(se.AppendSnapshot(nil), before) {
		se.t.Errorf("%.400s: refused, and the state has changed", plan)
	}
}

var (
	v100 = hare.TypeCount{Type: "V100", Count: 2}
	t4   = hare.TypeCount{Type: "T4", Count: 2}
	onV  = hare.Profile{Type: "V100", ComputeUs: 10e6}
	onT  = hare.Profile{Type: "T4", ComputeUs: 20e6}
)
