package leases

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// Job 0 can only use the K80, and jobs 1 and 2 can only use the V100. The greatest least share
// is one half. Without a second level, job 0 might be left at one half, too; with it, job 0 gets
// all of its GPU.
func TestWaterFilling(t *testing.T) {
	s := state(1, 0, 1, job(1, 1, 9, 1, 0, 0), job(1, 1, 9, 0, 0, 1), job(1, 1, 9, 0, 0, 1))
	near(t, "water filling", divide(t, &gavelWaterFill{perf: true}, s).Share, 1, 0, 0, 0, 0, 0.5, 0, 0, 0.5)
	// Of two jobs that can only use the V100, the job of weight 3 gets three quarters.
	s = state(1, 0, 1, job(1, 1, 9, 1, 0, 0), job(1, 1, 9, 0, 0, 1), job(1, 3, 9, 0, 0, 1))
	near(t, "weights", divide(t, &gavelWaterFill{perf: true}, s).Share, 1, 0, 0, 0, 0, 0.25, 0, 0, 0.75)
	// Without perf, each of three jobs gets two thirds of a GPU of any type.
	s = state(1, 0, 1, job(1, 1, 9, 1, 0, 0), job(1, 1, 9, 0, 0, 1), job(1, 1, 9, 0, 0, 1))
	share := divide(t, &gavelWaterFill{}, s).Share
	for i := range 3 {
		if sum := share[3*i] + share[3*i+1] + share[3*i+2]; math.Abs(sum-2./3) > 1e-4 {
			t.Errorf("job %d gets %v of two thirds", i, sum)
		}
	}
}

// Entity a has weight 1 and jobs of weights 1 and 3. Entity b has weight 3 and serves its jobs in
// order of arrival. Of one GPU, a gets a quarter and b's first job the rest. Of two GPUs, b's
// first job has a whole GPU when a has a third. The other 2/3 of a GPU are then divided between
// a, with weight 1, and b's second job, with weight 3. The shares are 1/12 + 1/24, 3/12 + 3/24, 1
// and 1/2.
func TestHierarchical(t *testing.T) {
	a, b := &Entity{Name: "a", Weight: 1}, &Entity{Name: "b", Weight: 3, FIFO: true}
	for gpus, want := range map[int][]float64{1: {1. / 16, 3. / 16, 3. / 4, 0}, 2: {1. / 8, 3. / 8, 1, 1. / 2}} {
		s := state(0, 0, gpus, job(1, 1, 9, 0, 0, 1), job(1, 3, 9, 0, 0, 1), job(1, 1, 9, 0, 0, 1),
			job(1, 1, 9, 0, 0, 1))
		for i, e := range []*Entity{a, a, b, b} {
			s.Jobs[i].Entity = e
		}
		share := divide(t, &gavelWaterFill{perf: true, entities: true}, s).Share
		near(t, "hierarchical", []float64{share[2], share[5], share[8], share[11]}, want...)
	}
	s := state(0, 0, 1, job(1, 1, 9, 0, 0, 1))
	err := (&gavelWaterFill{entities: true}).Shares(context.Background(), s, &Shares{Share: make([]float64, 3)})
	if err == nil || !strings.Contains(err.Error(), "belongs to no entity") {
		t.Error(err)
	}
}

func near(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4 {
			t.Errorf("%s: shares %.5f, by hand %.5f", what, got, want)
			return
		}
	}
}

// The shares are compared with those of Gavel's own code (commit c4fa400; cvxpy 1.7.5, ECOS
// 2.0.14, and GLPK for its integer program) on 12 clusters. The jobs are drawn from Gavel's
// rates, with and without entities. Job i belongs to entity a, b or c by i mod 3; the weights are
// 1, 2 and 3, and c serves its jobs in order of arrival. Throughputs agree, and so do the shares,
// although several shares are optimal. They differ by at most 0.08 for two equal jobs, where the
// last levels raise no job and rounding decides.
func TestWaterFillingAgreesWithGavel(t *testing.T) {
	text, err := os.ReadFile("testdata/gavel_waterfill.json")
	if err != nil {
		t.Fatal(err)
	}
	var states []struct {
		GPUs                   int
		Rates, Plain, Entities [][]float64
		Width                  []int
		Weight                 []float64
	}
	if err := json.Unmarshal(text, &states); err != nil {
		t.Fatal(err)
	}
	entities := []*Entity{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}, {Name: "c", Weight: 3, FIFO: true}}
	for n, x := range states {
		s := state(x.GPUs, x.GPUs, x.GPUs)
		for i := range x.Rates {
			j := job(x.Width[i], x.Weight[i], 100, x.Rates[i]...)
			j.Number, j.Entity = i, entities[i%3]
			s.Jobs = append(s.Jobs, j)
		}
		jobs := fillings(s, true)
		for _, nested := range []bool{false, true} {
			want := x.Plain
			if nested {
				want = x.Entities
			}
			share := divide(t, &gavelWaterFill{perf: true, entities: nested}, s).Share
			worst, apart := 0.0, 0.0
			for i := range jobs {
				has, due := 0.0, 0.0
				for k, v := range jobs[i].norm {
					has += v * share[3*i+k]
					due += v * want[i][k]
					apart = max(apart, math.Abs(share[3*i+k]-want[i][k]))
				}
				worst = max(worst, math.Abs(has-due))
			}
			t.Logf("cluster %d, entities %v, %d jobs: throughputs differ by at most %.1e, shares by %.1e", n, nested,
				len(jobs), worst, apart)
			if worst > 1e-3 || apart > 0.1 {
				t.Errorf("cluster %d, entities %v: throughputs differ by %v, shares by %v", n, nested, worst, apart)
			}
		}
	}
}
