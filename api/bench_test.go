package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// ready is an engine that returns a prepared result at once.
type ready struct{ res *hare.Result }

func (e ready) Solve(_ context.Context, _ *hare.Instance, opt hare.Options) (*hare.Result, error) {
	res := *e.res
	res.Options = opt
	return &res, nil
}

func (ready) Bound(context.Context, *hare.Instance, string) (*hare.Relaxation, error) {
	return &hare.Relaxation{}, nil
}

func (ready) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report {
	return &verify.Report{OK: true}
}

// paperScale returns an instance of 200 jobs on 160 GPUs and a result for it.
func paperScale(tb testing.TB) (text []byte, res *hare.Result) {
	tb.Helper()
	file, err := os.Open("../testdata/instances/standard-200.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	text, err = io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	inst, err := wire.DecodeInstance(bytes.NewReader(text), wire.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	res, err = solver.Solve(context.Background(), inst, hare.Options{Seed: 1, WorkLimit: 1000, Bound: "machine"},
		solver.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return text, res
}

// BenchmarkHTTP measures what a solve over a real connection costs beside the
// solver, at the scale of the paper. The cost of HTTP itself is the whole less
// decode and encode, which are measured too.
func BenchmarkHTTP(b *testing.B) {
	text, res := paperScale(b)
	body := append(append([]byte(`{"instance":`), text...), '}')
	server := httptest.NewServer(servetest.New(b, service.New(service.Config{Engine: ready{res}}), api.Config{}))
	defer server.Close()
	seed := 0
	for _, c := range []struct{ name, accept, detail string }{{"plain", "identity", "lanes"}, {"zstd", "zstd", "lanes"},
		{"gzip", "gzip", "lanes"}, {"no-schedule", "identity", "none"}} {
		b.Run(c.name, func(b *testing.B) {
			with := strings.TrimSuffix(string(body), "}") + `,"options":{"detail":"` + c.detail + `","seed":`
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				seed++ // an equal solve would be answered from the cache
				r, err := http.NewRequest(http.MethodPost, server.URL+"/v1/solves",
					strings.NewReader(with+strconv.Itoa(seed)+"}}"))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept-Encoding", c.accept)
				resp, err := server.Client().Do(r)
				if err != nil {
					b.Fatal(err)
				}
				size, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
			}
			b.ReportMetric(float64(size), "bytes/answer")
		})
	}
	b.Run("part=decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := wire.DecodeRequest(bytes.NewReader(body), wire.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("part=encode", func(b *testing.B) {
		for b.Loop() {
			if err := wire.EncodeResult(io.Discard, res); err != nil {
				b.Fatal(err)
			}
		}
	})
}
