package solver_test

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// absent is an LP engine of which nobody knows before a problem that it does not run.
type absent struct{}

func (absent) Solve(context.Context, *lp.Problem) (*lp.Solution, error) {
	return nil, lp.ErrUnavailable
}

// known is an LP engine that knows that it does not run.
type known struct{ absent }

func (known) Available() bool { return false }

// Where there is no LP engine, the methods that need one say so, and the others go on.
func TestBoundWithoutEngine(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [{"name": "a",
		"gpus": {"V100": 1}}]}, "jobs": [{"id": "x", "on": {"V100": {"compute_s": 2}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	six, err := trace.Generate(trace.GenerateConfig{Jobs: 6, Seed: 1,
		GPUs: []hare.TypeCount{{Type: "V100", Count: 2}, {Type: "T4", Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, engine := range map[string]lp.Solver{"none": nil, "absent": absent{}, "known": known{}} {
		cfg := solver.Config{LP: engine}
		for _, method := range []string{"queyranne", "paper"} {
			var refused *hare.InvalidError
			if _, err := solver.Bound(t.Context(), inst, method, cfg); !errors.As(err, &refused) ||
				refused.Pointer != "/method" || refused.Code != "no_lp_engine" ||
				!strings.Contains(refused.Detail, "take another method, or see hare doctor") {
				t.Errorf("%s, %s: %v", name, method, err)
			}
			// The gap of six jobs stays open, so that the termination is that of the search.
			res, err := solver.Solve(t.Context(), six, hare.Options{Order: method, Gap: 1e-9, WorkLimit: 10}, cfg)
			if name == "absent" && (err != nil || res.Termination != hare.TerminationWorkLimit || res.Reproducible) ||
				name != "absent" && (!errors.As(err, &refused) || refused.Pointer != "/options/order") {
				t.Errorf("%s, %s: %+v, %v", name, method, res, err)
			}
			if err := solver.Check(inst, hare.Options{Bound: method}, cfg); name != "absent" && (!errors.As(err, &refused) ||
				refused.Pointer != "/options/bound" || refused.Code != "no_lp_engine") {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
		if rel, err := solver.Bound(t.Context(), inst, "price", cfg); err != nil || rel.Bound.String() != "2" {
			t.Errorf("%s: price: %v, %v", name, rel, err)
		}
	}
}

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
