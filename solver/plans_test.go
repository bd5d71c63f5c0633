package solver

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/trace"
)

func TestChargesLieOnALine(t *testing.T) {
	for _, c := range []struct {
		at   float64
		want planCharge
	}{{0.5, planCharge{0.5, 0}}, {1, planCharge{1, 0}}, {1.25, planCharge{1, 0.25}}} {
		got := chargeAt(c.at)
		if got != c.want || got.at() != c.at {
			t.Errorf("the charge at %g is %v, at %g; want %v", c.at, got, got.at(), c.want)
		}
	}
	if got := chargeAt(0.1).plus(-1); got.sync <= 0 {
		t.Errorf("a plan must charge something, since a relaxation that charges nothing is a bound; got %v", got)
	}
}

// Arrivals decide what the first plan charges: of jobs that arrive over time more than of jobs that are all
// there at time 0, most where times have no common unit, nothing where no job is relaxed, and where jobs are
// few no more than at time 0. Of many relaxed jobs it charges less, but not where others are among them.
func TestFirstCharge(t *testing.T) {
	for _, c := range []struct {
		sync, arrivals string
		jobs           int
		want           float64
	}{
		{"relaxed", "none", 20, zeroCharge}, {"relaxed", "uniform:400", 20, unitCharge},
		{"odd", "uniform:400", 20, spreadCharge},
		{"mixed", "uniform:400", 20, mixedCharge}, {"rigid", "uniform:400", 20, 0},
		{"relaxed", "uniform:400", 19, zeroCharge},
		{"relaxed", "none", 2000, leastZero}, {"relaxed", "uniform:400", 2000, leastSpread},
		{"odd", "uniform:400", 400, spreadCharge - chargeFall*math.Log(math.Sqrt(400*160)/chargeSize)},
		{"mixed", "none", 2000, zeroCharge}, {"mixed", "uniform:400", 2000, mixedCharge},
	} {
		sync := c.sync
		if sync == "mixed" || sync == "odd" {
			sync = "relaxed"
		}
		inst, err := trace.Generate(trace.GenerateConfig{Jobs: c.jobs, Seed: 1, Sync: sync, Arrivals: c.arrivals})
		if err != nil {
			t.Fatal(err)
		}
		switch c.sync {
		case "mixed":
			inst.Jobs[0].Sync = hare.Rigid
		case "odd":
			inst.Jobs[0].On[0].ComputeUs += 1000
		}
		s, err := newSolve(t.Context(), inst, hare.Options{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		s.setLimits()
		if got := s.limits.charge.at(); got != c.want {
			t.Errorf("%s jobs, arrivals %s: the first plan charges %g, want %g", c.sync, c.arrivals, got, c.want)
		}
	}
}

// Trials of other charges never make the incumbent worse, and what they return is one of the tried charges with
// a plan.
func TestTrialsOfPlansKeepTheBest(t *testing.T) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20, Seed: 3, Sync: "relaxed", Arrivals: "uniform:400"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSolve(t.Context(), inst, hare.Options{TimeLimit: time.Minute}, Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.setLimits()
	s.limits.boundEffort, s.limits.planEffort, s.limits.cells = 0.2, 0.2, 48
	s.quit = t.Context()
	guide, err := s.relaxations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.assign(t.Context(), guide)
	before, calls := s.value, 0
	first := s.limits.charge
	charge, best := s.choosePlan(t.Context(), guide, func() float64 { calls++; return 1e12 })
	tried := func(step float64) bool { return charge == first.plus(step) }
	if best == nil || charge != first && !slices.ContainsFunc(slices.Concat(lessCharges, moreCharges), tried) {
		t.Errorf("the trials chose the charge %v and the plan %p", charge, best)
	}
	if calls < 3 {
		t.Errorf("the time left was asked for %d times: no charge was tried", calls)
	}
	if s.value.Cmp(before) > 0 || s.incumbent.Value(s.model).Cmp(s.value) != 0 {
		t.Errorf("the value is %v after the trials and was %v; the incumbent's is %v", s.value, before,
			s.incumbent.Value(s.model))
	}
	// Without the time for a trial nothing changes.
	if again, same := s.choosePlan(t.Context(), guide, func() float64 { return 0 }); again != s.limits.charge ||
		same != guide {
		t.Error("a plan was tried without time for it")
	}
}

// The plan for the search is the same under each limit that leaves it enough time, and a short limit has one of
// its own.
func TestPlanOfLongLimitsIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20, Seed: 3, Sync: "relaxed", Arrivals: "uniform:400"})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(limit time.Duration) (*solve, *hare.Relaxation) {
		s, err := newSolve(t.Context(), inst, hare.Options{TimeLimit: limit}, Config{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		s.setLimits()
		s.quit = t.Context()
		return s, s.plan(nil)
	}
	_, minute := plan(time.Minute)
	long, hour := plan(time.Hour)
	if !long.limits.samePlan || minute == nil || hour == nil ||
		!reflect.DeepEqual(minute.Prices, hour.Prices) || !reflect.DeepEqual(minute.Progress, hour.Progress) {
		t.Errorf("the plans of a minute and of an hour differ: same %v", long.limits.samePlan)
	}
	if short, _ := plan(time.Millisecond); short.limits.samePlan {
		t.Error("a limit of 1 ms leaves time for the plan of long limits")
	}
}

// From 1 s on, 200 jobs have the plan of long limits, so that a search of 2 s goes on where one of 1 s has ended.
func TestPlanOfASecondIsThatOfLongLimits(t *testing.T) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 200, Seed: 3, Sync: "gang", Arrivals: "uniform:1200"})
	if err != nil {
		t.Fatal(err)
	}
	effort := func(limit time.Duration) float64 {
		s, err := newSolve(t.Context(), inst, hare.Options{TimeLimit: limit}, Config{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		s.setLimits()
		if !s.limits.samePlan {
			return 0
		}
		return s.limits.planEffort
	}
	if second, minute := effort(time.Second), effort(time.Minute); second == 0 || second != minute {
		t.Errorf("the effort for the plan is %v after a second and %v after a minute; 0 says that it follows the limit",
			second, minute)
	}
	if effort(500*time.Millisecond) != 0 {
		t.Error("half a second leaves time for the plan of long limits")
	}
}

// Sixty rigid jobs have the plan of long limits from 0.3 s on: with another plan, the search of half a second found a
// better schedule than that of two. It solves no linear programs, which would end with the limit.
func TestPlanOfFewJobsIsTheSameSoon(t *testing.T) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 60, Seed: 7, Sync: "rigid",
		GPUs: []hare.TypeCount{{Type: "V100", Count: 4}, {Type: "T4", Count: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(limit time.Duration) *hare.Relaxation {
		s, err := newSolve(t.Context(), inst, hare.Options{TimeLimit: limit}, Config{Workers: 2, LP: noLP{t}})
		if err != nil {
			t.Fatal(err)
		}
		if s.setLimits(); !s.limits.samePlan {
			t.Errorf("the plan follows a limit of %v", limit)
		}
		s.limits.planShare = 1e3 // the test's machine may be slow
		s.quit = t.Context()
		return s.plan(nil)
	}
	if short, long := plan(300*time.Millisecond), plan(time.Minute); !reflect.DeepEqual(short.Prices, long.Prices) {
		t.Error("the plans of 0.3 s and of a minute differ")
	}
}

// noLP is an engine that must not be used.
type noLP struct{ t *testing.T }

func (n noLP) Solve(context.Context, *lp.Problem) (*lp.Solution, error) {
	n.t.Error("the plan solves a linear program")
	return nil, context.Canceled
}
