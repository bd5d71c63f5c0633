package policies_test

import (
	"bytes"
	"testing"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
)

// TestSnapshotWithoutGPUs checks that a session whose GPUs have not joined yet, as that of a managed cluster, comes
// back from its snapshot when jobs wait in it.
func TestSnapshotWithoutGPUs(t *testing.T) {
	tried := 0
	for _, name := range registry.SessionNames() {
		p, err := registry.OpenSession(name, &hare.Cluster{}, nil)
		if err != nil {
			continue // the policy needs parameters or GPUs
		}
		job := &hare.Job{ID: "j1", WeightMicro: 1e6, Tasks: 2, Sync: hare.Rigid, On: []hare.Profile{{Type: "T4"}}}
		if _, err := p.Step(5, []hare.Event{{Type: hare.EventJobArrived, AtUs: 5, Arrived: job}}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		snapshot := p.AppendSnapshot(nil)
		again, err := registry.RestoreSession(name, snapshot)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(again.AppendSnapshot(nil), snapshot) {
			t.Errorf("%s: the session comes back as another one", name)
		}
		tried++
	}
	if tried < 5 {
		t.Errorf("%d policies opened a session without GPUs", tried)
	}
}
