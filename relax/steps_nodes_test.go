package relax

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// TestStepsOnNodes checks that bounds round by round on nodes are those that package verify
// finds. TestPlacedBoundsNeverExceedTheOptimum compares them with the optimum.
func TestStepsOnNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	stated, inPools := 0, 0
	for seed := uint64(0); seed < 400; seed++ {
		inst := brute.RandomOnNodes(rand.New(rand.NewPCG(seed, 21)))
		m := model.New(inst)
		if !m.Placed {
			continue
		}
		rel, err := Run(t.Context(), m, Config{Workers: 1, Cells: 24, Effort: 0.5, Steps: 2})
		if err != nil || rel.Certificate.StepUs == 0 {
			continue
		}
		stated++
		inPools += min(1, len(rel.Certificate.Pools))
		bound, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, _ := bound.Float64(); got < rel.Bound.Float()*(1-1e-9) || got > rel.Bound.Float()*(1+1e-9) {
			t.Errorf("seed %d: the bound is %v, and package verify finds %v", seed, rel.Bound, got)
		}
	}
	t.Logf("%d bounds round by round, %d of them with pools", stated, inPools)
	if stated < 5 {
		t.Errorf("only %d instances are bounded round by round", stated)
	}
}
