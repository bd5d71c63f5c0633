package relax

import (
	"testing"

	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
)

// A bound in floats is next to the exact one, below it by the margin, and has no
// certificate.
func TestRoundedBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	gpus, err := trace.ParseGPUs("V100=3,T4=4")
	if err != nil {
		t.Fatal(err)
	}
	for _, sync := range []string{"relaxed", "gang", "rigid"} {
		for _, jobs := range []int{1, 5, 300} {
			inst, err := trace.Generate(trace.GenerateConfig{Jobs: jobs, GPUs: gpus, Seed: 2, Sync: sync,
				Arrivals: "uniform:900"})
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Workers: 1, Cells: 24, Effort: 0.3, MaxLPs: -1, NoSizes: true}
			exact := mustPrice(t, inst, cfg).Bound.Float()
			cfg.Rounded = true
			rel, err := Run(t.Context(), model.New(inst), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if rounded := rel.Bound.Float(); rounded >= exact || rounded < exact*(1-1e-5) {
				t.Errorf("%d %s jobs: the bound is %f, the exact one %f", jobs, sync, rounded, exact)
			}
			if rel.Certified || rel.Certificate != nil {
				t.Errorf("%d %s jobs: a bound in floats is certified", jobs, sync)
			}
		}
	}
}
