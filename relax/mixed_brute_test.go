package relax

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// mixedBound is what checkMixed finds of one instance.
type mixedBound struct {
	objective string
	found     bool // there is a schedule
	gap       float64
	pools     []hare.Pool
	after     int
}

// checkMixed compares the bounds of every certified method with the optimum and with what the
// verifier makes of their certificates.
func checkMixed(t *testing.T, seed uint64, inst *hare.Instance) (out mixedBound) {
	t.Helper()
	out.objective = inst.Objective
	m := model.New(inst)
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
		stated, _ := new(big.Rat).SetString(rel.Certificate.Bound)
		proved, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Errorf("seed %d: %s: %v", seed, method, err)
			continue
		}
		if more := new(big.Rat).Sub(proved, stated); more.Sign() < 0 || more.Cmp(big.NewRat(1, 1e6)) >= 0 {
			t.Errorf("seed %d: %s: the certificate states %s and proves %s", seed, method, rel.Certificate.Bound,
				proved.FloatString(9))
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
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	seeds := uint64(500)
	count, gaps := map[string]int{}, map[string]float64{}
	quotas, after := 0, 0
	for seed := range seeds {
		b := checkMixed(t, seed, brute.RandomMixed(rand.New(rand.NewPCG(seed, 21))))
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

// Relaxations that guide plans, and bounds in floats, are found for all rules.
func TestMixedGuides(t *testing.T) {
	for seed := range uint64(60) {
		m := model.New(brute.RandomMixed(rand.New(rand.NewPCG(seed, 22))))
		for _, cfg := range []Config{{Workers: 1, Cells: 24, SyncAsCompute: 0.5}, {Workers: 2, Cells: 24, Rounded: true},
			{Workers: 1, Cells: 12, NoSizes: true}} {
			rel, err := Run(t.Context(), m, cfg)
			if err != nil {
				break
			}
			if len(rel.Progress) != len(m.Jobs) {
				t.Errorf("seed %d: progress of %d jobs of %d", seed, len(rel.Progress), len(m.Jobs))
			}
			for i, points := range rel.Progress {
				if last := points[len(points)-1]; last.Rounds != float64(m.Jobs[i].Rounds) {
					t.Errorf("seed %d: job %d ends with %v of %d rounds", seed, i, last.Rounds, m.Jobs[i].Rounds)
				}
			}
		}
	}
}
