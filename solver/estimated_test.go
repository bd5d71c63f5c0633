package solver_test

import (
	"context"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

func TestResultsOfDurationsAreEstimated(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}},
		Jobs: []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: 2e6}}}}}
	for _, estimated := range []bool{false, true} {
		if estimated {
			inst.Jobs[0].Durations = []hare.Duration{{Micro: 1e6, FactorMicro: 2e6}}
		}
		res, err := solver.Solve(context.Background(), inst, hare.Options{}, solver.Config{})
		if err != nil || res.Estimated != estimated || res.Value.String() != "2" {
			t.Errorf("%v: %+v, %v", estimated, res, err)
		}
	}
}
