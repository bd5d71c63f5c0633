package regret_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// The only GPU ran the long job first, although the short job has the same weight.
func ExampleOf() {
	log := []wire.Record{
		{Event: hare.Event{Seq: 1, AtUs: 0, Type: hare.EventJobArrived, Job: "long", Arrived: job("long", 9)},
			Decisions: []hare.Decision{{Type: hare.DecisionStart, Job: "long", GPU: "a/0", AtUs: 0}}},
		{Event: hare.Event{Seq: 2, AtUs: 0, Type: hare.EventJobArrived, Job: "short", Arrived: job("short", 1)}},
		{Event: hare.Event{Seq: 3, AtUs: 9e6, Type: hare.EventTaskEnded, Job: "long", GPU: "a/0", ComputeUs: 9e6}},
		{Event: hare.Event{Seq: 4, AtUs: 9e6, Type: hare.EventJobEnded, Job: "long"},
			Decisions: []hare.Decision{{Type: hare.DecisionStart, Job: "short", GPU: "a/0", AtUs: 9e6}}},
		{Event: hare.Event{Seq: 5, AtUs: 10e6, Type: hare.EventTaskEnded, Job: "short", GPU: "a/0", ComputeUs: 1e6}},
		{Event: hare.Event{Seq: 6, AtUs: 10e6, Type: hare.EventJobEnded, Job: "short"}},
	}
	hindsight := regret.NewHindsight(&hare.Cluster{
		Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}})
	for _, rec := range log {
		if err := hindsight.Add(rec); err != nil {
			fmt.Println(err)
			return
		}
	}
	bound := func(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
		return solver.Bound(ctx, inst, method, solver.Config{})
	}
	r, err := regret.Of(context.Background(), hindsight, bound)
	if err != nil {
		fmt.Println(err)
		return
	}
	ratio, _ := r.Ratio()
	fmt.Printf("achieved %v, at best %v: %s times as much\n", r.Achieved, r.Bound, ratio.FloatString(3))
	// Output:
	// achieved 19, at best 11: 1.727 times as much
}

func job(id string, seconds int64) *hare.Job {
	return &hare.Job{ID: id, WeightMicro: 1e6, Tasks: 1, On: []hare.Profile{{Type: "V100", ComputeUs: seconds * 1e6}}}
}
