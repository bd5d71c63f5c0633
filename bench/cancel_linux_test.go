package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// mixed makes every other job gang or rigid.
func mixed(b testing.TB, jobs int) *hare.Instance {
	inst := generated(b, jobs, "relaxed")
	for i := range inst.Jobs {
		inst.Jobs[i].Sync = []hare.Sync{hare.Relaxed, hare.Gang, hare.Relaxed, hare.Rigid}[i%4]
	}
	return inst
}

// cpuTime returns the time that this process has used on all cores, which hardly depends
// on the load of the machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCancel measures the time from the end of the context to the verified and
// encoded answer, for solves that are watched and cancelled at random moments of their
// first 2 s.
func BenchmarkCancel(b *testing.B) {
	for _, sync := range []string{"relaxed", "gang", "rigid", "mixture"} {
		for _, jobs := range []int{20, 200, 500} {
			b.Run(fmt.Sprintf("%s-%d", sync, jobs), func(b *testing.B) {
				var inst *hare.Instance
				if sync == "mixture" {
					inst = mixed(b, jobs)
				} else {
					inst = generated(b, jobs, sync)
				}
				var spans, cpus []time.Duration
				rng := rand.New(rand.NewPCG(1, 2))
				slowest, phase := time.Duration(0), ""
				for i := range b.N {
					ctx, cancel := context.WithCancel(b.Context())
					var at time.Time
					var cpu time.Duration
					during, last := "", ""
					timer := time.AfterFunc(time.Duration(rng.Int64N(2e9)), func() {
						at, cpu = time.Now(), cpuTime()
						cancel()
					})
					cfg := solver.Config{
						Progress: func(e solver.Event) {
							if ctx.Err() == nil {
								during = e.Phase
							}
							last = e.Phase
						},
						Checkpoint: func(func() (*hare.Result, error)) {},
					}
					res, err := solver.Solve(ctx, inst, hare.Options{TimeLimit: time.Minute, Seed: int64(i)}, cfg)
					if err != nil {
						b.Fatal(err)
					}
					if err := wire.EncodeResult(io.Discard, res); err != nil {
						b.Fatal(err)
					}
					if ctx.Err() != nil { // otherwise the solve ended before it was cancelled
						span := time.Since(at)
						spans, cpus = append(spans, span), append(cpus, cpuTime()-cpu)
						if span > slowest {
							slowest, phase = span, during+" "+last
						}
					}
					timer.Stop()
					cancel()
				}
				if len(spans) == 0 {
					b.Skip("solved before they were cancelled")
				}
				slices.Sort(spans)
				slices.Sort(cpus)
				ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
				b.ReportMetric(float64(len(spans)), "cancelled")
				b.ReportMetric(ms(spans[len(spans)/2]), "p50-ms")
				b.ReportMetric(ms(spans[len(spans)-1]), "max-ms")
				b.ReportMetric(ms(cpus[len(cpus)-1]), "max-cpu-ms")
				b.Logf("slowest %v during %s", slowest, phase)
			})
		}
	}
}
