package solver

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// The prices of a similar instance give a better bound for little work, and senseless prices
// do no harm.
func TestWarm(t *testing.T) {
	if testing.Short() {
		t.Skip("the goroutines are those of any solve, in TestEqualCallsGiveEqualBytes")
	}
	work := int64(20_000)
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 40, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	solve := func(inst *hare.Instance, work int64, warm *hare.Certificate) *hare.Result {
		t.Helper()
		res, err := Solve(t.Context(), inst, hare.Options{WorkLimit: work},
			Config{WarmPrices: warm, Ablation: Ablation{Steps: true}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	before := solve(inst, work, nil)
	inst.Jobs[3].Rounds += 5
	inst.Jobs[7].WeightMicro *= 2
	cold, warm := solve(inst, 300, nil), solve(inst, 300, before.Certificate)
	if warm.Bound.Cmp(*cold.Bound) <= 0 {
		t.Errorf("bound %s from yesterday's prices, %s without", warm.Bound, cold.Bound)
	}
	for name, c := range map[string]*hare.Certificate{
		"empty":        {},
		"falling grid": {GridUs: []int64{0, 5, 3}, Prices: []hare.TypePrices{{Type: "V100", Nanos: []int64{1, 2}}}},
		"late grid":    {GridUs: []int64{7, 9}},
		"short row": {GridUs: []int64{0, 1 << 40, 1 << 41},
			Prices: []hare.TypePrices{{Type: "V100", Nanos: []int64{1}}}},
		"negative": {GridUs: []int64{0, 1 << 30}, Prices: []hare.TypePrices{{Type: "V100", Nanos: []int64{-4}}}},
		"huge": {GridUs: []int64{0, 1, hare.MaxExact},
			Prices: []hare.TypePrices{{Type: "V100", Nanos: []int64{hare.MaxExact, hare.MaxExact}}}},
	} {
		if res := solve(inst, 300, c); res.Bound.Sign() <= 0 {
			t.Errorf("%s: bound %s", name, res.Bound)
		}
	}
}
