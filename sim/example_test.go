package sim_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
)

// A short job arrives when a long job runs on the only GPU. Under first come, first served,
// the short job waits until the long job ends. Under least attained service, the short job
// runs as soon as the long job has had more than two seconds of GPU time.
func ExampleRun() {
	on := []hare.Profile{{Type: "V100", ComputeUs: 1_000_000}}
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
		Jobs: []hare.Job{
			{ID: "long", WeightMicro: 1e6, Rounds: 10, Tasks: 1, On: on},
			{ID: "short", WeightMicro: 1e6, ReleaseUs: 1_500_000, Rounds: 2, Tasks: 1, On: on},
		},
	}
	fifo, err := online.NewFIFO(sim.Cluster(inst))
	if err != nil {
		fmt.Println(err)
		return
	}
	hlas, err := online.NewHLAS(sim.Cluster(inst), online.HLASConfig{ThresholdsUs: []int64{2_000_000}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, policy := range []online.Policy{fifo, hlas} {
		out, err := sim.Run(context.Background(), inst, policy, sim.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("mean JCT %g s, %d events\n", out.MeanJCTUs/1e6, out.Events)
		for _, j := range out.Jobs {
			fmt.Printf("  %s from %s to %s s\n", j.ID, hare.FormatMicros(j.StartUs), hare.FormatMicros(j.EndUs))
		}
		res, err := out.Result(inst, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(" ", verify.Check(inst, res))
	}
	// Output:
	// mean JCT 10.25 s, 16 events
	//   long from 0 to 10 s
	//   short from 10 to 12 s
	//   accepted: value 20.5, no bound
	// mean JCT 7.75 s, 16 events
	//   long from 0 to 12 s
	//   short from 3 to 5 s
	//   accepted: value 15.5, no bound
}
