package greedy_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A search may start from a plan in which a gang mixes two types in its first rounds and
// goes on with one of them.
func TestImproveAfterRoundsOfMixedTypes(t *testing.T) {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a0", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}},
			{Name: "a1", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
				Windows: []hare.Window{{StartUs: 0, EndUs: 9e6}}}, // a class of its own
			{Name: "b0", GPUs: []hare.TypeCount{{Type: "B", Count: 2}}},
		}},
		Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, Rounds: 4, Tasks: 2, Sync: hare.Gang, Mix: true,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 1.5e6}}}},
	}
	m := model.New(inst)
	start := &greedy.Plan{EndUs: []int64{5e6}, Jobs: [][]room.Block{{
		{Class: 0, Width: 1, Tasks: 1, Rounds: 2, PeriodUs: 1.5e6, HoldUs: 1.5e6},
		{Class: 2, Width: 1, Tasks: 1, Rounds: 2, PeriodUs: 1.5e6, HoldUs: 1.5e6},
		{Class: 0, Width: 1, Tasks: 1, Round: 2, Rounds: 2, StartUs: 3e6, PeriodUs: 1e6, HoldUs: 1e6},
		{Class: 1, Width: 1, Tasks: 1, Round: 2, Rounds: 2, StartUs: 3e6, PeriodUs: 1e6, HoldUs: 1e6},
	}}}
	plan, _, err := greedy.Improve(t.Context(), m, nil, start, greedy.ImproveConfig{Seed: 1, Moves: 100, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Value(m).Cmp(start.Value(m)) > 0 {
		t.Errorf("the search ends at %v, and began at %v", plan.Value(m), start.Value(m))
	}
}
