package planner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/planner"
)

// BenchmarkMake plans gangs on GPUs of four types, half of them busy, with the prices and
// the order of a plan made before, as a session does. It reports the least time too, which
// says more than the mean on a machine that is busy.
func BenchmarkMake(b *testing.B) {
	for _, size := range []struct{ jobs, gpus int }{{50, 24}, {50, 160}, {300, 160}, {2000, 1600}} {
		b.Run(fmt.Sprintf("jobs=%d/gpus=%d", size.jobs, size.gpus), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, uint64(size.jobs)))
			q := &planner.Question{Types: []string{"K80", "M60", "T4", "V100"}}
			for range q.Types {
				free := make([]int64, size.gpus/4)
				for i := range free {
					free[i] = max(0, rng.Int64N(120e6)-60e6)
				}
				q.FreeUs = append(q.FreeUs, free)
			}
			for range size.jobs {
				j := planner.Job{
					WeightMicro: 1e5 + rng.Int64N(1e6), Tasks: 1 << rng.IntN(3), Sync: hare.Gang, Rounds: 5 + rng.Int64N(60)}
				d := 5e6 + rng.Int64N(10e6)
				for t := range q.Types {
					j.On = append(j.On, planner.Mode{Type: t, DurationUs: d * int64(8-2*t) / 2})
				}
				q.Jobs = append(q.Jobs, j)
			}
			p, err := planner.Make(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			q.Prices = p.Prices
			for i, rows := range p.Rows {
				q.Jobs[i].BeforeUs = rows[0].StartUs
				for _, c := range rows[0].Types {
					q.Jobs[i].Before = append(q.Jobs[i].Before, c.Type)
				}
			}
			least := time.Hour
			for b.Loop() {
				began := time.Now()
				if _, err := planner.Make(b.Context(), q); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(began))
			}
			b.ReportMetric(float64(least.Nanoseconds())/1e6, "least-ms")
		})
	}
}
