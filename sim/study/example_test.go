package study_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Two policies run twenty jobs of Gavel's trace small_test on eight GPUs of each of three types.
func ExampleSimulate() {
	rep, err := study.Simulate(context.Background(), &simulatedoc.Request{
		Policies: []string{"gavel:fifo", "hlas"},
		Trace:    &simulatedoc.Trace{Name: "small_test"},
		GPUs:     []hare.TypeCount{{Type: "K80", Count: 8}, {Type: "P100", Count: 8}, {Type: "V100", Count: 8}}},
		study.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range rep.Runs {
		fmt.Printf("%s: mean completion time %.0f s, verified %v\n", run.Policy, run.MeanJCTS, run.Verified)
	}
	// Output:
	// gavel:fifo: mean completion time 165 s, verified false
	// hlas: mean completion time 150 s, verified true
}
