package service_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/service/sqlite"
)

// openBench opens a directory with the settings of a server.
func openBench(b testing.TB, dir string) *service.Sessions {
	store, err := sqlite.Open(context.Background(), dir)
	if err != nil {
		b.Fatal(err)
	}
	return open(b, service.SessionsConfig{Store: store, New: newHistory, Restore: restoreHistory})
}

// ticks are events of the usual length that history takes without end.
func tick(seq int64) hare.Event {
	return hare.Event{Seq: seq, AtUs: seq * 10, Type: hare.EventTaskEnded, Job: "j4711", Round: seq, Task: 3, GPU: "a/0", ComputeUs: 1_200_000, SyncUs: 110_000}
}

// pipeline sends n events of one session with many on their way, and waits for all.
func pipeline(b testing.TB, e *service.Session, first, n int64) {
	ctx := context.Background()
	promises := make(chan *service.Promise, 4096)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range promises {
			if _, err := p.Wait(ctx); err != nil {
				b.Error(err)
			}
		}
	}()
	for seq := first; seq < first+n; seq++ {
		p, err := e.Submit(ctx, tick(seq))
		if err != nil {
			b.Fatal(err)
		}
		promises <- p
	}
	close(promises)
	<-done
}

// BenchmarkDurable is the rate of durable events, pipelined: one op is one event.
func BenchmarkDurable(b *testing.B) {
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := openBench(b, b.TempDir())
			defer s.Close()
			all := make([]*service.Session, sessions)
			for i := range all {
				all[i] = create(b, s)
			}
			each := int64(b.N/sessions + 1)
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, e := range all {
				wg.Go(func() { pipeline(b, e, 1, each) })
			}
			wg.Wait()
			b.ReportMetric(float64(each*int64(sessions))/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLatency sends events at a steady rate and reports the 99th
// percentile from the moment each was due to its durable decision, beside that
// of the disk's own append and fsync of as many bytes in the same run.
func BenchmarkLatency(b *testing.B) {
	for _, rate := range []int{10_000, 50_000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			dir := b.TempDir()
			s := openBench(b, dir)
			defer s.Close()
			e := create(b, s)
			var seq int64
			var took []time.Duration
			for b.Loop() {
				took = append(took, steady(b, e, &seq, rate, time.Second)...)
			}
			slices.Sort(took)
			disk := fsyncs(b, dir, 300)
			p99, own := took[len(took)*99/100], disk[len(disk)*99/100]
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
			b.ReportMetric(float64(disk[len(disk)/2].Microseconds()), "fsync-p50-µs")
			b.ReportMetric(float64(own.Microseconds()), "fsync-p99-µs")
			b.ReportMetric(float64(p99)/float64(disk[len(disk)/2]), "p99/fsync-p50")
		})
	}
}

// steady sends events at rate for a while; each is due at its own time.
func steady(b testing.TB, e *service.Session, seq *int64, rate int, length time.Duration) []time.Duration {
	ctx := context.Background()
	n := int(length.Seconds() * float64(rate))
	type sent struct {
		p   *service.Promise
		due time.Time
	}
	queue := make(chan sent, n)
	took := make([]time.Duration, 0, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for q := range queue {
			if _, err := q.p.Wait(ctx); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(q.due))
		}
	}()
	start := time.Now()
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if wait := time.Until(due); wait > 50*time.Microsecond {
			time.Sleep(wait)
		}
		*seq++
		p, err := e.Submit(ctx, tick(*seq))
		if err != nil {
			b.Fatal(err)
		}
		queue <- sent{p, due}
	}
	close(queue)
	<-done
	return took
}

// fsyncs times appends of a page or so with fsync to a file in dir.
func fsyncs(b testing.TB, dir string, n int) []time.Duration {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 8192)
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took
}

// BenchmarkRecovery opens a directory with a session of a million events, of
// which the last 49,999 lie behind the last snapshot, and takes one more event.
func BenchmarkRecovery(b *testing.B) {
	const events = 1_000_000
	dir := b.TempDir()
	s := openBench(b, dir)
	e := create(b, s)
	pipeline(b, e, 1, events-1)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	id, next := e.ID(), int64(events)
	// The end left a snapshot: it goes, as if the server had been killed.
	dropLastSnapshot(b, dir)
	for b.Loop() {
		start := time.Now()
		s := openBench(b, dir)
		opened := time.Since(start)
		e, err := s.Session(context.Background(), id)
		if err != nil {
			b.Fatal(err)
		}
		pipeline(b, e, next, 1)
		next++
		b.ReportMetric(time.Since(start).Seconds(), "s")
		b.ReportMetric(opened.Seconds(), "s-open")
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		dropLastSnapshot(b, dir)
		b.StartTimer()
	}
}

// dropLastSnapshot removes the newest snapshot.
func dropLastSnapshot(b testing.TB, dir string) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "hare.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM snapshot WHERE seq = (SELECT max(seq) FROM snapshot)"); err != nil {
		b.Fatal(err)
	}
}
