package bench

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

func generated(b testing.TB, jobs int, sync string) *hare.Instance {
	b.Helper()
	n := max(1, jobs/20)
	gpus := []hare.TypeCount{{Type: "V100", Count: 6 * n}, {Type: "T4", Count: 5 * n}, {Type: "K80", Count: 3 * n},
		{Type: "M60", Count: 2 * n}}
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: jobs, GPUs: gpus, Sync: sync, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	return inst
}

// BenchmarkOverrun reports by how much the worst of five solves, with the encoding of
// its result, exceeds its time limit. For instances of more than 500 jobs the limit has
// a floor: the least time of a certified answer.
func BenchmarkOverrun(b *testing.B) {
	answer := func(b *testing.B, inst *hare.Instance, limit time.Duration, seed int) (took time.Duration,
		ratio float64) {
		began := time.Now()
		res, err := solver.Solve(b.Context(), inst, hare.Options{TimeLimit: limit, Seed: int64(seed)}, solver.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := wire.EncodeResult(io.Discard, res); err != nil {
			b.Fatal(err)
		}
		return time.Since(began), res.Value.Float() / res.Bound.Float()
	}
	for _, sync := range []string{"relaxed", "gang", "rigid"} {
		for _, jobs := range []int{20, 200, 500} {
			for _, limit := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
				b.Run(fmt.Sprintf("%s-%d/%v", sync, jobs, limit), func(b *testing.B) {
					inst := generated(b, jobs, sync)
					for b.Loop() {
						var worst time.Duration
						var ratio float64
						for seed := range 5 {
							took, r := answer(b, inst, limit, seed)
							worst, ratio = max(worst, took-limit), max(ratio, r)
						}
						b.ReportMetric(float64(worst)/1e6, "worst-overrun-ms")
						b.ReportMetric(ratio, "worst-value/bound")
					}
				})
			}
		}
	}
	for _, jobs := range []int{1000, 2000, 5000, 20_000} {
		b.Run(fmt.Sprintf("floor-relaxed-%d", jobs), func(b *testing.B) {
			inst := generated(b, jobs, "relaxed")
			for b.Loop() {
				took, ratio := answer(b, inst, 100*time.Millisecond, 1)
				b.ReportMetric(took.Seconds(), "floor-s")
				b.ReportMetric(ratio, "value/bound")
			}
		})
	}
}
