package relax

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// Wide jobs on three GPUs have time to spare on their own paths, so that any
// first step from prices of zero goes down. The ascent must leave them: once it
// stayed at 6,739, what paths alone prove.
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
