package relax

import (
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// Bounds by prices of jobs are what their certificates prove, no more than the optimum, the same on any number of
// cores, and on some instances more than without such prices.
func TestPricesOfJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 1))
	priced, better, tight := 0, 0, 0
	instances := 250
	if testing.Short() {
		instances = 20 // each has goroutines that meet; for the figures there are too few
	}
	for i := range instances {
		inst := brute.Random(r)
		for x := range inst.Jobs {
			j := &inst.Jobs[x]
			if j.Mix = false; j.Sync == hare.Relaxed && i%2 == 0 {
				j.Sync = hare.Gang
			}
		}
		m := model.New(inst)
		if !PricesJobs(m) {
			continue
		}
		from, err := Run(t.Context(), m, Config{Workers: 1, Cells: 24})
		if err != nil {
			continue // some job has no room
		}
		cfg := JobPricesConfig{Target: 1e6, Steps: 60, Workers: 1}
		rel := JobPrices(t.Context(), m, from, cfg)
		cfg.Workers = 3
		if other := JobPrices(t.Context(), m, from, cfg); rel == nil || !reflect.DeepEqual(rel, other) {
			t.Fatalf("instance %d: %+v, with more workers %+v", i, rel, other)
		}
		priced++
		proved, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
		stated, _ := new(big.Rat).SetString(rel.Certificate.Bound)
		divided := !slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Sync != hare.Rigid })
		more := new(big.Rat).Sub(proved, stated)
		if more.Sign() < 0 || more.Cmp(big.NewRat(1, 1e6)) >= 0 && !divided {
			t.Errorf("instance %d: the certificate states %s and proves %s", i, rel.Certificate.Bound, proved.FloatString(9))
		}
		opt, ok, done := brute.Optimum(inst, 20_000)
		if !ok || !done {
			continue
		}
		if optimum := hare.Product(1, opt); rel.Bound.Cmp(optimum) > 0 {
			t.Errorf("instance %d: bound %v above the optimum %v", i, rel.Bound, optimum)
		} else if rel.Bound.Float() > 0.9999*optimum.Float() {
			tight++
		}
		if rel.Bound.Cmp(from.Bound) > 0 {
			better++
		}
	}
	t.Logf("%d instances, %d bounds better than without prices of jobs, %d about the optimum", priced, better, tight)
	if !testing.Short() && (priced < 100 || better < 20 || tight < 20) {
		t.Errorf("only %d instances, %d better bounds, %d about the optimum", priced, better, tight)
	}
}

// Instances that prices of jobs do not cover are refused, and an ascent without time finds nothing.
func TestNoPricesOfJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 2))
	refused := 0
	for range 100 {
		inst := brute.Random(r)
		m := model.New(inst)
		wants := !slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Mix })
		if got := PricesJobs(m); got && !wants {
			t.Errorf("%+v is priced", inst)
		} else if !got {
			refused++
			if rel := JobPrices(t.Context(), m, &hare.Relaxation{}, JobPricesConfig{Steps: 1}); rel != nil {
				t.Errorf("%+v has prices", inst)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	// Sets of many jobs on many GPUs would take longer than any limit, and much memory.
	wide := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n",
		GPUs: []hare.TypeCount{{Type: "A", Count: maxPairGPUs / 2}}}}}}
	for x := range 3 {
		wide.Jobs = append(wide.Jobs, hare.Job{ID: string(rune('a' + x)), WeightMicro: 1e6, Rounds: 1, Tasks: 40_000,
			Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}})
		if got := PricesJobs(model.New(wide)); got != (x < 2) {
			t.Errorf("%d wide jobs are priced: %v", x+1, got)
		}
	}
}

// Cells are halved until there are enough of them, and stay where they are 1 µs long.
func TestRefinedTo(t *testing.T) {
	for _, test := range []struct {
		grid  []int64
		cells int
		want  []int64
	}{
		{[]int64{0, 8, 12}, 2, []int64{0, 8, 12}},
		{[]int64{0, 8, 12}, 3, []int64{0, 4, 8, 10, 12}},
		{[]int64{0, 8, 12}, 5, []int64{0, 2, 4, 6, 8, 9, 10, 11, 12}},
		{[]int64{0, 1, 4}, 100, []int64{0, 1, 2, 3, 4}},
	} {
		before := slices.Clone(test.grid)
		if got := refinedTo(test.grid, test.cells); !slices.Equal(got, test.want) || !slices.Equal(test.grid, before) {
			t.Errorf("%v with %d cells: %v, and the grid is %v", before, test.cells, got, test.grid)
		}
	}
}

// A relaxation on few cells does not keep prices of jobs from finer grids, each but the last of which is told.
func TestJobPricesRefineCoarseGrids(t *testing.T) {
	gangs := func() hare.Sync { return hare.Gang }
	m := model.New(manyJobs(rand.New(rand.NewPCG(8, 1)), 30, gangs, []int64{1, 2, 4}, false))
	from, err := Run(t.Context(), m, Config{Effort: 0.5, Cells: 24})
	if err != nil {
		t.Fatal(err)
	}
	var told []hare.Amount
	best := 0.0
	rel := JobPrices(t.Context(), m, from, JobPricesConfig{Target: 1e9, Cells: 384, Steps: 420,
		Report:   func(bound float64) { best = max(best, bound) },
		Improved: func(rel *hare.Relaxation) { told = append(told, rel.Bound) }})
	if rel == nil || len(rel.Certificate.PriceSets[0].GridUs) != 385 || len(told) != 2 {
		t.Fatalf("%d bounds on the way to %v", len(told), rel)
	}
	if from.Bound.Cmp(told[0]) >= 0 || told[0].Cmp(told[1]) > 0 || told[1].Cmp(rel.Bound) > 0 {
		t.Errorf("the bounds %v, %v and %v", from.Bound, told, rel.Bound)
	}
	if exact := rel.Bound.Float(); best > exact*1.001 || best < exact*0.999 {
		t.Errorf("the bound in floating point is %v, the exact one %v", best, exact)
	}
}
