package relax

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
)

// mixedBound is what checkMixed finds of one instance.
type mixedBound struct {
	objective string
	found     bool // there is a schedule
	gap       float64
	pools     []hare.Pool
	after     int
}

// checkMixed compares the bounds of every certified method with the optimum.
func checkMixed(t *testing.T, seed uint64) (out mixedBound) {
	t.Helper()
	inst := brute.RandomMixed(rand.New(rand.NewPCG(seed, 21)))
	out.objective = inst.Objective
	m := hare.NewModel(inst)
	opt, plan, done := brute.OptimumOnNodes(inst, 100_000)
	out.found = done && plan != nil
	optimum := hare.Product(1, opt)
	for _, method := range []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine} {
		if method == hare.MethodMachine && inst.Objective == hare.ObjectiveMakespan {
			continue
		}
		rel, err := Run(t.Context(), m, Config{Method: method, Workers: 1, Cells: 24, Effort: 0.5, Steps: 2})
		if err != nil {
			if out.found {
				t.Errorf("seed %d: %s: %v, but there is a schedule of %d", seed, method, err, opt)
			}
			return out
		}
		if len(rel.Progress) != len(inst.Jobs) {
			t.Errorf("seed %d: %s: progress of %d jobs of %d", seed, method, len(rel.Progress), len(inst.Jobs))
		}
		if out.found && rel.Bound.Cmp(optimum) > 0 {
			t.Errorf("seed %d: %s bound %v above the optimum %v", seed, method, rel.Bound, optimum)
		}
		if method == hare.MethodPrice && opt > 0 {
			out.gap = 1 - rel.Bound.Float()/optimum.Float()
			out.pools, out.after = rel.Certificate.Pools, len(rel.Certificate.After)
		}
	}
	return out
}

func TestMixedBoundsNeverExceedTheOptimum(t *testing.T) {
	seeds := uint64(600)
	if testing.Short() {
		seeds = 100
	}
	count, gaps := map[string]int{}, map[string]float64{}
	quotas, after := 0, 0
	for seed := range seeds {
		b := checkMixed(t, seed)
		if b.found {
			count[b.objective]++
			gaps[b.objective] += b.gap
		}
		after += min(1, b.after)
		for _, p := range b.pools {
			if p.Resource == hare.PoolQuota {
				quotas++
				break
			}
		}
	}
	for objective, n := range count {
		mean := gaps[objective] / float64(n)
		t.Logf("%s: %d instances, mean gap %.4f", objective, n, mean)
		if mean > 0.15 {
			t.Errorf("%s: the mean gap of %d instances is %.4f", objective, n, mean)
		}
	}
	t.Logf("pools of quotas in %d, weights moved in %d", quotas, after)
	if len(count) < 3 || quotas == 0 || after == 0 {
		t.Error("some rules are never met")
	}
}
