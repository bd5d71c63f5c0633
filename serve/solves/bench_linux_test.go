package solves_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/solver"
)

// percentile returns a percentile of durations in any order.
func percentile(all []time.Duration, p float64) float64 {
	slices.Sort(all)
	return float64(all[int(p*float64(len(all)-1))].Microseconds()) / 1e3
}

// cpuTime returns the processor time that this process has used on all cores. It hardly
// depends on the other processes of the machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchSolves(b *testing.B) *solves.Solves {
	store, err := sqlite.Open(context.Background(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := solves.Open(context.Background(),
		solves.Config{Store: store, Service: service.New(service.Config{Solver: solver.Config{Version: "test",
			Workers: 1}, Running: 2})})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.Close()
		_ = store.Close()
	})
	return s
}

// BenchmarkDurableSolves runs distinct solves of 20 jobs at the smallest work limit for
// eight callers. Each solve is durable before it is acknowledged, and again at its end.
func BenchmarkDurableSolves(b *testing.B) {
	ctx := b.Context()
	s := benchSolves(b)
	instances := make([]*hare.Instance, b.N)
	for i := range instances {
		instances[i] = haretest.Gangs(20, int64(i))
	}
	spans := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	cpu := cpuTime()
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				info, _, err := s.Submit(ctx,
					solves.Input{Instance: instances[i], Options: hare.Options{Seed: i, WorkLimit: 1}})
				if err == nil {
					info, err = s.Wait(ctx, "", info.ID)
				}
				if err != nil || info.Status != solves.StatusSucceeded || info.Cached {
					b.Error(info, err)
					return
				}
				spans[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/1e3/float64(b.N), "cpu-ms/solve")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "solves/s")
	b.ReportMetric(percentile(spans, 0.99), "p99-ms")
}

// BenchmarkSolverAlone does the work of BenchmarkDurableSolves without service and store.
func BenchmarkSolverAlone(b *testing.B) {
	cpu := cpuTime()
	for i := range b.N {
		if _, err := solver.Solve(b.Context(), haretest.Gangs(20, int64(i)), hare.Options{Seed: int64(i), WorkLimit: 1},
			solver.Config{Version: "test", Workers: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "solves/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/1e3/float64(b.N), "cpu-ms/solve")
}

// BenchmarkCancelToAnswer measures the time from Cancel to the durable end of a solve of
// 500 jobs, and from Submit to its first event.
func BenchmarkCancelToAnswer(b *testing.B) {
	ctx := b.Context()
	s := benchSolves(b)
	inst := haretest.Gangs(500, 1)
	var ends, firsts []time.Duration
	for i := range b.N {
		began := time.Now()
		info, _, err := s.Submit(ctx,
			solves.Input{Instance: inst, Options: hare.Options{Seed: int64(i), TimeLimit: time.Minute}})
		if err != nil {
			b.Fatal(err)
		}
		for range s.Events(ctx, "", info.ID, 0) {
			firsts = append(firsts, time.Since(began))
			break
		}
		time.Sleep(time.Duration(50+i*97%1500) * time.Millisecond)
		began = time.Now()
		if _, err := s.Cancel(ctx, "", info.ID); err != nil {
			b.Fatal(err)
		}
		if info, err = s.Wait(ctx, "", info.ID); err != nil || info.Status != solves.StatusCancelled ||
			info.Value == nil {
			b.Fatalf("%+v %v", info, err)
		}
		ends = append(ends, time.Since(began))
	}
	b.ReportMetric(percentile(ends, 0.5), "cancel-p50-ms")
	b.ReportMetric(percentile(ends, 1), "cancel-max-ms")
	b.ReportMetric(percentile(firsts, 1), "first-event-max-ms")
}
