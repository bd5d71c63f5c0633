package sessions_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store/sqlite"
	registry "github.com/hare-sched/hare/sim/policies"
)

// openBench opens a directory with the settings of a server.
func openBench(b testing.TB, dir string) *sessions.Sessions {
	store, err := sqlite.Open(context.Background(), dir)
	if err != nil {
		b.Fatal(err)
	}
	return open(b, sessions.Config{Store: store, New: newHistory, Restore: restoreHistory})
}

// tick makes an event of the usual length; the policy history accepts any number of
// them.
func tick(seq int64) hare.Event {
	return hare.Event{Seq: seq, AtUs: seq * 10, Type: hare.EventTaskEnded, Job: "j4711", Round: seq, Task: 3,
		GPU: "a/0", ComputeUs: 1_200_000, SyncUs: 110_000}
}

// pipeline sends n events of one session without waiting for each answer, and then waits
// for all.
func pipeline(b testing.TB, e *sessions.Session, first, n int64) {
	ctx := context.Background()
	promises := make(chan *sessions.Promise, 4096)
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

// BenchmarkDurable measures the rate of durable events of a pipelining client: one op is
// one event.
func BenchmarkDurable(b *testing.B) {
	for _, count := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("sessions=%d", count), func(b *testing.B) {
			s := openBench(b, b.TempDir())
			defer s.Close()
			all := make([]*sessions.Session, count)
			for i := range all {
				all[i] = create(b, s)
			}
			each := int64(b.N/count + 1)
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, e := range all {
				wg.Go(func() { pipeline(b, e, 1, each) })
			}
			wg.Wait()
			b.ReportMetric(float64(each*int64(count))/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLatency sends events at a constant rate. It reports the 99th percentile of the
// time from the moment at which each event was due to its durable decision, and beside it
// the same percentile of plain appends with fsync of as many bytes during the same time.
func BenchmarkLatency(b *testing.B) {
	for _, rate := range []int{10_000, 50_000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			dir := b.TempDir()
			s := openBench(b, dir)
			defer s.Close()
			e := create(b, s)
			var seq int64
			var took, disk []time.Duration
			for b.Loop() {
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					disk = append(disk, fsyncs(b, dir, stop)...)
				}()
				took = append(took, sendAtRate(b, e, &seq, rate, time.Second)...)
				close(stop)
				<-stopped
			}
			slices.Sort(took)
			slices.Sort(disk)
			p99, own := took[len(took)*99/100], disk[len(disk)*99/100]
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
			b.ReportMetric(float64(disk[len(disk)/2].Microseconds()), "fsync-p50-µs")
			b.ReportMetric(float64(own.Microseconds()), "fsync-p99-µs")
			b.ReportMetric(float64(took[len(took)/2])/float64(disk[len(disk)/2]), "p50-ratio")
			b.ReportMetric(float64(p99)/float64(own), "p99-ratio")
		})
	}
}

// sendAtRate sends events at a rate for a while; each event has a time at which it is
// due.
func sendAtRate(b testing.TB, e *sessions.Session, seq *int64, rate int, length time.Duration) []time.Duration {
	ctx := context.Background()
	n := int(length.Seconds() * float64(rate))
	type sent struct {
		p   *sessions.Promise
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

// fsyncs measures appends of about a page with fsync to a file in dir, 50 a second.
func fsyncs(b testing.TB, dir string, stop <-chan struct{}) (took []time.Duration) {
	f, err := os.CreateTemp(dir, "fsync")
	if err != nil {
		b.Error(err)
		return nil
	}
	defer f.Close()
	page := make([]byte, 8192)
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-stop:
			return took
		case <-pace.C:
		}
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Error(err)
		}
		if err := f.Sync(); err != nil {
			b.Error(err)
		}
		took = append(took, time.Since(start))
	}
}

// hlasEvents makes n events of a session of HLAS with 200 jobs on 256 GPUs, where each
// event follows from the decisions before.
func hlasEvents(b testing.TB, cluster *hare.Cluster, n int) []hare.Event {
	twin, err := registry.OpenSession("hlas", cluster, nil)
	if err != nil {
		b.Fatal(err)
	}
	events := make([]hare.Event, 0, n)
	var running []hare.Decision // the oldest first
	for len(events) < n {
		e := hare.Event{Seq: int64(len(events) + 1), AtUs: int64(len(events)) * 1000}
		if i := len(events); i < 200 {
			e.Type, e.Job = hare.EventJobArrived, fmt.Sprintf("job-%d", i)
			e.Arrived = &hare.Job{ID: e.Job, WeightMicro: 1e6, Tasks: int64(1 + i%4), Sync: hare.Sync(i % 2),
				On: []hare.Profile{{Type: "T4", ComputeUs: 2_900_000},
					{Type: "V100", ComputeUs: 1_200_000, SyncUs: 100_000}}}
		} else {
			d := running[0]
			running = running[1:]
			e.Type, e.Job, e.Round, e.Task, e.GPU = hare.EventTaskEnded, d.Job, d.Round, d.Task, d.GPU
			e.ComputeUs, e.SyncUs = 1_200_000+int64(i%7)*10_000, 100_000
		}
		decisions, err := twin.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			b.Fatal(err)
		}
		running = append(running, decisions...)
		events = append(events, e)
	}
	return events
}

// BenchmarkRecovery opens a directory with a session of HLAS of a million events and
// sends one more event. One case is the worst that a kill leaves: 49,999 events after the
// last snapshot. In the other case only the first snapshot exists, and all events are
// read.
func BenchmarkRecovery(b *testing.B) {
	const events = 1_000_000
	ctx := context.Background()
	cluster := hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 128}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 128}}}}}
	stream := hlasEvents(b, &cluster, events+100)
	dir := b.TempDir()
	serve := func() *sessions.Sessions {
		store, err := sqlite.Open(ctx, dir)
		if err != nil {
			b.Fatal(err)
		}
		return open(b, sessions.Config{Store: store})
	}
	s := serve()
	e, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < events-1; {
		to := min(from+1000, events-1)
		if _, err := send(ctx, e, stream[from:to]); err != nil {
			b.Fatal(err)
		}
		if from = to; to == events-50_000 { // a snapshot falls on this event
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			s = serve()
			if e, err = s.Session(ctx, "", e.ID()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "hare.db"))
	if err != nil {
		b.Fatal(err)
	}
	next := int64(events)
	for _, c := range []struct{ name, drop string }{
		{"killed", "DELETE FROM snapshot WHERE seq > 950000"},
		{"no snapshot", "DELETE FROM snapshot WHERE seq > 0"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var slowest, opened, busy time.Duration
			for b.Loop() {
				b.StopTimer()
				alter(b, dir, c.drop) // the end before left one
				b.StartTimer()
				start, used := time.Now(), processor()
				s := serve()
				opened = max(opened, time.Since(start))
				e, err := s.Session(ctx, "", e.ID())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := send(ctx, e, stream[next-1:next]); err != nil {
					b.Fatal(err)
				}
				next++
				slowest, busy = max(slowest, time.Since(start)), max(busy, processor()-used)
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(slowest.Seconds(), "s-slowest")
			b.ReportMetric(busy.Seconds(), "s-cpu")
			b.ReportMetric(opened.Seconds(), "s-open")
			b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
		})
	}
}

// processor returns the processor time of this process. On a busy machine the processor
// time says more than the wall clock.
func processor() time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
