package solves_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// held is work that waits until the test ends it.
func held(order *[]string, mu *sync.Mutex, go_ <-chan struct{}) func(name string) service.RunFunc {
	return func(name string) service.RunFunc {
		return func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result,
			error) {
			mu.Lock()
			*order = append(*order, name)
			mu.Unlock()
			select {
			case <-go_:
			case <-ctx.Done():
			}
			return hugeRun(10)(ctx, inst, opt, cfg)
		}
	}
}

// 64 concurrent submissions with one idempotency key make one solve, in any store, and
// also after a restart.
func TestOneSolveForOneKey(t *testing.T) {
	ctx := t.Context()
	for name, open := range solveStores(t) {
		t.Run(name, func(t *testing.T) {
			db, shut := open()
			s := openSolves(t, solves.Config{Store: db})
			inst := haretest.Gangs(8, 1)
			in := solves.Input{Instance: inst, Options: hare.Options{Seed: 1, WorkLimit: 1}, Tenant: "a", Key: "k",
				Digest: store.Sum{1}}
			var ids sync.Map
			var first atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					info, replayed, err := s.Submit(ctx, in)
					if err != nil {
						t.Error(err)
						return
					}
					if !replayed {
						first.Add(1)
					}
					ids.Store(info.ID, true)
				})
			}
			wg.Wait()
			n, id := 0, ""
			for k := range ids.Range {
				n, id = n+1, k.(string)
			}
			if n != 1 || first.Load() != 1 {
				t.Fatalf("%d solves, %d of them not replayed", n, first.Load())
			}
			check := func() {
				t.Helper()
				other := in
				other.Digest = store.Sum{2}
				var bad *solves.KeyError
				if _, _, err := s.Submit(ctx, other); !errors.As(err, &bad) || bad.InFlight || bad.Key != "k" {
					t.Error("another body:", err)
				}
				if info, replayed, err := s.Submit(ctx, in); err != nil || !replayed || info.ID != id {
					t.Error(info.ID, replayed, err)
				}
			}
			check()
			foreign := in
			foreign.Tenant = "b"
			if info, replayed, err := s.Submit(ctx, foreign); err != nil || replayed || info.ID == id {
				t.Error("another tenant's key:", info.ID, replayed, err)
			}
			if _, err := s.Wait(ctx, "a", id); err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			shut()
			db, shut = open()
			defer func() { shut() }()
			s = openSolves(t, solves.Config{Store: db})
			check()
			if err := s.Delete(ctx, "a", id); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Submit(ctx, in); !errors.Is(err, solves.ErrGone) {
				t.Error("the key of a deleted solve:", err)
			}
			_ = s.Close()
		})
	}
}

