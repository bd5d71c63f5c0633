package verify_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// randomRelaxed returns a tiny instance of relaxed jobs and others, in which some jobs are wider than a type.
func randomRelaxed(r *rand.Rand) *hare.Instance {
	inst := randomGangs(r)
	relaxed := false
	for i := range inst.Jobs {
		if j := &inst.Jobs[i]; r.IntN(3) > 0 || i == len(inst.Jobs)-1 && !relaxed {
			j.Sync, j.Rounds, relaxed = hare.Relaxed, int64(1+r.IntN(3)), true
			if r.IntN(3) == 0 {
				j.Tasks = int64(1 + r.IntN(4))
			}
		}
	}
	return inst
}

// climbLeaf draws so many leaves, since random prices prove little: each changes the prices of the best one so far,
// but every fresh-th is drawn again. It returns the greatest value.
func climbLeaf(r *rand.Rand, inst *hare.Instance, steps, fresh int, value func(*hare.Certificate) float64) float64 {
	var best *hare.Certificate
	greatest := math.Inf(-1)
	for n := range steps {
		var now *hare.Certificate
		if n%fresh == 0 {
			now = randomLeaf(r, inst)
		} else {
			now = changedPrices(r, best)
		}
		if v := value(now); v > greatest {
			best, greatest = now, v
		}
	}
	return greatest
}

// changedPrices returns a leaf with some prices changed.
func changedPrices(r *rand.Rand, c *hare.Certificate) *hare.Certificate {
	out, set := *c, c.PriceSets[0]
	out.PriceSets = []hare.PriceSet{set}
	s := &out.PriceSets[0]
	s.Prices, s.Sizes, s.Jobs = slices.Clone(s.Prices), slices.Clone(s.Sizes), slices.Clone(s.Jobs)
	change := func(row []int64) []int64 {
		row = slices.Clone(row)
		g, f := r.IntN(len(row)), r.Float64()*2
		for x := range row {
			if x == g || r.IntN(4) == 0 {
				row[x] = int64(f*float64(row[x])) + int64(r.IntN(2))*int64(r.Float64()*2e8)
			}
		}
		return row
	}
	for range 1 + r.IntN(2) {
		rows := len(s.Prices) + len(s.Jobs)
		if rows == 0 {
			break
		}
		if x := r.IntN(rows); x < len(s.Prices) {
			s.Prices[x].Nanos = change(s.Prices[x].Nanos)
		} else {
			s.Jobs[x-len(s.Prices)].Nanos = change(s.Jobs[x-len(s.Prices)].Nanos)
		}
	}
	return &out
}

// Leaves are sound for random tiny instances with relaxed jobs, also where prices are raised towards the optimum.
func TestLeavesOfRelaxedJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 8))
	judgeLeaves(t, r, 300, randomRelaxed, func(inst *hare.Instance, judge func(*hare.Certificate) float64) {
		climbLeaf(r, inst, 24, 8, judge)
	})
}

// Each false reading of docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf", proves more
// than the optimum of some instance.
func TestFalseReadingsOfRelaxedLeavesAreKilled(t *testing.T) {
	readings := map[string]relaxedReading{
		"no loose rounds":                         {tightOnly: true},
		"loose rounds of three times the compute": {threeTimes: true},
		"loose rounds of one type":                {noMixing: true},
		"prices before loose rounds alone":        {onlyBack: true},
		"prices within the synchronisation":       {onlySync: true},
		"loose rounds at the price of tight ones": {tightPrice: true},
		"single GPUs that do not count":           {noSingles: true},
	}
	r := rand.New(rand.NewPCG(19, 9))
	killed := map[string]int{}
	names := slices.Sorted(maps.Keys(readings))
	for _, dearFirst := range []bool{false, true} {
		inst, cert, optimum := twoWaves(dearFirst)
		for _, name := range names {
			if naiveLeafBound(inst, cert, leafReading{relaxedReading: readings[name]}) > optimum+1e-6 {
				killed[name]++
			}
		}
	}
	for range 3_000 {
		if len(killed) == len(readings) {
			break
		}
		inst := randomRelaxed(r)
		opt, ok, done := brute.Optimum(inst, 20_000)
		if !ok || !done {
			continue
		}
		for _, name := range names {
			if killed[name] > 0 {
				continue
			}
			// The prices are raised for the false reading itself.
			most := climbLeaf(r, inst, 60, 15, func(c *hare.Certificate) float64 {
				return naiveLeafBound(inst, c, leafReading{relaxedReading: readings[name]})
			})
			if most > float64(opt)/1e12+1e-6 {
				killed[name]++
			}
		}
	}
	for name := range readings {
		if killed[name] == 0 {
			t.Errorf("%s: no instance shows it", name)
		}
	}
}

// twoWaves returns an instance in which a relaxed job does two of three tasks in a cheap second and one in a dear one,
// which may come first, prices that prove no more than the optimum, and the optimum.
func twoWaves(dearFirst bool) (*hare.Instance, *hare.Certificate, float64) {
	inst := small(nodes("A", 2), brief(hare.Relaxed, 3), brief(hare.Relaxed, 1))
	inst.Jobs[0].WeightMicro, inst.Jobs[1].WeightMicro = 10e6, 10e6
	set := hare.PriceSet{GridUs: []int64{0, 1e6, 3e6}, Prices: []hare.TypePrices{{Type: "A", Nanos: []int64{5e9, 0}}},
		Jobs: []hare.JobPrices{{Job: "0", Type: "A", Nanos: []int64{0, 0}}}}
	optimum := 30.0
	if !dearFirst {
		inst.Jobs[1].ReleaseUs = 1e6
		gang := brief(hare.Gang, 2)
		gang.ID, gang.WeightMicro, gang.ReleaseUs = "2", 30e6, 2e6
		inst.Jobs = append(inst.Jobs, gang)
		set.Prices[0].Nanos, optimum = []int64{0, 5e9}, 60
	}
	return inst, &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1},
		PriceSets: []hare.PriceSet{set}, Tree: []hare.BranchNode{{Prices: 1}}}, optimum
}

func TestLeafOfTwoWaves(t *testing.T) {
	for _, dearFirst := range []bool{false, true} {
		inst, cert, optimum := twoWaves(dearFirst)
		opt, ok, done := brute.Optimum(inst, 100_000)
		low, err := verify.Bound(inst, cert)
		if !ok || !done || float64(opt) != optimum*1e12 || err != nil || ratFloat(low) > optimum {
			t.Errorf("dear first %v: optimum %v %v %v, bound %v %v", dearFirst, opt, ok, done, low, err)
		}
	}
}
