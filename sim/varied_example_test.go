package sim_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// A gang on two GPUs loses its second round to a fault and waits until the GPU returns. When
// the gang has ended, a job switches to that GPU. Without the lost work, what was run is a
// schedule that the verifier accepts.
func ExampleConfig() {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}}}},
		Jobs: []hare.Job{
			{ID: "gang", WeightMicro: 1e6, Rounds: 2, Tasks: 2, Sync: hare.Gang,
				On: []hare.Profile{{Type: "V100", ComputeUs: 10e6}}},
			{ID: "late", WeightMicro: 1e6, ReleaseUs: 30e6, Rounds: 1, Tasks: 1,
				On: []hare.Profile{{Type: "V100", ComputeUs: 5e6}}},
		},
	}
	policy, err := online.NewHLAS(sim.Cluster(inst), online.HLASConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sim.Run(context.Background(), inst, policy, sim.Config{
		Faults:   []sim.Fault{{GPU: "a/0", FromUs: 14e6, UntilUs: 20e6}},
		SwitchUs: 2e6,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range out.Jobs {
		fmt.Printf("%s from %s to %s s\n", j.ID, hare.FormatMicros(j.StartUs), hare.FormatMicros(j.EndUs))
	}
	m := out.Metrics(inst)
	fmt.Printf("%d tasks and %g GPU-s lost, %g GPU-s out of service, %g GPU-s switching\n", m.LostTasks, m.LostS,
		m.DownS, m.SwitchS)
	res, err := out.Result(inst, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(verify.Check(inst, res))
	// Output:
	// gang from 0 to 30 s
	// late from 32 to 37 s
	// 2 tasks and 8 GPU-s lost, 6 GPU-s out of service, 2 GPU-s switching
	// accepted: value 37, no bound
}

// The times of tasks differ from the profile as the times of steps did on Alibaba's GPUs. The
// policy sees the profile, and what was run is not a schedule of the instance.
func ExampleStretch() {
	times, err := trace.MiniBatchTimes()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(times)
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 8}}}}},
		Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, Rounds: 1000, Tasks: 8, Sync: hare.Gang,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}},
	}
	policy, err := online.NewFIFO(sim.Cluster(inst))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sim.Run(context.Background(), inst, policy, sim.Config{Stretch: times})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f s, where all tasks as the profile says take 1000 s\n", out.Metrics(inst).MakespanS)
	_, err = out.Result(inst, nil)
	fmt.Println(err)
	// Output:
	// 10891 steps: median 1, p95 1.16, p99 1.8, most 2.53 times the worker's median
	// 1210 s, where all tasks as the profile says take 1000 s
	// sim: 7556 tasks did not take the times of their profiles, so the run is not a schedule of the instance
}

// A job of 10^8 rounds with merged rounds takes no longer to simulate than a job of a few
// thousand rounds.
func ExampleMerge() {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}}}},
		Jobs: []hare.Job{
			{ID: "long", WeightMicro: 1e6, Rounds: 100_000_000, Tasks: 2, Sync: hare.Gang,
				On: []hare.Profile{{Type: "V100", ComputeUs: 900, SyncUs: 100}}},
		},
	}
	merged := sim.Merge(inst, 0) // the default is rounds of about a minute
	policy, err := online.NewFIFO(sim.Cluster(merged.Inst))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := merged.Run(context.Background(), policy, sim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Events, "events")
	fmt.Println(out.Schedule.Lanes[0])
	res, err := out.Result(inst, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(verify.Check(inst, res))
	// Output:
	// 3336 events
	// {a/0 [0] [0] [100000000] [1] [1000] [0] []}
	// accepted: value 100000, no bound
}
