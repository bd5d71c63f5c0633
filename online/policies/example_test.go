package policies_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// NewWeightedSRTF runs, from round to round, the jobs with the least remaining time over weight.
func NewWeightedSRTF(cluster *hare.Cluster, sizes policies.JobSizes) *list.Scheduler {
	return list.New(cluster, list.Rule{
		Name: "weighted_srtf", Hold: hare.Gang, Rounds: sizes.Rounds,
		Priority: func(l *list.Scheduler, j *list.JobState) float64 {
			return float64(j.RoundsLeft()*l.RoundUs(j)) / float64(j.Spec().WeightMicro)
		},
	})
}

// weightedSRTF would be an entry of the list in task.go.
var weightedSRTF = policies.Info{
	Name: "weighted_srtf", Text: "least time left for the weight, round by round",
	Maker: policies.FromSizes(func(c *hare.Cluster, s policies.JobSizes, _ policies.Config) (online.Policy, error) {
		return NewWeightedSRTF(c, s), nil
	}),
}

// The example compares a task policy of one's own with a policy of the list.
func Example_ownPolicy() {
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
	srtf, _ := policies.Find("srtf")
	for _, info := range []policies.Info{srtf, weightedSRTF} {
		p, err := info.New(context.Background(), inst, policies.Config{})
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
