package sessions_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// TestDecisionsFollow checks readers that begin late, are slow or resume: each sees every
// answer once and in order, and none holds up the session.
func TestDecisionsFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := openDir(t, t.TempDir())
	defer s.Close()
	e := create(t, s)
	events := script(21, 2000)
	want := undisturbed(t, events)
	follow := func(after int, slow time.Duration) error {
		i := after
		for a, err := range e.Decisions(ctx, int64(after)) {
			if err != nil {
				return err
			}
			if line(a) != want[i] {
				t.Errorf("after %d: answer %d differs", after, i+1)
			}
			if a.Seq > e.Info().Last {
				t.Errorf("answer %d was seen before it was durable", a.Seq)
			}
			if i++; i == len(want) {
				return nil
			}
			if i%100 == 0 {
				time.Sleep(slow)
			}
		}
		return errors.New("the answers ended")
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if err := follow(i*333, time.Duration(i)*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	// One reader stops after an answer.
	stuck, halt := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		for range e.Decisions(ctx, 0) {
			close(stuck)
			<-halt
			return
		}
	})
	for from := 0; from < len(events); from += 50 {
		if _, err := send(ctx, e, events[from:from+50]); err != nil {
			t.Fatal(err)
		}
	}
	<-stuck
	close(halt)
	wg.Wait()
	// The readers of a deleted session end, and so do readers whose context ends.
	for _, c := range []struct {
		end  func()
		want error
	}{
		{func() {}, context.DeadlineExceeded},
		{func() { _ = s.Delete(ctx, "", e.ID()) }, store.ErrNoSession},
	} {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		if c.want != context.DeadlineExceeded {
			ctx = context.WithoutCancel(ctx)
			time.AfterFunc(20*time.Millisecond, c.end)
		}
		var got error
		for _, err := range e.Decisions(ctx, 2000) {
			got = err
		}
		if !errors.Is(got, c.want) {
			t.Errorf("ended with %v, want %v", got, c.want)
		}
		cancel()
	}
}

// counting is a store that counts the reads of snapshots, of which each load does one.
type counting struct {
	store.SessionStore
	rows atomic.Int64
}

func (c *counting) Snapshots(ctx context.Context, id string) ([]store.Snapshot, error) {
	c.rows.Add(1)
	return c.SessionStore.Snapshots(ctx, id)
}

// TestIdleSessionsLeaveMemory checks that idle sessions are unloaded and come back
// unchanged.
func TestIdleSessionsLeaveMemory(t *testing.T) {
	ctx := context.Background()
	store := &counting{SessionStore: store.NewMemory()}
	cfg := sessionsConfig(store)
	cfg.Idle = 2 * time.Millisecond
	s := open(t, cfg)
	defer s.Close()
	e := create(t, s)
	events := script(5, 1500)
	want := undisturbed(t, events)
	for from := 0; from < len(events); from += 10 {
		got, err := send(ctx, e, events[from:from+10])
		if err != nil || !slices.Equal(got, want[from:from+10]) {
			t.Fatal(from, err)
		}
		if from%100 == 0 {
			for deadline := time.Now().Add(patience); e.Info().Active; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it stays in memory")
				}
			}
		}
	}
	if n := store.rows.Load(); n < 15 {
		t.Error("the state was read", n, "times")
	}
}

// TestManySessions runs many sessions at once and checks that their memory does not grow
// with their logs.
func TestManySessions(t *testing.T) {
	count, length := 100, time.Second
	if *soak {
		count, length = 1000, time.Minute
	}
	store, err := sqlite.Open(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := sessionsConfig(store)
	cfg.SnapshotEvery = 1000
	s := open(t, cfg)
	defer s.Close()
	before := runtime.NumGoroutine()
	var memory [2]uint64
	var events atomic.Int64
	sessions := make([]*sessions.Session, count)
	for i := range sessions {
		sessions[i] = create(t, s)
	}
	next := make([]int64, count)
	for half := range memory {
		until := time.Now().Add(length / 2)
		var wg sync.WaitGroup
		for i, e := range sessions {
			wg.Go(func() {
				for time.Now().Before(until) {
					pipeline(t, e, next[i]+1, 20)
					next[i] += 20
					events.Add(20)
				}
			})
		}
		wg.Wait()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		memory[half] = m.HeapAlloc
	}
	t.Logf("%d sessions, %d events, heap %d and %d KiB, goroutines %d and %d", count, events.Load(),
		memory[0]>>10, memory[1]>>10, before, runtime.NumGoroutine())
	if memory[1] > memory[0]*5/4+4<<20 {
		t.Errorf("memory grows: %d, then %d bytes", memory[0], memory[1])
	}
}

// TestRefusedAtClose checks that each event that was submitted before Close is answered
// or refused.
func TestRefusedAtClose(t *testing.T) {
	ctx := context.Background()
	for range 20 {
		s := openDir(t, t.TempDir())
		e := create(t, s)
		var promises []*sessions.Promise
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for seq := int64(1); ; seq++ {
				p, err := e.Submit(ctx, hare.Event{Seq: seq})
				if err != nil {
					if !errors.Is(err, admission.ErrDraining) {
						t.Error(err)
					}
					return
				}
				promises = append(promises, p)
			}
		}()
		time.Sleep(2 * time.Millisecond)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		<-sent
		refused := false
		for i, p := range promises {
			_, err := p.Wait(ctx)
			if err != nil && !errors.Is(err, admission.ErrDraining) || err == nil && refused {
				t.Fatalf("event %d: %v", i+1, err)
			}
			refused = refused || err != nil
		}
		if _, err := s.Session(ctx, "", e.ID()); !errors.Is(err, admission.ErrDraining) {
			t.Error(err)
		}
	}
}
