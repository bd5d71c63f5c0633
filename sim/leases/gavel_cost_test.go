package leases

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
)

// For a dollar, job 0 does 1/0.135, 2/0.43 or 3/0.74 steps, so it takes the K80. Job 1 does
// 5/0.43 steps on the P100. No job takes the V100.
func TestCost(t *testing.T) {
	s := state(1, 1, 1, job(1, 1, 100, 1, 2, 3), job(1, 1, 100, 1, 5, 5))
	p := &gavelCost{solver: &lp.Simplex{}}
	expect(t, "cost", divide(t, p, s).Share, 1, 0, 0, 0, 1, 0)
	p.prices = map[string]float64{"K80": 9, "P100": 9, "V100": 1}
	expect(t, "dear K80 and P100", divide(t, p, s).Share, 0, 1, 0, 0, 0, 1)
	s.Types[1] = "T4"
	p.prices = nil
	err := p.Shares(context.Background(), s, &Shares{Share: make([]float64, 6)})
	if err == nil || !strings.Contains(err.Error(),
		`"T4" has no price above 0 for an hour; those with one are K80, P100, V100`) {
		t.Error(err)
	}
}

// Job 0 takes 100/3 s alone on the V100. With a deadline of twice that time it must do 1.5
// steps a second, which is (1 − y) + 3 y on K80 and V100 with y = 1/4. With a deadline of half
// the time the job cannot end in time, and then no deadline counts. A deadline that has passed
// does not count.
func TestCostWithDeadlines(t *testing.T) {
	for slo, want := range map[float64][]float64{2: {0.75, 0, 0.25, 0, 1, 0}, 0.5: {1, 0, 0, 0, 1, 0},
		0.1: {1, 0, 0, 0,
			1, 0}} {
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
	j := []Job{{ID: "a", SLO: 2}, {ID: "b", Entity: &Entity{Name: "e", Weight: 1}}}
	for name, want := range map[string]string{
		"gavel:hierarchical_perf": "an entity for every job, and 1 of 2 have none: " +
			"give the trace a column entity",
		"gavel:max_sum_throughput_normalized_by_cost_perf_SLOs": "",
		"gavel:fifo": "",
	} {
		info := named(t, name)
		if got := info.Needs.Lacks(j); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	info := named(t, "gavel:max_sum_throughput_normalized_by_cost_perf_SLOs")
	if got := info.Needs.Lacks(j[1:]); !strings.Contains(got, "column slo") {
		t.Error(got)
	}
}

// Of thousands of random shares that keep the constraints and the deadlines, none do more work
// for a dollar. If some of them keep the deadlines, so do the policy's shares.
func TestCostIsTheBest(t *testing.T) {
	for seed := range uint64(30) {
		s := randomState(seed, 1+int(seed%4))
		for i := range s.Jobs {
			s.Jobs[i].SLO, s.Jobs[i].EnteredS = float64(i%3)*4, s.NowS
		}
		share := divide(t, &gavelCost{slos: true, solver: &lp.Simplex{}}, s).Share
		keepsBounds(t, s, share)
		price := []float64{0.135, 0.43, 0.74}
		worth := func(share []float64) (steps float64, kept bool) {
			kept = true
			for i := range s.Jobs {
				j, rate := &s.Jobs[i], 0.0
				for k, r := range j.Rate {
					steps += r / price[k] * share[3*i+k]
					rate += r * share[3*i+k]
				}
				kept = kept && (j.SLO == 0 || rate >= j.Rate[2]/j.SLO*(1-1e-7))
			}
			return steps, kept
		}
		best, kept := worth(share)
		r := rand.New(rand.NewPCG(seed, 17))
		for range 3000 {
			other := make([]float64, len(share))
			left := []float64{float64(s.GPUs[0]), float64(s.GPUs[1]), float64(s.GPUs[2])}
			for _, i := range r.Perm(len(s.Jobs)) {
				time := 1.0
				for _, k := range r.Perm(3) {
					x := min(time, left[k]/float64(s.Jobs[i].GPUs))
					if r.IntN(2) == 0 {
						x *= r.Float64()
					}
					other[3*i+k] = x
					time -= x
					left[k] -= x * float64(s.Jobs[i].GPUs)
				}
			}
			if steps, met := worth(other); (met || !kept) && steps > best*(1+1e-9) || met && !kept {
				t.Fatalf("seed %d: %v steps for a dollar, deadlines kept %v; %v does %v, %v", seed, best, kept, other,
					steps, met)
			}
		}
	}
}
