package bench

import (
	"os"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
)

func TestMain(m *testing.M) {
	lp.ServeIfWorker()
	os.Exit(m.Run())
}

const frozenDir = "../testdata/instances"

func frozen(b testing.TB, name string) *hare.Instance {
	b.Helper()
	inst, err := Frozen(frozenDir, name)
	if err != nil {
		b.Fatal(err)
	}
	return inst
}

// held makes every job gang or rigid and adds its synchronisation to compute.
func held(inst *hare.Instance, sync hare.Sync) *hare.Instance {
	Synchronise(inst, sync.String(), true)
	return inst
}

// BenchmarkQuality reports value over bound and the overrun of the time limit.
func BenchmarkQuality(b *testing.B) {
	continuous := func(b testing.TB) *hare.Instance {
		gpus, err := trace.ParseGPUs("V100=36,P100=36,K80=36")
		if err != nil {
			b.Fatal(err)
		}
		inst, _, err := trace.Import("gavel", trace.ImportConfig{
			Config: trace.Config{GPUs: gpus, Sync: "gang"},
			Trace:  trace.Source{Name: "gavel_trace_continuous5600_single.csv"},
		})
		if err != nil {
			b.Fatal(err)
		}
		return inst
	}
	largest := func(b testing.TB) *hare.Instance {
		gpus, err := trace.ParseGPUs("V100=6400,T4=4800,K80=2400,M60=2400")
		if err != nil {
			b.Fatal(err)
		}
		inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20_000, GPUs: gpus, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		return inst
	}
	for _, c := range []struct {
		name  string
		inst  func(testing.TB) *hare.Instance
		limit time.Duration
	}{
		{"standard-200", func(b testing.TB) *hare.Instance { return frozen(b, "standard-200") }, 2 * time.Second},
		{"standard-200-gang", func(b testing.TB) *hare.Instance { return held(frozen(b, "standard-200"), hare.Gang) },
			2 * time.Second},
		{"standard-200-rigid", func(b testing.TB) *hare.Instance { return held(frozen(b, "standard-200"), hare.Rigid) },
			2 * time.Second},
		{"gavel-500-on-36", func(b testing.TB) *hare.Instance { return frozen(b, "gavel-500-on-36") },
			2 * time.Second},
		{"gavel-500-on-108", func(b testing.TB) *hare.Instance { return frozen(b, "gavel-500-on-108") },
			2 * time.Second},
		{"arrivals-200", func(b testing.TB) *hare.Instance { return frozen(b, "arrivals-200") }, 2 * time.Second},
		{"standard-2000", func(b testing.TB) *hare.Instance { return frozen(b, "standard-2000") }, 10 * time.Second},
		{"gavel-continuous-5600", continuous, 5 * time.Second},
		{"largest-20000", largest, 60 * time.Second},
	} {
		b.Run(c.name, func(b *testing.B) {
			inst := c.inst(b)
			for b.Loop() {
				began := time.Now()
				res, err := solver.Solve(b.Context(), inst, hare.Options{TimeLimit: c.limit}, solver.Config{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(res.Value.Float()/res.Bound.Float(), "value/bound")
				b.ReportMetric(float64(time.Since(began)-c.limit)/1e6, "overrun-ms")
			}
		})
	}
}

// BenchmarkPrice reports the price bound of standard-200.
func BenchmarkPrice(b *testing.B) {
	m := model.New(frozen(b, "standard-200"))
	for b.Loop() {
		rel, err := relax.Run(b.Context(), m, relax.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rel.Bound.Float(), "bound")
	}
}
