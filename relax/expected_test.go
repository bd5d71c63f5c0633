package relax

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// The example's mean optimum is 15 where one job is short when the other is long, and more else.
func TestExpectedBoundOfExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "uncertain.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ex struct {
		Instance json.RawMessage `json:"instance"`
	}
	if err := json.Unmarshal(text, &ex); err != nil {
		t.Fatal(err)
	}
	rel, err := Run(t.Context(), model.New(decodeInstance(t, ex.Instance)), Config{Workers: 1, Expected: true})
	if err != nil {
		t.Fatal(err)
	}
	if b := rel.Bound.Float(); b < 14.5 || b > 15 || rel.Certified {
		t.Errorf("the bound is %v, certified %t", b, rel.Certified)
	}
}

// The bound of the mean is at most the mean of the optima, where all jobs are short or long
// together.
func TestExpectedBoundsNeverExceedMeanOptima(t *testing.T) {
	seeds, compared, sum := uint64(600), 0, 0.0
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		inst := brute.Random(rand.New(rand.NewPCG(seed, 41)))
		for i := range inst.Jobs {
			inst.Jobs[i].Durations = []hare.Duration{{Micro: 500_000, FactorMicro: 1_000_000},
				{Micro: 500_000, FactorMicro: 3_000_000}}
		}
		rel, err := Run(t.Context(), model.New(inst), Config{Workers: 1, Cells: 12, Effort: 0.5, Expected: true})
		if err != nil {
			continue
		}
		mean, ok := 0.0, true
		for _, factor := range []int64{1, 3} {
			all := *inst
			all.Jobs = nil
			for _, j := range inst.Jobs {
				on := j.On
				j.On, j.Durations = nil, nil
				for _, p := range on {
					p.ComputeUs, p.SyncUs = factor*p.ComputeUs, factor*p.SyncUs
					j.On = append(j.On, p)
				}
				all.Jobs = append(all.Jobs, j)
			}
			opt, found, done := brute.Optimum(&all, 200_000)
			ok = ok && found && done
			mean += hare.Product(1, opt).Float() / 2
		}
		if !ok || mean == 0 {
			continue
		}
		compared++
		sum += rel.Bound.Float() / mean
		if b := rel.Bound.Float(); b > mean*(1+1e-9) {
			t.Errorf("seed %d: the bound is %v, and the mean of the optima %v", seed, b, mean)
		}
	}
	t.Logf("%d instances, the bound is %.3f of the mean on average", compared, sum/float64(compared))
	if compared < int(seeds)/4 || sum < 0.5*float64(compared) {
		t.Errorf("%d of %d instances were compared, with %.3f of the mean on average", compared, seeds,
			sum/float64(compared))
	}
}
