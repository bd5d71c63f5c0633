package task

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// NewWeightedSRTF runs the jobs with the least time left for their weight, from
// round to round.
func NewWeightedSRTF(inst *hare.Instance) online.Policy {
	return newDesk(inst, rule{hold: hare.Gang, rounds: knowing(inst), key: func(d *desk, s *seat) float64 {
		return float64(s.rounds-s.round) * float64(d.leastUs(s)) / float64(s.spec.WeightMicro)
	}})
}

// weightedSRTF is a line of policies.
var weightedSRTF = Info{"weighted_srtf", Sizes, "least time left for the weight, round by round",
	func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
		return NewWeightedSRTF(i), nil
	}}

// A task policy of one's own, beside one of the list.
func Example_taskPolicy() {
	on := []hare.Profile{{Type: "V100", ComputeUs: 10e6}}
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
		Jobs: []hare.Job{
			{ID: "first", WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Gang, On: on},
			{ID: "heavy", WeightMicro: 9e6, Rounds: 6, Tasks: 1, Sync: hare.Gang, On: on},
			{ID: "short", WeightMicro: 1e6, Rounds: 3, Tasks: 1, Sync: hare.Gang, On: on},
		},
	}
	srtf, _ := Find("srtf")
	for _, info := range []Info{srtf, weightedSRTF} {
		p, err := info.New(context.Background(), inst, sim.Cluster(inst), Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		out, err := sim.Run(context.Background(), inst, p, sim.Config{Name: info.Name})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: weighted JCT %s s\n", info.Name, out.Value)
	}
	// Output:
	// srtf: weighted JCT 950 s
	// weighted_srtf: weighted JCT 740 s
}
