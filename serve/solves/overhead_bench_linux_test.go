package solves_test

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// timedEngine calls package solver, and keeps the time and the result of its last call.
type timedEngine struct {
	took time.Duration
	res  *hare.Result
}

func (e *timedEngine) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	began := time.Now()
	res, err := solver.Solve(ctx, inst, opt, solver.Config{Version: "test", Workers: 1})
	e.took, e.res = time.Since(began), res
	return res, err
}

func (*timedEngine) Bound(context.Context, *hare.Instance, string) (*hare.Relaxation, error) {
	return nil, nil
}

func (*timedEngine) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report { return nil }

// BenchmarkOverhead measures the time of Submit and Wait beside the time of the solver,
// for solves of standard-200 one after another, durable and in memory. It also reports
// the time of encoding the result, which is part of the overhead.
func BenchmarkOverhead(b *testing.B) {
	file, err := os.Open("../../testdata/instances/standard-200.json.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	inst, err := wire.DecodeInstance(text, wire.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	disk, err := sqlite.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	for name, store := range map[string]store.SolveStore{"durable": disk, "memory": store.NewMemorySolves()} {
		b.Run(name, func(b *testing.B) {
			engine := &timedEngine{}
			s, err := solves.Open(b.Context(),
				solves.Config{Store: store, Service: service.New(service.Config{Engine: engine, Running: 1})})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			var beside, encode []time.Duration
			for i := range b.N {
				began := time.Now()
				info, _, err := s.Submit(b.Context(),
					solves.Input{Instance: inst,
						Options: hare.Options{Seed: began.UnixNano(), WorkLimit: int64(1 + i%2)}})
				if err == nil {
					info, err = s.Wait(b.Context(), "", info.ID)
				}
				span := time.Since(began)
				if err != nil || info.Status != solves.StatusSucceeded || info.Cached {
					b.Fatal(info, err)
				}
				began = time.Now()
				_ = wire.EncodeResult(io.Discard, engine.res)
				encode = append(encode, time.Since(began))
				beside = append(beside, span-engine.took)
			}
			b.ReportMetric(percentile(beside, 0.5), "beside-p50-ms")
			b.ReportMetric(percentile(beside, 0.99), "beside-p99-ms")
			b.ReportMetric(percentile(encode, 0.5), "encode-p50-ms")
			b.ReportMetric(percentile(encode, 0.99), "encode-p99-ms")
		})
	}
}
