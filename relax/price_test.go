package relax

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
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

// A plan that charges for idle GPUs sees a smaller cluster: its jobs are done later.
func TestIdleChargeDelaysPlans(t *testing.T) {
	gpus, err := trace.ParseGPUs("V100=8,T4=8")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20, GPUs: gpus, Seed: 2, Sync: "relaxed"})
	if err != nil {
		t.Fatal(err)
	}
	meanEnd := func(idle float64) (mean float64) {
		rel, err := Run(t.Context(), model.New(inst), Config{SyncAsCompute: 1, IdleCharge: idle, Workers: 1, Cells: 48})
		if err != nil {
			t.Fatal(err)
		}
		for _, pts := range rel.Progress {
			mean += pts[len(pts)-1].TimeUs / float64(len(rel.Progress))
		}
		return mean
	}
	if without, with := meanEnd(0), meanEnd(0.2); with < 1.05*without {
		t.Errorf("the mean end is %.0f without and %.0f with a charge of 0.2; want it much later", without, with)
	}
	if _, err := Run(t.Context(), model.New(inst), Config{IdleCharge: 0.1, Workers: 1}); err == nil {
		t.Error("a bound with a charge would be false: want an error")
	}
}

// An ascent that ends its grids early proves about the greatest value that it has reached on any of them.
func TestFinerGridsKeepTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	gpus, err := trace.ParseGPUs("V100=8,T4=8")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(12) {
		inst, err := trace.Generate(trace.GenerateConfig{Jobs: 40, GPUs: gpus, Seed: seed, Sync: "relaxed",
			Arrivals: "uniform:4000"})
		if err != nil {
			t.Fatal(err)
		}
		most := 0.0
		rel, err := Run(t.Context(), model.New(inst), Config{Cells: 384, MinGain: 3e-5, Workers: 1,
			Report: func(v float64) { most = max(most, v) }})
		if err != nil {
			t.Fatal(err)
		}
		if b := rel.Bound.Float(); b < most*(1-1e-6) {
			t.Errorf("seed %d: the bound %f is below the value %f on a coarser grid", seed, b, most)
		}
	}
}
