package study_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// No run is better than the bound. The bound is the same in a second run, and is left out if there
// is none.
func TestBound(t *testing.T) {
	seeds := int64(3)
	if testing.Short() {
		seeds = 1 // the bounds of relaxed jobs take most of the time
	}
	for seed := range seeds {
		req := &simulatedoc.Request{
			Policies: []string{"hare_offline", "hlas", "gavel:isolated"}, Seed: seed, Bound: simulatedoc.BoundAuto,
			Generate: &simulatedoc.Generate{Jobs: 8, Sync: []string{"gang", "relaxed", "rigid"}[seed%3],
				Arrivals: "uniform:60"},
		}
		if seed == 2 {
			req.SwitchUs = 1e6
		}
		rep, err := study.Simulate(t.Context(), req, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		b := rep.Bound
		if b == nil || b.WeightedJCTS <= 0 || len(b.Above) == 0 {
			t.Fatalf("seed %d: %+v", seed, b)
		}
		for i := range rep.Runs {
			x := &rep.Runs[i]
			if x.Engine == "task" && x.WeightedJCTS < b.WeightedJCTS {
				t.Errorf("seed %d: %s reaches %v, below the bound %v", seed, x.Policy, x.WeightedJCTS, b.WeightedJCTS)
			}
			if _, ok := b.Above[x.Policy]; ok != x.Verified {
				t.Errorf("seed %d: %s, verified %v, has a gap: %v", seed, x.Policy, x.Verified, ok)
			}
		}
		var table strings.Builder
		if err := rep.Table(&table, 0); err != nil ||
			!strings.Contains(table.String(), "bound: no plan of these jobs") {
			t.Errorf("%v: %s", err, table.String())
		}
		again, err := study.Simulate(t.Context(), req, study.Config{Parallel: 3})
		if err != nil || again.Bound.WeightedJCTS != b.WeightedJCTS {
			t.Errorf("seed %d: %v, then %v (%v)", seed, b, again.Bound, err)
		}
		for _, without := range []func(r *simulatedoc.Request){
			func(r *simulatedoc.Request) { r.Bound = "" },
			func(r *simulatedoc.Request) { r.Bound = simulatedoc.BoundNever },
			func(r *simulatedoc.Request) { r.First, r.Last = 1, 4 },
			func(r *simulatedoc.Request) { r.Repeat = 2 },
			func(r *simulatedoc.Request) { r.Stragglers = true },
			func(r *simulatedoc.Request) { r.Policies = []string{"gavel:isolated"} },
		} {
			other := *req
			other.Policies = []string{"hlas"}
			without(&other)
			rep, err := study.Simulate(t.Context(), &other, study.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Bound != nil {
				t.Errorf("seed %d: a bound %+v", seed, rep.Bound)
			}
		}
	}
}
