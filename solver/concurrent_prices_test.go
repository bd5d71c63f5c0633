package solver

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

func manyGangs(t *testing.T) *hare.Instance {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 120, Seed: 5, Sync: "gang", Arrivals: "uniform:1200"})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// With two cores one searches while the other raises the bound above that of the plan. A gap that this bound reaches
// ends the search. A busy machine needs more time for both.
func TestPricesBesideTheSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("the goroutines are those of TestCancelWhilePricesAreFoundBeside")
	}
	inst := manyGangs(t)
	var first, bound *hare.Amount
	var value hare.Amount
	limit := 1500 * time.Millisecond
	for ; ; limit *= 3 {
		first = nil
		watch := func(e Event) {
			if e.Phase == PhaseImprove && first == nil {
				first = e.Bound
			}
		}
		res, err := Solve(t.Context(), inst, hare.Options{TimeLimit: limit}, Config{Workers: 2, Progress: watch})
		if err != nil {
			t.Fatal(err)
		}
		if res.Termination != hare.TerminationDeadline || res.Timing.Total > limit+5*time.Second {
			t.Errorf("a solve of %v was stopped by %s after %v", limit, res.Termination, res.Timing.Total)
		}
		value, bound = *res.Value, res.Bound
		if res.Certificate.Method == hare.MethodBranch && first != nil && bound.Cmp(*first) > 0 {
			break
		}
		if limit > 10*time.Second {
			t.Fatalf("method %s, bound %v, at first %v after %v", res.Certificate.Method, bound, first, limit)
		}
	}
	// The gap lies between that to this bound and that to the first one.
	gap := (value.Float()/bound.Float()+value.Float()/first.Float())/2 - 1
	limit *= 6
	res, err := Solve(t.Context(), inst, hare.Options{TimeLimit: limit, Gap: gap}, Config{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	if res.Termination != hare.TerminationGap || res.Timing.Total > limit*9/10 {
		t.Errorf("the gap %.4f is not reached soon: stopped by %s after %v of %v", gap, res.Termination, res.Timing.Total,
			limit)
	}
}

// A solve that is cancelled has the best bound that was found beside its search until then.
func TestCancelWhilePricesAreFoundBeside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first, last *hare.Amount
	began := time.Now()
	watch := func(e Event) {
		if e.Phase != PhaseImprove {
			return
		}
		if first == nil {
			first = e.Bound
		}
		if last = e.Bound; last.Cmp(*first) > 0 {
			cancel()
		}
	}
	res, err := Solve(ctx, manyGangs(t), hare.Options{TimeLimit: 5 * time.Minute}, Config{Workers: 2, Progress: watch})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*time.Minute {
		t.Errorf("no better bound was shown for %v", took)
	}
	if res.Termination != hare.TerminationCancelled || res.Bound.Cmp(*last) < 0 || res.Bound.Cmp(*first) <= 0 {
		t.Errorf("stopped by %s with the bound %v, at first %v, at last %v", res.Termination, res.Bound, first, last)
	}
}

// Prices are found beside the search only where cores, jobs and time allow it.
func TestWhenPricesAreFoundBeside(t *testing.T) {
	if testing.Short() {
		t.Skip("plans of 120 jobs take long under the race detector, and nothing runs beside them here")
	}
	const limit = 6 * time.Second
	type generated = trace.GenerateConfig
	wide := []hare.TypeCount{{Type: "V100", Count: 12}, {Type: "T4", Count: 12}}
	for _, test := range []struct {
		name    string
		opt     hare.Options
		gen     generated
		relaxed int // each relaxed-th job is relaxed, if it is not 0
		cfg     Config
		want    bool
	}{
		{"gangs on two cores", hare.Options{TimeLimit: limit}, generated{Sync: "gang", Jobs: 120}, 0, Config{Workers: 2},
			true},
		{"gangs on one core", hare.Options{TimeLimit: limit}, generated{Sync: "gang", Jobs: 120}, 0, Config{Workers: 1},
			false},
		{"rigid on two cores", hare.Options{TimeLimit: limit}, generated{Sync: "rigid", Jobs: 120}, 0, Config{Workers: 2},
			true},
		{"few gangs", hare.Options{TimeLimit: limit}, generated{Sync: "gang", Jobs: 40}, 0, Config{Workers: 2}, false},
		{"a work limit", hare.Options{TimeLimit: limit, WorkLimit: 1000}, generated{Sync: "gang", Jobs: 120}, 0,
			Config{Workers: 2}, false},
		{"a gap that is reached", hare.Options{TimeLimit: limit, Gap: 1}, generated{Sync: "gang", Jobs: 120}, 0,
			Config{Workers: 2}, false},
		{"a mixture", hare.Options{TimeLimit: limit},
			generated{Sync: "rigid", Jobs: 120, GPUs: wide, Arrivals: "uniform:4000"}, 3, Config{Workers: 2}, true},
		{"a mixture all at 0", hare.Options{TimeLimit: limit}, generated{Sync: "rigid", Jobs: 120, GPUs: wide}, 3,
			Config{Workers: 2}, false},
		{"a narrow mixture", hare.Options{TimeLimit: limit},
			generated{Sync: "rigid", Jobs: 120, Arrivals: "uniform:500"}, 3, Config{Workers: 2}, false},
		{"relaxed jobs alone", hare.Options{TimeLimit: limit},
			generated{Sync: "relaxed", Jobs: 120, GPUs: wide, Arrivals: "uniform:4000"}, 0, Config{Workers: 2}, false},
		{"a mixture in little time", hare.Options{TimeLimit: limit / 20},
			generated{Sync: "rigid", Jobs: 120, GPUs: wide, Arrivals: "uniform:4000"}, 3, Config{Workers: 2}, false},
	} {
		test.gen.Seed = 5
		inst, err := trace.Generate(test.gen)
		if err != nil {
			t.Fatal(err)
		}
		for i := range inst.Jobs {
			if test.relaxed > 0 && i%test.relaxed == 0 {
				inst.Jobs[i].Sync = hare.Relaxed
			}
		}
		s, err := newSolve(t.Context(), inst, test.opt, test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.setLimits()
		defer s.watchCancel()()
		guide, err := s.relaxations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.assign(t.Context(), guide)
		if got := s.branches() && s.pricesConcurrently(); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// A gap is reached beside the search just where the bound that was told reaches it.
func TestGapReachedBeside(t *testing.T) {
	s := &solve{opt: hare.Options{Gap: 0.02}, value: hare.Product(102_000_000, 1_000_000)}
	if s.gapReachedConcurrently() {
		t.Error("a gap is reached without a search beside")
	}
	s.concurrent = &concurrentPrices{}
	for bound, want := range map[float64]bool{0: false, 99.9: false, 100.01: true} {
		if s.concurrent.bound.Store(math.Float64bits(bound)); s.gapReachedConcurrently() != want {
			t.Errorf("value %v, bound %v: not %t", s.value, bound, want)
		}
	}
}
