package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

var replanTable = flag.Bool("replan", false,
	"plan standard-200 again at half of its makespan with 10 % new jobs, and print the table of docs/use/replan.md")

// TestReplanTable prints value and moves for growing stability.
func TestReplanTable(t *testing.T) {
	if !*replanTable {
		t.Skip("takes minutes: go test ./bench -run ReplanTable -replan -v")
	}
	before := frozen(t, "standard-200")
	opt := hare.Options{Gap: solver.DefaultGap, Seed: 1}
	prev, err := solver.Solve(t.Context(), before, opt, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	at := prev.Metrics.MakespanUs / 2
	after := *before
	after.Jobs = slices.Clone(before.Jobs)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range len(before.Jobs) / 10 {
		j := before.Jobs[r.IntN(len(before.Jobs))]
		j.ID, j.ReleaseUs = fmt.Sprintf("new-%d", i), at
		after.Jobs = append(after.Jobs, j)
	}
	fmt.Println("| stability | value of the rest | gain | jobs moved | GPU-time moved | gap |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, stability := range []string{"0", "0.02", "0.05", "0.1", "0.2", "0.5", "1000"} {
		req := hare.ReplanRequest{Previous: prev, Before: before, AtUs: at, HasAt: true}
		if req.StabilityMicro, err = hare.ParseMicros(stability); err != nil {
			t.Fatal(err)
		}
		res, err := solver.Replan(t.Context(), &after, req, opt, solver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.CheckReplan(&after, res, nil); !rep.OK {
			t.Fatal(rep)
		}
		p := res.Replan
		gap, _ := res.Gap()
		share, _ := gap.Float64()
		fmt.Printf("| %s | %.1f | %.1f | %d of %d | %.1f %% | %.1f %% |\n", stability, res.Value.Float(),
			p.KeptValue.Sub(*res.Value).Float(),
			len(p.Moved), len(p.Moved)+len(p.Kept), 100*p.MovedGPU.Float()/p.PlannedGPU.Float(), 100*share)
	}
}
