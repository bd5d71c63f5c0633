package solver_test

import (
	"math/big"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// A work limit makes a bound weaker but never untrue, and gives the same bound every
// time.
func TestBoundWork(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute under the race detector, where TestEndOnOneTypeIsTheVerifiers also asks for bounds")
	}
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 12, Seed: 1,
		GPUs: []hare.TypeCount{{Type: "V100", Count: 4},
			{Type: "K80", Count: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	bound := func(work int64) float64 {
		rel, err := solver.Bound(t.Context(), inst, hare.MethodPrice, solver.Config{BoundWork: work})
		if err != nil {
			t.Fatal(err)
		}
		amount, err := hare.ParseAmount(rel.Certificate.Bound)
		if err != nil {
			t.Fatal(err)
		}
		stated, ok := new(big.Rat).SetString(rel.Certificate.Bound)
		if proved, err := verify.Bound(inst, rel.Certificate); err != nil || !ok || proved.Cmp(stated) < 0 {
			t.Errorf("proved %v of %s, %v", proved, rel.Certificate.Bound, err)
		}
		return amount.Float()
	}
	all, some, few := bound(0), bound(5000), bound(20)
	if !(few <= some && some <= all && few > 0.5*all) || few == all {
		t.Errorf("bounds %g, %g, %g", few, some, all)
	}
	if again := bound(5000); again != some {
		t.Errorf("bounds %g and %g", some, again)
	}
}
