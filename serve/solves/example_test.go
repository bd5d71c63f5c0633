package solves_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// A stored solve of two jobs on one GPU: the caller submits the instance, waits for the
// end, and reads the events that were recorded.
func ExampleOpen() {
	ctx := context.Background()
	svc := service.New(service.Config{Solver: solver.Config{Version: "example"}})
	all, err := solves.Open(ctx, solves.Config{Service: svc, Store: store.NewMemorySolves()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer all.Close()
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
	}
	for i, seconds := range []int64{5, 2} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("job", i), WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "V100", ComputeUs: seconds * 1e6}}})
	}
	info, _, err := all.Submit(ctx, solves.Input{Instance: inst, Options: hare.Options{WorkLimit: 10}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if info, err = all.Wait(ctx, "", info.ID); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Status, "with the value", info.Value, "and the bound", info.Bound)
	for event, err := range all.Events(ctx, "", info.ID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if event.Type == solves.EventStatus || event.Type == solves.EventDone {
			fmt.Println(event.Type, event.Status)
		}
	}
	// Output:
	// succeeded with the value 9 and the bound 9
	// status queued
	// status running
	// done succeeded
}
