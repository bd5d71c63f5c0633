package solves_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// uncancellable is work that ignores cancellation and keeps reporting pair as its best
// pair; nil means none.
func uncancellable(until <-chan struct{}, pair *hare.Result) service.RunFunc {
	return func(_ context.Context, _ *hare.Instance, _ hare.Options, cfg solver.Config) (*hare.Result, error) {
		for {
			select {
			case <-until:
				return nil, errors.New("the server is gone")
			case <-time.After(time.Millisecond):
				if pair != nil {
					cfg.Checkpoint(func() (*hare.Result, error) { return pair, nil })
				}
			}
		}
	}
}

// A cancellation that was acknowledged holds after a crash, at any stage of the solve.
func TestCancelledStaysCancelled(t *testing.T) {
	ctx := t.Context()
	inst := haretest.Gangs(10, 5)
	pair, err := solver.Solve(ctx, inst, solver.Defaults(hare.Options{Seed: 1, WorkLimit: 1}),
		solver.Config{Version: "test", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, saved := range []bool{false, true} {
		t.Run(fmt.Sprint("saved ", saved), func(t *testing.T) {
			db := newMortal()
			s := openSolves(t, solves.Config{Store: db, Checkpoint: 4 * time.Millisecond})
			begin := make(chan struct{})
			in := solves.Input{Instance: inst, Options: hare.Options{Seed: 1, TimeLimit: time.Hour}}
			if saved {
				in.Run = uncancellable(begin, pair)
			} else {
				in.Run = uncancellable(begin, nil)
			}
			info, _, err := s.Submit(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			for ev, err := range s.Events(ctx, "", info.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if saved && ev.Type == solves.EventCheckpoint || !saved && ev.Status == solves.StatusRunning {
					break
				}
			}
			db.left.Store(1) // the cancellation is the last write before the crash
			if _, err := s.Cancel(ctx, "", info.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Cancel(ctx, "", info.ID); !errors.Is(err, store.ErrStorage) {
				t.Error("on a dead disk:", err)
			}
			db.left.Store(0)
			close(begin)
			_ = s.Close()
			db.left.Store(-1)
			s = openSolves(t, solves.Config{Store: db, Resume: func(string, []byte) (service.RunFunc, error) {
				t.Error("it goes on")
				return nil, errors.ErrUnsupported
			}})
			info, err = s.Wait(ctx, "", info.ID)
			if err != nil || info.Status != solves.StatusCancelled || (info.Value != nil) != saved {
				t.Fatalf("%+v %v", info, err)
			}
			if _, err := s.Cancel(ctx, "", info.ID); err != nil {
				t.Error("again:", err)
			}
		})
	}
}
