package bench

import (
	"flag"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/trace"
)

var limitSlowdowns = flag.Bool("slowdowns", false,
	"measure what the limit of slowdowns costs and brings for rolling and on more traces")

// slowdownCase is a trace on a cluster.
type slowdownCase struct {
	gpus, format, trace string
}

// With the parameter fifo_slowdown, the 99th percentile of the slowdown of rolling and hgittins
// is at most 1.5 times that of first come, first served, for at most 3 % of the mean completion
// time, weighted or not. GPUs of one type need the limit, which is the default there.
func TestLimitOfSlowdowns(t *testing.T) {
	cases := []slowdownCase{{"V100=17", "gavel", multi}}
	if *limitSlowdowns {
		cases = append(cases, slowdownCase{"V100=8,P100=8,K80=8", "gavel", multi},
			slowdownCase{"V100=9,P100=9,K80=9", "gavel", single})
	}
	for _, c := range cases {
		t.Run(c.gpus+" "+c.trace, func(t *testing.T) {
			inst := traceInstance(t, c)
			run := func(p online.Policy) *sim.Metrics {
				t.Helper()
				out, err := sim.Run(t.Context(), inst, p, sim.Config{})
				if err != nil {
					t.Fatal(err)
				}
				return out.Metrics(inst)
			}
			first, err := online.NewFIFO(sim.Cluster(inst))
			if err != nil {
				t.Fatal(err)
			}
			fifo := run(first)
			t.Logf("fifo: 99 %% %.2f, mean %.0f s", fifo.P99Slowdown, fifo.MeanJCTS)
			for _, name := range []string{"hgittins", "rolling"} {
				if name == "rolling" && !*limitSlowdowns {
					continue // the plans take some seconds
				}
				made := func(limit float64) online.Policy {
					guard := list.GuardConfig{FIFOSlowdown: limit}
					if name == "rolling" {
						return rolling.New(sim.Cluster(inst), rolling.Config{Guard: guard})
					}
					return rolling.NewHGittins(sim.Cluster(inst), rolling.HGittinsConfig{Guard: guard})
				}
				free, limited := run(made(-1)), run(made(1))
				t.Logf("%s: 99 %% %.2f (%.2f × fifo), with the limit %.2f (%.2f ×), mean %.0f s, with the limit %+.2f %%, "+
					"weighted %+.2f %%", name, free.P99Slowdown, free.P99Slowdown/fifo.P99Slowdown, limited.P99Slowdown,
					limited.P99Slowdown/fifo.P99Slowdown, free.MeanJCTS, 100*(limited.MeanJCTS/free.MeanJCTS-1),
					100*(limited.WeightedMeanJCTS/free.WeightedMeanJCTS-1))
				if limited.P99Slowdown > 1.5*fifo.P99Slowdown {
					t.Errorf("%s: %.3f, and fifo has %.3f", name, limited.P99Slowdown, fifo.P99Slowdown)
				}
				if limited.MeanJCTS > 1.03*free.MeanJCTS || limited.WeightedMeanJCTS > 1.03*free.WeightedMeanJCTS {
					t.Errorf("%s: the mean grows from %.0f to %.0f s, the weighted mean from %.0f to %.0f s", name, free.MeanJCTS,
						limited.MeanJCTS, free.WeightedMeanJCTS, limited.WeightedMeanJCTS)
				}
				byDefault, want := run(made(0)), free
				if !strings.Contains(c.gpus, ",") {
					want = limited
				}
				if byDefault.P99Slowdown != want.P99Slowdown || byDefault.MeanJCTS != want.MeanJCTS {
					t.Errorf("%s: by default %.3f and %.0f s", name, byDefault.P99Slowdown, byDefault.MeanJCTS)
				}
			}
		})
	}
}

// traceInstance is a trace with its own weights, as gangs in Gavel's rounds.
func traceInstance(t *testing.T, c slowdownCase) *hare.Instance {
	t.Helper()
	gpus, err := trace.ParseGPUs(c.gpus)
	if err != nil {
		t.Fatal(err)
	}
	inst, _, err := trace.Import(c.format, trace.ImportConfig{
		Config: trace.Config{GPUs: gpus, Sync: "gang", Quantum: gavelRound},
		Trace:  trace.Source{Name: c.trace},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}
