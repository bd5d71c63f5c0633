package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
)

// For a dollar, job 0 does 1/0.135, 2/0.43 and 3/0.74 steps, so that it takes the
// K80; job 1 does 5/0.43 on the P100. Nobody pays for the V100.
func TestCost(t *testing.T) {
	s := state(1, 1, 1, job(1, 1, 100, 1, 2, 3), job(1, 1, 100, 1, 5, 5))
	p := &gavelCost{solver: &lp.Simplex{}}
	expect(t, "cost", divide(t, p, s).Share, 1, 0, 0, 0, 1, 0)
	p.prices = map[string]float64{"K80": 9, "P100": 9, "V100": 1}
	expect(t, "dear K80 and P100", divide(t, p, s).Share, 0, 1, 0, 0, 0, 1)
	s.Types[1] = "T4"
	p.prices = nil
	err := p.Shares(context.Background(), s, &online.Shares{Share: make([]float64, 6)})
	if err == nil || !strings.Contains(err.Error(), `"T4" has no price above 0 for an hour; those with one are K80, P100, V100`) {
		t.Error(err)
	}
}

// Alone on the V100 job 0 takes 100/3 s. With twice that it must do 1.5 steps a
// second: (1 − y) + 3 y on K80 and V100, y = 1/4. In half of that it cannot end at
// all, and then no deadline counts. What has passed asks for nothing.
func TestCostWithDeadlines(t *testing.T) {
	for slo, want := range map[float64][]float64{2: {0.75, 0, 0.25, 0, 1, 0}, 0.5: {1, 0, 0, 0, 1, 0}, 0.1: {1, 0, 0, 0, 1, 0}} {
		s := state(1, 1, 1, job(1, 1, 100, 1, 2, 3), job(1, 1, 100, 1, 5, 5))
		s.NowS = 1000
		s.Jobs[0].SLO, s.Jobs[0].EnteredS = slo, 1000
		if slo == 0.1 {
			s.Jobs[0].EnteredS = 0
		}
		expect(t, "deadlines", divide(t, &gavelCost{slos: true, solver: &lp.Simplex{}}, s).Share, want...)
	}
}

func TestPoliciesSayWhatJobsLack(t *testing.T) {
	j := []online.LeaseJob{{ID: "a", SLO: 2}, {ID: "b", Entity: &online.LeaseEntity{Name: "e", Weight: 1}}}
	for name, want := range map[string]string{
		"gavel:hierarchical_perf":                               "an entity for every job, and 1 of 2 have none: give the trace a column entity",
		"gavel:max_sum_throughput_normalized_by_cost_perf_SLOs": "",
		"gavel:fifo": "",
	} {
		info, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Lacks(j); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	info, _ := Find("gavel:max_sum_throughput_normalized_by_cost_perf_SLOs")
	if got := info.Lacks(j[1:]); !strings.Contains(got, "column slo") {
		t.Error(got)
	}
}
