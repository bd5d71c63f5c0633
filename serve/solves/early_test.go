package solves_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// A solve runs while the disk still writes that it was accepted, so that its caller does
// not wait for both one after the other. Where that write is refused, the caller gets the
// error, the solve is cancelled, and nothing of it is stored.
func TestSolveRunsWhileItIsWritten(t *testing.T) {
	for _, full := range []bool{false, true} {
		ctx := t.Context()
		kept := &refusing{MemorySolves: store.NewMemorySolves(), armed: make(chan struct{}, 1),
			entered: make(chan struct{}), open: make(chan struct{}), works: !full}
		s := openSolves(t, solves.Config{Store: kept, Retry: time.Millisecond})
		began, ended := make(chan struct{}), make(chan struct{})
		run := func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error) {
			defer close(ended)
			cfg.Progress(solver.Event{Phase: solver.PhaseBound})
			close(began)
			if full {
				<-ctx.Done()
			}
			return solver.Solve(ctx, inst, opt, cfg)
		}
		kept.armed <- struct{}{}
		var info solves.Info
		submitted := make(chan error, 1)
		go func() {
			var err error
			info, _, err = s.Submit(ctx, solves.Input{Instance: haretest.Gangs(5, 3), Run: run, Kind: "test",
				Options: hare.Options{WorkLimit: 20}})
			submitted <- err
		}()
		<-kept.entered
		select {
		case <-began:
		case <-time.After(patience):
			t.Fatal("the solve waits until it is written")
		}
		close(kept.open)
		err := <-submitted
		<-ended
		if full != errors.Is(err, store.ErrStorage) || !full && err != nil {
			t.Errorf("full=%v: %v", full, err)
		}
		if full {
			if all, _, err := s.List(ctx, "", solves.Filter{}); err != nil || len(all) > 0 {
				t.Errorf("%v %v", all, err)
			}
		} else if info, err = s.Wait(ctx, "", info.ID); err != nil || info.Status != solves.StatusSucceeded {
			t.Errorf("%+v %v", info, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		rows, err := kept.SolveEvents(ctx, 1, 0, 1<<20)
		if err != nil || full != (len(rows) == 0) {
			t.Errorf("full=%v: %d rows of events, %v", full, len(rows), err)
		}
	}
}
