package sim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// A job that waits forever because a quota is too small for it names the quota.
func TestStalledByAQuota(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 8}}}}},
		Quota:   []hare.Quota{{User: "bob", GPUs: 1}, {User: "ann", GPUs: 4}},
		Jobs: []hare.Job{
			{ID: "fits", WeightMicro: 1e6, Rounds: 1, Tasks: 4, Sync: hare.Gang, Users: []string{"ann"},
				On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}},
			{ID: "wide", WeightMicro: 1e6, Rounds: 1, Tasks: 3, GPUsPerTask: 2, Sync: hare.Gang, Users: []string{"ann"},
				On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}}}
	p, err := online.NewFIFO(sim.Cluster(inst))
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Run(t.Context(), inst, p, sim.Config{})
	want := `job "wide" among them: it needs 6 GPUs at once, and the quota of "ann" (/quota/1) is 4: raise it`
	if !errors.Is(err, sim.ErrStalled) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
