package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
)

// searchFor solves an instance and ends the solve as soon as the search has found the optimum.
func searchFor(ctx context.Context, inst *hare.Instance, opt hare.Options, optimum hare.Amount) (*hare.Result,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return solver.Solve(ctx, inst, opt, solver.Config{Workers: 1, Checkpoint: func(best func() (*hare.Result, error)) {
		if res, err := best(); err == nil && res.Value.Cmp(optimum) == 0 {
			cancel()
		}
	}})
}

// The search finds the optimum of at least 99 % of tiny instances of all modes at a fixed work
// limit, which takes less than 0.2 s.
func TestSearchFindsTinyOptima(t *testing.T) {
	seeds := uint64(600)
	if testing.Short() {
		seeds = 200
	}
	judged, found := 0, 0
	var longest time.Duration
	for seed := range seeds {
		inst := brute.Random(rand.New(rand.NewPCG(seed, 11)))
		m := model.New(inst)
		opt, ok, done := brute.Optimum(inst, 300_000)
		if !ok || !done || len(greedy.Infeasible(m)) > 0 {
			continue
		}
		began := time.Now()
		res, err := searchFor(t.Context(), inst, hare.Options{WorkLimit: 10_000, Seed: int64(seed)},
			hare.Product(1, opt))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		longest = max(longest, time.Since(began))
		judged++
		if res.Value != nil && res.Value.Cmp(hare.Product(1, opt)) == 0 {
			found++
			continue
		}
		modes := ""
		for _, j := range inst.Jobs {
			modes += j.Sync.String()
			if j.Mix {
				modes += "+"
			}
			modes += " "
		}
		t.Logf("seed %d: value %v, optimum %v: %s", seed, res.Value, hare.Product(1, opt), modes)
	}
	t.Logf("the optimum of %d in %d found, %v at most", found, judged, longest)
	if found*100 < judged*99 || judged < int(seeds)/2 {
		t.Errorf("the optimum of %d in %d found", found, judged)
	}
}

// The search finds the optima of instances of nine rigid jobs, which CP-SAT has proved
// (testdata/instances/README.md), from ten seeds each and at a work limit that takes less than
// 0.2 s.
func TestSearchFindsNineJobOptima(t *testing.T) {
	for i, want := range []string{"2987.262303", "674.700576", "1448.537145", "1052.687993", "2676.532143",
		"1652.902924"} {
		inst := frozen(t, fmt.Sprint("rigid-9-", i+1))
		optimum, err := hare.ParseAmount(want)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range int64(10) {
			began := time.Now()
			res, err := searchFor(t.Context(), inst, hare.Options{WorkLimit: 300_000, Seed: seed + 1}, optimum)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Value.String(); got != want {
				t.Errorf("rigid-9-%d from seed %d: %s, the optimum is %s", i+1, seed+1, got, want)
			}
			if seed == 0 {
				t.Logf("rigid-9-%d took %v", i+1, time.Since(began))
			}
		}
	}
}
