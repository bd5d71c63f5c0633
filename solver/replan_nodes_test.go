package solver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// jobsOnNodes returns 16 gangs and rigid jobs of tasks of several GPUs on four nodes of four GPUs. Some wait
// for others, and some need setups.
func jobsOnNodes(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for n := range 4 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", n), CPUMilli: 16_000,
			GPUs: []hare.TypeCount{{Type: "A", Count: 4}}})
	}
	setups := r.IntN(2) > 0
	for i := range 16 {
		j := hare.Job{ID: fmt.Sprint("j", i), Sync: hare.Sync(1 + r.IntN(2)), Rounds: 1 + r.Int64N(20),
			Tasks: 1 + r.Int64N(2), GPUsPerTask: 1 + r.Int64N(4), CPUMilliPerTask: 1000 * r.Int64N(5),
			WeightMicro: 100_000 * (1 + r.Int64N(20)), ReleaseUs: r.Int64N(20_000_000),
			On: []hare.Profile{{Type: "A", ComputeUs: 500_000 + r.Int64N(1_000_000), SyncUs: r.Int64N(200_000)}}}
		if setups {
			j.On[0].SwitchUs = r.Int64N(2) * 1_000_000
		}
		if i > 0 && r.IntN(5) == 0 {
			j.After = []hare.Predecessor{{Job: fmt.Sprint("j", r.IntN(i))}}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// Where nodes matter, a plan with a price of moves costs no more than the cheaper one of the plan that moves
// only what must move and the plan that is made without a price, and a search between the two finds cheaper
// plans for a part of the instances.
func TestStabilityOnNodes(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	opt := hare.Options{Bound: hare.MethodMachine, WorkLimit: 20_000}
	all, better := 0, 0
	for seed := range seeds {
		before := jobsOnNodes(rand.New(rand.NewPCG(seed, 29)))
		prev, err := solver.Solve(t.Context(), before, hare.Options{Bound: hare.MethodMachine, WorkLimit: 2000},
			solver.Config{})
		if err != nil || prev.Schedule == nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		at := makespan(prev) / 3
		inst := *before
		inst.Jobs = slices.Clone(before.Jobs)
		for i := range inst.Jobs {
			if i%5 == 0 {
				inst.Jobs[i].WeightMicro *= 6
			}
		}
		made := func(micro int64) *hare.Result {
			req := hare.ReplanRequest{Previous: prev, Before: before, AtUs: at, HasAt: true, StabilityMicro: micro}
			res, err := solver.Replan(t.Context(), &inst, req, opt, solver.Config{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if rep := verify.CheckReplan(&inst, res, &verify.Previous{Result: prev, Instance: before}); !rep.OK {
				t.Fatalf("seed %d, stability %d: %s", seed, micro, rep)
			}
			return res
		}
		cost := func(res *hare.Result, micro int64) float64 {
			free := res.Replan.MovedGPU.Float() - res.Replan.ForcedGPU.Float()
			return res.Value.Float() + float64(micro)/1e6*free
		}
		free := made(0)
		for _, micro := range []int64{50_000, 200_000, 500_000} {
			res := made(micro)
			got, kept := cost(res, micro), res.Replan.KeptValue.Float()
			if got > kept*(1+1e-9) {
				t.Errorf("seed %d at %d: %v with the price of moves, %v without moves", seed, micro, got, kept)
			}
			t.Logf("seed %d at %d: %.2f, kept %.2f, free %.2f", seed, micro, got, kept, cost(free, micro))
			all++
			if got < min(kept, cost(free, micro))*(1-1e-6) {
				better++
			}
		}
	}
	t.Logf("better than both in %d of %d", better, all)
	if better < all/4 {
		t.Errorf("the search finds something in %d of %d", better, all)
	}
}
