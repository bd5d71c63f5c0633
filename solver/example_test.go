package solver_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// The first solve: an instance, a limit, a plan with a proved bound, and a check that shares no code with the solver.
func ExampleSolve() {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "n1", "gpus": {"V100": 1}}, {"name": "n2", "gpus": {"T4": 2}}]},
		"jobs": [
			{"id": "bert", "weight": 2, "rounds": 10, "tasks": 2, "on": {"V100": {"compute_s": 1}, "T4": {"compute_s": 3}}},
			{"id": "vgg", "tasks": 2, "sync": "gang", "on": {"T4": {"compute_s": 30}}}]}`), wire.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := solver.Solve(context.Background(), inst, hare.Options{TimeLimit: 2 * time.Second}, solver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	gap, _ := result.Gap()
	fmt.Printf("weighted completion time %s, never below %s: a gap of %s\n", result.Value, result.Bound,
		gap.FloatString(2))
	for _, j := range result.Jobs {
		fmt.Printf("%s ends after %.0f s\n", j.ID, float64(j.EndUs)/1e6)
	}
	fmt.Println("accepted:", verify.Check(inst, result).OK)
	// Output:
	// weighted completion time 70, never below 70: a gap of 0.00
	// bert ends after 20 s
	// vgg ends after 30 s
	// accepted: true
}

// An instance that a program builds needs no JSON. Times are in microseconds, weights in millionths; a faulty field is
// named before anything is solved.
func ExampleSolve_built() {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "n1", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
		Jobs: []hare.Job{{ID: "bert", WeightMicro: 1e6, Rounds: 10, Tasks: 1, Sync: hare.Rigid,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}},
	}
	result, err := solver.Solve(context.Background(), inst, hare.Options{TimeLimit: time.Second}, solver.Config{})
	fmt.Println(result.Value, err)
	inst.Jobs[0].Tasks = -1
	_, err = solver.Solve(context.Background(), inst, hare.Options{TimeLimit: time.Second}, solver.Config{})
	fmt.Println(err)
	// Output:
	// 10 <nil>
	// /jobs/0/tasks: must be between 1 and 1048576 for a rigid job (out_of_range)
}
