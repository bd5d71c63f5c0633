package solver_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// One GPU runs job a, with two rounds of 10 s, and then job b, which takes 30 s. At 5 s the
// urgent job u arrives. The round of a that has started stays. If moves are free, the rest of
// a and b starts later; if moves have a price, only the rest of a does.
func ExampleReplan() {
	const cluster = `"cluster": {"nodes": [{"name": "n", "gpus": {"V100": 1}}]}`
	const jobs = `{"id": "a", "rounds": 2, "on": {"V100": {"compute_s": 10}}}, {"id": "b", ` +
		`"on": {"V100": {"compute_s": 30}}}`
	decode := func(jobs string) *hare.Instance {
		inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", `+cluster+`, "jobs": [`+jobs+`]}`),
			wire.Limits{})
		if err != nil {
			panic(err)
		}
		return inst
	}
	before := decode(jobs)
	after := decode(jobs + `, {"id": "u", "weight": 9, "release_s": 5, "on": {"V100": {"compute_s": 10}}}`)
	previous, err := solver.Solve(context.Background(), before, hare.Options{}, solver.Config{})
	if err != nil {
		panic(err)
	}
	for _, stability := range []int64{0, 10_000_000} { // 0, and 10 weight-seconds per GPU-second
		res, err := solver.Replan(context.Background(), after, hare.ReplanRequest{
			Previous: previous, Before: before, AtUs: 5_000_000, HasAt: true, StabilityMicro: stability,
		}, hare.Options{}, solver.Config{})
		if err != nil {
			panic(err)
		}
		p := res.Replan
		fmt.Printf("stability %s: value %s + %s, %s of %s GPU-seconds moved\n", hare.FormatMicros(stability),
			res.Value,
			p.Constant, p.MovedGPU, p.PlannedGPU)
		for _, x := range p.Moved {
			fmt.Println(" ", x.ID, x.Why, "by", hare.FormatMicros(x.To.EndUs-x.From.EndUs), "s")
		}
		report := verify.CheckReplan(after, res, &verify.Previous{Result: previous, Instance: before})
		fmt.Println(" ", strings.ReplaceAll(report.String(), "; ", ";\n    "))
	}
	// Output:
	// stability 0: value 210 + 15, 40 of 40 GPU-seconds moved
	//   a made_way by 10 s
	//   b made_way by 10 s
	//   accepted: value 210, bound 209.999833, at most 0.01 % above the best possible plan;
	//     this is the rest at 5 s, and the whole instance costs 15 more
	// stability 10: value 230 + 15, 10 of 40 GPU-seconds moved
	//   a made_way by 40 s
	//   accepted: value 230, bound 209.999833, at most 9.53 % above the best possible plan;
	//     this is the rest at 5 s, and the whole instance costs 15 more
}
