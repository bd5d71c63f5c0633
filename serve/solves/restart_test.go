package solves_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// crashingStore is a store that outlives its server: after the crash, nothing more is
// written.
type crashingStore struct {
	*store.MemorySolves
	left atomic.Int64 // writes until it dies; negative: it does not
}

func newMortal() *crashingStore {
	m := &crashingStore{MemorySolves: store.NewMemorySolves()}
	m.left.Store(-1)
	return m
}

func (*crashingStore) Durable() bool { return true }

func (m *crashingStore) WriteSolves(ctx context.Context, b *store.SolveBatch) error {
	if left := m.left.Load(); left == 0 {
		return fmt.Errorf("%w: dead", store.ErrStorage)
	} else if left > 0 {
		m.left.Add(-1)
	}
	return m.MemorySolves.WriteSolves(ctx, b)
}

func (m *crashingStore) SweepSolves(ctx context.Context, all bool) (bool, error) {
	if m.left.Load() == 0 {
		return false, store.ErrStorage
	}
	return m.MemorySolves.SweepSolves(ctx, all)
}

func resultText(t *testing.T, s *solves.Solves, id string) string {
	t.Helper()
	r, _, err := s.ResultBytes(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// untimed returns a result without its times.
func untimed(t *testing.T, res *hare.Result) string {
	t.Helper()
	c := *res
	c.Timing = hare.Timing{}
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, &c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSolvesSurviveACrashAtAnyWrite lets the server crash after each write in turn. Every
// acknowledged solve is there after the restart, every finished solve is unchanged, and
// no solve ends worse than its last checkpoint.
func TestSolvesSurviveACrashAtAnyWrite(t *testing.T) {
	ctx := t.Context()
	most, work := int64(12), int64(20_000)
	if testing.Short() {
		most, work = 8, 1_000
	}
	rng := rand.New(rand.NewPCG(1, 3))
	var limits [6]int64
	var undisturbed [6]string // results of solves under these limits that nothing interrupts
	for i := range limits {
		limits[i] = 1 + rng.Int64N(work)
	}
	for after := int64(1); after <= most; after++ {
		db := newMortal()
		s := openSolves(t, solves.Config{Store: db, Checkpoint: 4 * time.Millisecond, Retry: time.Millisecond})
		db.left.Store(after)
		var acknowledged []string
		for i := range 6 {
			opt := hare.Options{Seed: int64(i), WorkLimit: limits[i]}
			if i%3 == 2 {
				opt = hare.Options{Seed: int64(i), TimeLimit: 150 * time.Millisecond}
			}
			info, _, err := s.Submit(ctx,
				solves.Input{Instance: haretest.Gangs(12, int64(i)), Options: opt, Key: fmt.Sprint(i),
					Digest: store.Sum{byte(i)}})
			if err != nil {
				if !errors.Is(err, store.ErrStorage) {
					t.Fatal(err)
				}
				break
			}
			acknowledged = append(acknowledged, info.ID)
		}
		for wait := time.Now(); db.left.Load() > 0 && time.Since(wait) < time.Second; time.Sleep(time.Millisecond) {
		}
		db.left.Store(0)
		kept, finished := map[string]solves.Info{}, map[string]string{}
		for _, id := range acknowledged {
			info, err := s.Get(ctx, "", id)
			if err != nil {
				t.Fatal(err)
			}
			if kept[id] = info; info.ResultBytes > 0 {
				finished[id] = resultText(t, s, id)
			}
		}
		_ = s.Close()
		db.left.Store(-1)
		s = openSolves(t, solves.Config{Store: db})
		for i, id := range acknowledged {
			info, err := s.Wait(ctx, "", id)
			if err == nil && info.Options.TimeLimit > 0 && info.Status == solves.StatusFailed &&
				info.Termination == hare.TerminationDeadline && kept[id].CheckpointValue == nil {
				continue // on a busy machine its time was over in the queue
			}
			if err != nil || info.Value == nil || info.Bound == nil || info.Status != solves.StatusSucceeded {
				t.Fatalf("after %d writes, solve %d: %+v %v", after, i, info, err)
			}
			if text, ok := finished[id]; ok && text != resultText(t, s, id) {
				t.Errorf("after %d writes: the result of solve %d is another one", after, i)
			}
			if c := kept[id]; c.CheckpointValue != nil &&
				(info.Value.Cmp(*c.CheckpointValue) > 0 || info.Bound.Cmp(*c.CheckpointBound) < 0) {
				t.Errorf("after %d writes, solve %d: %v, %v; saved were %v, %v", after, i, info.Value, info.Bound,
					c.CheckpointValue, c.CheckpointBound)
			}
			res, err := s.Result(ctx, "", id)
			if err != nil {
				t.Fatal(err)
			}
			if info.Options.WorkLimit > 0 {
				if undisturbed[i] == "" {
					want, err := solver.Solve(ctx, haretest.Gangs(12, int64(i)), info.Options,
						solver.Config{Version: "test", Workers: 1})
					if err != nil {
						t.Fatal(err)
					}
					undisturbed[i] = untimed(t, want)
				}
				if !res.Reproducible || untimed(t, res) != undisturbed[i] {
					t.Errorf("after %d writes: solve %d, which is reproducible (%t), is not reproduced", after, i,
						res.Reproducible)
				}
			} else if info.Resumed && kept[id].CheckpointValue != nil && res.Reproducible {
				t.Error("a solve that went on from a saved pair says that it is reproducible")
			}
			var seqs []int64
			last := ""
			for ev, err := range s.Events(ctx, "", id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				seqs, last = append(seqs, ev.Seq), ev.Type
			}
			if !slices.IsSorted(seqs) || int64(len(seqs)) != info.Events || last != solves.EventDone {
				t.Errorf("after %d writes, solve %d: events %v, the last %s, of %d", after, i, seqs, last, info.Events)
			}
			again, replayed, err := s.Submit(ctx,
				solves.Input{Instance: haretest.Gangs(12, int64(i)), Key: fmt.Sprint(i), Digest: store.Sum{byte(i)}})
			if err != nil || !replayed || again.ID != id {
				t.Errorf("after %d writes: the key of solve %d gives %v %t %v", after, i, again.ID, replayed, err)
			}
		}
		if all, _, _ := s.List(ctx, "", solves.Filter{}); len(all) != len(acknowledged) {
			t.Errorf("after %d writes: %d solves of %d that were acknowledged", after, len(all), len(acknowledged))
		}
		_ = s.Close()
	}
}

// saveOne lets a solve run until it has saved a pair, and stops the server. Where the
// machine is so busy that the solve ends before the server does, saveOne lets another solve
// run, which has twice the time.
func saveOne(t *testing.T, db store.SolveStore, in solves.Input) solves.Info {
	t.Helper()
	for {
		info := stopAfterSave(t, db, in)
		if info.Status == solves.StatusRunning && info.CheckpointValue != nil {
			return info
		}
		if in.Options.TimeLimit == 0 || info.Termination != hare.TerminationDeadline || in.Options.TimeLimit > time.Minute {
			t.Fatalf("%+v", info)
		}
		in.Options.TimeLimit *= 2
	}
}

// stopAfterSave stops the server of a solve that has saved a pair, or has ended.
func stopAfterSave(t *testing.T, db store.SolveStore, in solves.Input) solves.Info {
	t.Helper()
	s := openSolves(t, solves.Config{Store: db, Checkpoint: 10 * time.Millisecond})
	info, _, err := s.Submit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range s.Events(t.Context(), "", info.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == solves.EventCheckpoint {
			break
		}
	}
	if _, err := s.Result(t.Context(), "", info.ID); err != nil {
		t.Error("the saved pair of a running solve:", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err = s.Get(t.Context(), "", info.ID); err != nil {
		t.Fatal(err)
	}
	return info
}

// A solve that ran when the server ended goes on, or ends with its last checkpoint.
func TestRunningSolvesAtARestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     solves.Input
		later  time.Duration // by how much the clock goes on between the servers
		status string
		term   string
	}{
		{"time is left", solves.Input{Options: hare.Options{Seed: 1, TimeLimit: 1200 * time.Millisecond}}, 0,
			solves.StatusSucceeded, hare.TerminationDeadline},
		{"the limit has passed", solves.Input{Options: hare.Options{Seed: 1, TimeLimit: time.Minute}}, 2 * time.Minute,
			solves.StatusSucceeded, hare.TerminationDeadline},
		{"the caller is gone", solves.Input{Options: hare.Options{Seed: 1, TimeLimit: time.Minute}, Kind: "lost"}, 0,
			solves.StatusCancelled, hare.TerminationCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newMortal()
			c.in.Instance = haretest.Gangs(40, 5)
			was := saveOne(t, db, c.in)
			s := openSolves(t, solves.Config{Store: db, Now: func() time.Time { return time.Now().Add(c.later) }})
			info, err := s.Wait(t.Context(), "", was.ID)
			term := info.Termination
			if c.later == 0 && term == hare.TerminationWorkLimit {
				term = hare.TerminationDeadline // a quick machine is through before
			}
			if err != nil || info.Status != c.status || term != c.term ||
				!info.Resumed && c.later == 0 && c.in.Kind == "" {
				t.Fatalf("%+v %v", info, err)
			}
			res, err := s.Result(t.Context(), "", was.ID)
			if err != nil || res.Reproducible || res.Value.Cmp(*was.CheckpointValue) > 0 ||
				res.Bound.Cmp(*was.CheckpointBound) < 0 {
				t.Errorf("%v %v, saved were %v %v; %v", res.Value, res.Bound, was.CheckpointValue,
					was.CheckpointBound, err)
			}
		})
	}
}
