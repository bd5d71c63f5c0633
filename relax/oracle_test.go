package relax

import (
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

// slowFluid returns φ of a fluid by its definition: for each last piece, all segments up
// to it are sorted and the cheapest rounds are taken.
func slowFluid(o *oracle, j *job) float64 {
	o.loadTrailing(j)
	best := math.Inf(1)
	var before []segment
	o.pieces(j, func(t, end float64, pos []int) bool {
		if t >= j.path {
			all := append(slices.Clone(before), o.hull(nil, j, pos, t, end-t, j.w, math.Inf(1))...)
			slices.SortFunc(all, func(a, b segment) int {
				switch {
				case a.slope < b.slope:
					return -1
				case a.slope > b.slope:
					return 1
				}
				return 0
			})
			cost, left := j.w*t, j.rounds
			for _, s := range all {
				n := min(left, s.cap)
				if n > 0 {
					cost += n * s.slope
					left -= n
				}
			}
			if left <= 0 {
				best = min(best, cost)
			}
		}
		before = append(before, o.hull(nil, j, pos, t, end-t, 0, math.Inf(1))...)
		return true
	})
	return best
}

// The oracle returns φ as it is defined, also if the oracle starts from its answer at other
// prices.
func TestOracleAgainstSorting(t *testing.T) {
	checked := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := model.New(brute.Random(r))
		pr, ok := newProblem(m, 0)
		if !ok {
			continue
		}
		ev := newEvaluator(pr, 1)
		o := ev.oracles[0]
		offers := make([]float64, len(pr.jobs))
		for range 4 {
			grid, nanos := randomPrices(r, pr.rows)
			pi := &prices{at: make([][]float64, len(nanos))}
			for _, x := range grid {
				pi.grid = append(pi.grid, float64(x))
			}
			for k, row := range nanos {
				for _, x := range row {
					pi.at[k] = append(pi.at[k], float64(x)*(1+r.Float64()))
				}
			}
			pi.integrate()
			o.setPrices(pi, ev.nextVersion())
			for i := range pr.jobs {
				if pr.jobs[i].sync == hare.Rigid {
					continue
				}
				checked++
				var ans answer
				ans.cutoff = offers[i]
				o.solve(&pr.jobs[i], &ans, true)
				offers[i] = ans.cutoff
				used := 0.0
				for _, s := range ans.progress {
					used += s.rounds
				}
				want := slowFluid(o, &pr.jobs[i])
				if math.Abs(ans.phi-want) > exactMargin*(want+ans.scale)+1 ||
					math.Abs(used-pr.jobs[i].rounds) > 1e-9*pr.jobs[i].rounds {
					t.Fatalf("seed %d job %d: φ %g with %g of %g rounds, want %g", seed, i, ans.phi, used,
						pr.jobs[i].rounds, want)
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d answers were checked", checked)
	}
}

// BenchmarkOracle evaluates φ of all jobs of standard-200 at good prices, both as the ascent does
// from step to step and by the definition.
func BenchmarkOracle(b *testing.B) {
	f, err := os.Open("../testdata/instances/standard-200.json.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	inst, err := wire.DecodeInstance(z, wire.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	m := model.New(inst)
	rel, err := Run(b.Context(), m, Config{Effort: 0.5})
	if err != nil {
		b.Fatal(err)
	}
	pr, _ := newProblem(m, 0)
	ev := newEvaluator(pr, 1)
	pi := pricesFrom(pr, rel)
	pi.integrate()
	o := ev.oracles[0]
	b.Run("incremental", func(b *testing.B) {
		offers := make([]float64, len(pr.jobs))
		for b.Loop() {
			o.setPrices(pi, ev.nextVersion())
			for i := range pr.jobs {
				ans := answer{uses: o.uses, progress: o.progress, cutoff: offers[i]}
				o.solve(&pr.jobs[i], &ans, true)
				offers[i] = ans.cutoff
				o.uses, o.progress = ans.uses, ans.progress
			}
		}
	})
	b.Run("sorting", func(b *testing.B) {
		for b.Loop() {
			o.setPrices(pi, ev.nextVersion())
			for i := range pr.jobs {
				slowFluid(o, &pr.jobs[i])
			}
		}
	})
}
