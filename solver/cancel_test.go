package solver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// A cancelled solve answers at once, with the bound that was reported last or with one
// that needs no evaluation of prices. The pair is verified at whatever moment the caller
// cancels.
func TestCancelEvaluatesNoPrices(t *testing.T) {
	for name, inst := range mixes(16) {
		free := new(hare.Amount) // the bound of the methods without prices
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			rel, err := solver.Bound(t.Context(), inst, method, solver.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if b := rel.Bound.RoundDown(); b.Cmp(*free) > 0 {
				free = &b
			}
		}
		priced := 0
		// On a busy machine, the first events may all come before a bound by prices.
		for at := 1; at <= 8 || priced == 0 && at <= 64; at++ {
			t.Run(fmt.Sprintf("%s/%d", name, at), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				reported, events := free, 0
				res, err := solver.Solve(ctx, inst, hare.Options{Seed: 1, WorkLimit: 3000},
					solver.Config{Workers: 1, Progress: func(e solver.Event) {
						if events++; events > at {
							return
						}
						if e.Bound != nil && e.Bound.Cmp(*reported) > 0 {
							reported = e.Bound
						}
						if events == at {
							cancel()
						}
					}})
				if err != nil {
					t.Fatal(err)
				}
				if events < at {
					t.Skip("it had ended")
				}
				if rep := verify.Check(inst, res); !rep.OK {
					t.Fatal(rep)
				}
				if res.Bound == nil || res.Bound.Cmp(*reported) != 0 {
					t.Errorf("bound %v, %v reported before the end of the context", res.Bound, reported)
				}
				if res.Termination != hare.TerminationCancelled || res.Reproducible {
					t.Errorf("termination %s, reproducible %v", res.Termination, res.Reproducible)
				}
				if res.Certificate.Method == hare.MethodPrice {
					priced++
				}
			})
		}
		if priced == 0 {
			t.Errorf("%s: no cancelled solve had prices", name)
		}
	}
}
