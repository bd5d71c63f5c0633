package policies_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Quotas and progress that cannot be true are refused with a pointer, and change nothing.
func TestSessionsRefuseBadQuotasAndProgress(t *testing.T) {
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "A", Count: 2}, {Type: "B", Count: 2}}}}}
	arrives := func(g int64, users []string, p hare.Progress) hare.Event {
		return hare.Event{Type: hare.EventJobArrived, Job: "x", Arrived: &hare.Job{ID: "x", WeightMicro: 1e6, Tasks: 2,
			Sync: hare.Gang, GPUsPerTask: g, Users: users, Progress: &p, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}}
	}
	on := func(gpus ...string) hare.Progress { return hare.Progress{GPUs: gpus} }
	quota := func(q *hare.Quota) hare.Event {
		return hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: q}}
	}
	for _, name := range []string{"fifo", "hlas", "srtf", "hgittins", "rolling"} {
		p, err := registry.OpenSession(name, cluster, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs := arrives(0, nil, on("a/0", "a/1"))
		runs.Job, runs.Arrived.ID = "runs", "runs"
		if got, err := p.Step(0, []hare.Event{runs}); err != nil || len(got) > 0 {
			t.Fatalf("%s: work that runs: %v %v", name, got, err)
		}
		before := p.AppendSnapshot(nil)
		for _, c := range []struct {
			event   hare.Event
			pointer string
		}{
			{quota(nil), "/quota"},
			{quota(&hare.Quota{User: "", GPUs: 1}), "/quota/user"},
			{quota(&hare.Quota{User: "ann", GPUs: -1}), "/quota/gpus"},
			{quota(&hare.Quota{User: "ann", Types: []string{"B", "A"}}), "/quota/types"},
			{arrives(0, []string{"b", "a"}, hare.Progress{}), "/job/user"},
			{arrives(0, nil, hare.Progress{RoundsDone: -1}), "/job/progress/rounds_done"},
			{arrives(0, nil, hare.Progress{ElapsedUs: 1}), "/job/progress/elapsed_s"},
			{arrives(0, nil, on("a/2")), "/job/progress/gpus"},
			{arrives(0, nil, on("a/2", "c/0")), "/job/progress/gpus/1"},
			{arrives(0, nil, on("a/2", "a/2")), "/job/progress/gpus/1"},
			{arrives(0, nil, on("a/0", "a/2")), "/job/progress/gpus/0"}, // held
			{arrives(0, nil, on("a/2", "b/2")), "/job/progress/gpus/1"}, // no profile
			{arrives(2, nil, on("a/2", "b/0", "a/3", "b/1")), "/job/progress/gpus"},
		} {
			_, err := p.Step(1, []hare.Event{c.event})
			var refused *online.RefusedError
			if !errors.As(err, &refused) || refused.Err.Pointer != c.pointer {
				t.Errorf("%s: got %v, want a fault at %s", name, err, c.pointer)
			}
		}
		if !bytes.Equal(p.AppendSnapshot(nil), before) {
			t.Errorf("%s: a refused event has changed the state", name)
		}
		again, err := registry.RestoreSession(name, before)
		if err != nil {
			t.Fatal(err)
		}
		ended := hare.Event{Type: hare.EventTaskEnded, Job: "runs", Task: 1, GPU: "a/1", ComputeUs: 1e6}
		if _, err := again.Step(2, []hare.Event{ended}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
