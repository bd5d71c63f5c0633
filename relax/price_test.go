package relax

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// Wide jobs on three GPUs end later than their critical paths, so every first step from prices of
// zero lowers the bound. The ascent must nevertheless leave prices of zero. An earlier version
// stayed at 6,739, which is the bound of the critical paths.
func TestAscentLeavesPricesOfZero(t *testing.T) {
	gpus, err := trace.ParseGPUs("V100=1,T4=2")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20, GPUs: gpus, Seed: 1, Sync: "relaxed",
		Arrivals: "uniform:6400"})
	if err != nil {
		t.Fatal(err)
	}
	path := mustPriceBy(t, inst, hare.MethodCriticalPath)
	if x := mustPriceBy(t, inst, hare.MethodPrice); x < 1.5*path {
		t.Errorf("bound %f, the paths alone prove %f", x, path)
	}
}

func mustPriceBy(t *testing.T, inst *hare.Instance, method string) float64 {
	t.Helper()
	return mustPrice(t, inst, Config{Method: method, Workers: 1}).Bound.Float()
}
