package explain_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// Two jobs need the only GPU, and the job of lesser weight waits for the other.
func ExampleExplain() {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
	 "cluster": {"nodes": [{"name": "a", "gpus": {"V100": 1}}]},
	 "jobs": [{"id": "big", "weight": 9, "on": {"V100": {"compute_s": 60}}},
	          {"id": "small", "on": {"V100": {"compute_s": 30}}}]}`), wire.Limits{})
	if err != nil {
		panic(err)
	}
	solve := func(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
		return solver.Solve(ctx, inst, opt, solver.Config{})
	}
	res, err := solve(context.Background(), inst, hare.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	x, err := explain.Explain(context.Background(), inst, res, explain.Request{Job: "small", ByUs: 30e6}, solve)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s runs from %s to %s s\n", x.Job, x.StartS, x.EndS)
	w := x.Timeline[0].Waits[0]
	fmt.Printf("before, %s is %s by %s until %s s\n", w.Type, w.Cause, w.Jobs[0].Job, w.Jobs[0].UntilS)
	for _, c := range x.Earlier.Changes {
		if c.Does {
			fmt.Printf("%s ends it at %s s and delays %d\n", c.Kind, c.EndS, c.Delayed)
		}
	}
	// Output:
	// small runs from 60 to 90 s
	// before, V100 is held by big until 60 s
	// add_gpu ends it at 30 s and delays 0
	// weight ends it at 30 s and delays 1
}