// The result of a solve answers equal solves of the same tenant, also after the first of
// them was deleted, and after a restart.
func TestEqualSolvesShareAResult(t *testing.T) {
	ctx := t.Context()
	for name, open := range solveStores(t) {
		t.Run(name, func(t *testing.T) {
			db, shut := open()
			s := openSolves(t, solves.Config{Store: db})
			submit := func(tenant string, seed int64) solves.Info {
				t.Helper()
				info, _, err := s.Submit(ctx,
					solves.Input{Instance: haretest.Gangs(9, 1), Options: hare.Options{Seed: seed, WorkLimit: 1},
						Tenant: tenant})
				if err == nil {
					info, err = s.Wait(ctx, tenant, info.ID)
				}
				if err != nil {
					t.Fatal(err)
				}
				return info
			}
			text := func(id string) string {
				t.Helper()
				res, err := s.Result(ctx, "", id)
				if err != nil {
					t.Fatal(err)
				}
				return untimed(t, res)
			}
			a := submit("", 1)
			want := resultText(t, s, a.ID)
			b := submit("", 1)
			if a.Cached || !b.Cached || b.ID == a.ID || b.Value.Cmp(*a.Value) != 0 ||
				resultText(t, s, b.ID) != want || b.Termination != a.Termination {
				t.Errorf("%+v\n%+v", a, b)
			}
			if submit("", 2).Cached || submit("x", 1).Cached {
				t.Error("another seed's or tenant's result was used")
			}
			if err := s.Delete(ctx, "", a.ID); err != nil {
				t.Fatal(err)
			}
			if c := submit("", 1); !c.Cached || resultText(t, s, c.ID) != want {
				t.Errorf("after the first was deleted: %+v", c)
			}
			_ = s.Close()
			shut()
			db, shut = open()
			defer func() { shut() }()
			s = openSolves(t, solves.Config{Store: db})
			if resultText(t, s, b.ID) != want {
				t.Error("the result is another after a restart")
			}
			d := submit("", 1)
			if !d.Cached || resultText(t, s, d.ID) != want {
				t.Errorf("after a restart: %+v", d)
			}
			seqs := 0
			for ev, err := range s.Events(ctx, "", d.ID, 0) {
				if seqs++; err != nil || ev.Seq != int64(seqs) {
					t.Error(ev, err)
				}
			}
			if seqs < 2 {
				t.Error(seqs, "events")
			}
			all, _, _ := s.List(ctx, "", solves.Filter{InstanceSHA256: d.InstanceSHA256})
			for _, i := range all {
				if i.Options.Seed == 1 {
					if err := s.Delete(ctx, "", i.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			if e := submit("", 1); e.Cached || text(e.ID) == "" {
				t.Error("a result that no solve has any more was used")
			}
			_ = s.Close()
		})
	}
}

// Solves run by deadline, together with the other calls of the service, and report their
// position in the queue.
func TestQueueIsServedByDeadline(t *testing.T) {
	ctx := t.Context()
	svc := service.New(service.Config{Running: 1, Queue: 4, MaxTime: 30 * time.Minute})
	s := openSolves(t, solves.Config{Service: svc})
	var mu sync.Mutex
	var order []string
	release := make(chan struct{})
	work := held(&order, &mu, release)
	ids := map[string]string{}
	for _, c := range []struct {
		name  string
		limit time.Duration
	}{{"first", 0}, {"none", 0}, {"50m", 50 * time.Minute}, {"10m", 10 * time.Minute}, {"20m", 20 * time.Minute}} {
		info, _, err := s.Submit(ctx,
			solves.Input{Instance: haretest.Gangs(3, 1), Options: hare.Options{TimeLimit: c.limit}, Run: work(c.name)})
		if err != nil {
			t.Fatal(err)
		}
		ids[c.name] = info.ID
		for begun := c.name != "first"; !begun; time.Sleep(time.Millisecond) {
			mu.Lock()
			begun = len(order) > 0
			mu.Unlock()
		}
	}
	if _, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(3, 1)}); !errors.Is(err, admission.ErrBusy) {
		t.Error(err)
	}
	if _, err := svc.Solve(ctx, haretest.Gangs(3, 1), hare.Options{}); !errors.Is(err, admission.ErrBusy) {
		t.Error(err)
	}
	for name, want := range map[string]int{"first": 0, "10m": 1, "20m": 2, "none": 3, "50m": 4} {
		if info, err := s.Get(ctx, "", ids[name]); err != nil || info.QueuePosition != want {
			t.Errorf("%s: place %d, want %d; %v", name, info.QueuePosition, want, err)
		}
	}
	if info, err := s.Cancel(ctx, "", ids["20m"]); err != nil {
		t.Error(info, err)
	}
	if info, err := s.Wait(ctx, "", ids["20m"]); err != nil || info.Status != solves.StatusCancelled ||
		info.Value != nil {
		t.Errorf("%+v %v", info, err)
	}
	if _, err := s.Result(ctx, "", ids["20m"]); !errors.Is(err, solves.ErrNoResult) {
		t.Error(err)
	}
	close(release)
	for _, id := range ids {
		if _, err := s.Wait(ctx, "", id); err != nil {
			t.Error(err)
		}
	}
	if got := fmt.Sprint(order); got != "[first 10m none 50m]" {
		t.Error(got)
	}
}

// Solves that are too old or take too much space are removed, the first to end first, and
// their IDs answer ErrGone. A removal that cannot be written is refused, and reading goes
// on.
func TestRetentionAndAFullDisk(t *testing.T) {
	ctx := t.Context()
	db := newMortal()
	var ahead atomic.Int64
	s := openSolves(t, solves.Config{Store: db, MaxBytes: 400 << 10, Retry: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	var ids []string
	for i := range 8 {
		info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(3, int64(i)), Run: hugeRun(100 << 10)})
		if err == nil {
			_, err = s.Wait(ctx, "", info.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	kept := func() (n int) {
		for _, id := range ids {
			if _, err := s.Get(ctx, "", id); err == nil {
				n++
			} else if !errors.Is(err, solves.ErrGone) && ahead.Load() == 0 {
				t.Fatal(err)
			}
		}
		return n
	}
	until := func(want int) {
		t.Helper()
		for wait := time.Now(); kept() != want; time.Sleep(time.Millisecond) {
			if time.Since(wait) > patience {
				t.Fatalf("%d are kept, want %d", kept(), want)
			}
		}
	}
	until(3)
	if _, err := s.Get(ctx, "", ids[7]); err != nil {
		t.Error("the last one:", err)
	}
	db.left.Store(0)
	if _, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(3, 1)}); !errors.Is(err, store.ErrStorage) {
		t.Error(err)
	}
	if err := s.Delete(ctx, "", ids[7]); !errors.Is(err, store.ErrStorage) {
		t.Error(err)
	}
	if res, err := s.Result(ctx, "", ids[7]); err != nil || len(res.Reasons) != 1 {
		t.Error(err)
	}
	db.left.Store(-1)
	ahead.Store(int64(8 * 24 * time.Hour))
	// The end of a solve wakes the janitor only where there is too much; a deletion does
	// too.
	if err := s.Delete(ctx, "", ids[7]); err != nil {
		t.Fatal(err)
	}
	until(0)
	ahead.Store(int64(10 * 24 * time.Hour))
	info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(3, 1), Options: hare.Options{WorkLimit: 1}})
	if err == nil {
		_, err = s.Wait(ctx, "", info.ID)
	}
	if err == nil {
		err = s.Delete(ctx, "", info.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	for wait := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := s.Get(ctx, "", ids[0]); errors.Is(err, solves.ErrNoSolve) {
			break
		}
		if time.Since(wait) > patience {
			t.Fatal("what went long ago is not forgotten")
		}
	}
}
