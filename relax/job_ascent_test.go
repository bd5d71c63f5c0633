package relax

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// manyJobs draws jobs that arrive over 1,000 s, on types A and B. Half of the nodes may pause.
func manyJobs(r *rand.Rand, jobs int, sync func() hare.Sync, widths []int64, pausing bool) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for n := range 8 {
		node := hare.Node{Name: fmt.Sprintf("n%d", n), GPUs: []hare.TypeCount{{Type: "AB"[n%2 : n%2+1], Count: 4}}}
		if pausing && n%4 < 2 {
			node.Windows = []hare.Window{{StartUs: 0, EndUs: 4e8}, {StartUs: 9e8, EndUs: hare.Forever}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range jobs {
		scale := 5e6 * math.Exp(0.3*r.NormFloat64())
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: 50_000 + r.Int64N(1_000_000), ReleaseUs: r.Int64N(1e9),
			Rounds: 10 + r.Int64N(50), Tasks: widths[r.IntN(len(widths))], Sync: sync()}
		for x, t := range []string{"A", "B"} {
			j.On = append(j.On, hare.Profile{Type: t, ComputeUs: int64(scale * (0.5 + r.Float64()) * float64(1+x)),
				SyncUs: int64(scale / 20)})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// With more rows than one goroutine takes, jobs that arrive, GPUs that pause, and widths that do and do not divide
// each other, prices of jobs have the same bytes on any number of cores, prove what they state, and more than the
// prices that they come from. Here more steps do not lower the bound, also where they go on on a finer grid.
func TestPricesOfManyJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	syncs := []hare.Sync{hare.Gang, hare.Rigid, hare.Relaxed}
	for x, widths := range [][]int64{{1, 2, 4, 8}, {2, 3, 5}, {1, 4, 16}, {1, 2, 4, 6}} {
		sync := func() hare.Sync { return syncs[r.IntN(2+x%2)] }
		steps := []int{100, jobSteps, jobSteps + 1, jobSteps + 40}
		if testing.Short() {
			if x > 0 {
				break
			}
			steps = steps[2:3] // the goroutines meet in each ascent; this one has both grids
		}
		inst := manyJobs(r, 50, sync, widths, x%2 > 0)
		m := model.New(inst)
		from, err := Run(t.Context(), m, Config{Workers: 2, Cells: 192, Effort: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		var before *hare.Relaxation
		for _, steps := range steps {
			cfg := JobPricesConfig{Target: 1e9, Steps: steps, Workers: 1, Cells: 192}
			rel := JobPrices(t.Context(), m, from, cfg)
			cfg.Workers = 3
			if other := JobPrices(t.Context(), m, from, cfg); rel == nil || !reflect.DeepEqual(rel, other) {
				t.Fatalf("widths %v: with more workers the bound is %v, not %v", widths, other, rel)
			}
			proved, err := verify.Bound(inst, rel.Certificate)
			if err != nil {
				t.Fatalf("widths %v: %v", widths, err)
			}
			stated, _ := new(big.Rat).SetString(rel.Certificate.Bound)
			if proved.Cmp(stated) < 0 {
				t.Errorf("widths %v: the certificate states %s and proves %s", widths, rel.Certificate.Bound,
					proved.FloatString(9))
			}
			if before != nil && rel.Bound.Cmp(before.Bound) < 0 {
				t.Errorf("widths %v: bound %v after %d steps, %v before", widths, rel.Bound, steps, before.Bound)
			}
			cells, finer := len(rel.Certificate.PriceSets[0].GridUs)-1, steps > jobSteps
			if finer != (cells > jobCells) && len(from.Certificate.GridUs)-1 > jobCells {
				t.Errorf("widths %v: %d cells after %d steps", widths, cells, steps)
			}
			before = rel
		}
		if before.Bound.Cmp(from.Bound) <= 0 {
			t.Errorf("widths %v: bound %v, no more than %v without prices of jobs", widths, before.Bound, from.Bound)
		}
		t.Logf("widths %v: bound %v from %v", widths, before.Bound, from.Bound)
	}
}

// On coarser cells than those of the prices that it starts from, an ascent starts near their bound, also where jobs
// have no room for a while: their prices at these times do not count before and after them.
func TestJobPricesStartOnCoarserCells(t *testing.T) {
	rigid := func() hare.Sync { return hare.Rigid }
	for seed := range uint64(5) {
		inst := manyJobs(rand.New(rand.NewPCG(9, seed)), 40, rigid, []int64{1, 4, 16}, true)
		m := model.New(inst)
		from, err := Run(t.Context(), m, Config{Cells: 384})
		if err != nil {
			t.Fatal(err)
		}
		rel := JobPrices(t.Context(), m, from, JobPricesConfig{Target: 1e9, Cells: jobCells, Steps: 1})
		if rel == nil || rel.Bound.Float() < 0.85*from.Bound.Float() {
			t.Errorf("seed %d: the bound of the prices is %v, and the ascent starts with %v", seed, from.Bound, rel)
		}
	}
}

// BenchmarkJobPrices takes steps of the ascent of prices of 200 jobs.
func BenchmarkJobPrices(b *testing.B) {
	for _, sync := range []hare.Sync{hare.Rigid, hare.Gang} {
		b.Run([]string{"", "gang", "rigid"}[sync], func(b *testing.B) {
			r := rand.New(rand.NewPCG(22, 2))
			inst := manyJobs(r, 200, func() hare.Sync { return sync }, []int64{1, 2, 4, 4, 8, 8, 16}, false)
			m := model.New(inst)
			from, err := Run(b.Context(), m, Config{Effort: 0.5})
			if err != nil {
				b.Fatal(err)
			}
			pr, _ := newProblem(m, 0)
			pr.addJobRows()
			for b.Loop() {
				if climbJobs(b.Context(), pr, from, JobPricesConfig{Target: 1e9, Steps: 100, Workers: 1}) == nil {
					b.Fatal("no prices")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(100*b.N), "µs/step")
		})
	}
}
