package policies_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// Each of two tasks takes 1 s on a V100 and 10 s on a K80. The second task takes the K80, which is
// available first, and ends at 10 s, or waits for the V100 and ends at 2 s.
func TestHareAssign(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "k", GPUs: []hare.TypeCount{{Type: "K80", Count: 1}}}, {Name: "v", GPUs: []hare.TypeCount{{Type: "V100",
			Count: 1}}},
	}}}
	for _, id := range []string{"a", "b"} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: id, WeightMicro: 1e6, Rounds: 1, Tasks: 1, On: []hare.Profile{
			{Type: "K80", ComputeUs: 10e6}, {Type: "V100", ComputeUs: 1e6},
		}})
	}
	for _, c := range []struct {
		policy string
		rule   greedy.Rule
		want   float64
	}{
		{"hare_paper", "", 11}, {"hare_paper", greedy.EarliestFinish, 3}, {"hare_offline", greedy.EarliestAvailable,
			11}, {"hare_offline", "", 3},
	} {
		info, ok := policies.Find(c.policy)
		if !ok {
			t.Fatal(c.policy)
		}
		p, err := info.New(t.Context(), inst, policies.Config{Moves: -1, Assign: c.rule})
		if err != nil {
			t.Fatal(err)
		}
		out, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if err != nil || out.Value.Float() != c.want {
			t.Errorf("%s by %q: %v, %v; want %g", c.policy, c.rule, out.Value, err, c.want)
		}
	}
}
