package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/store"
)

// BenchmarkCommit measures commits of one row, in turn with an append and fsync of as
// many bytes to a plain file.
func BenchmarkCommit(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	s, err := Open(ctx, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(ctx, store.Meta{ID: "a", Config: []byte("{}")}); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, 4000)
	var commits, fsyncs []time.Duration
	for seq := int64(1); b.Loop(); seq++ {
		start := time.Now()
		if err := s.Append(ctx, []store.Row{{Session: "a", First: seq, Last: seq, Data: data}}); err != nil {
			b.Fatal(err)
		}
		commits = append(commits, time.Since(start))
		if seq%4 == 0 {
			start = time.Now()
			f.Write(data)
			f.Sync()
			fsyncs = append(fsyncs, time.Since(start))
		}
	}
	slices.Sort(commits)
	slices.Sort(fsyncs)
	at := func(t []time.Duration, percent int) float64 { return float64(t[len(t)*percent/100].Microseconds()) }
	b.ReportMetric(at(commits, 50), "p50-µs")
	b.ReportMetric(at(commits, 99), "p99-µs")
	b.ReportMetric(at(fsyncs, 50), "fsync-p50-µs")
	b.ReportMetric(at(fsyncs, 99), "fsync-p99-µs")
}
