package solves_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/solver"
)

// Hooks may be set while solves run and write, as on a server that finds solves at its
// start.
func TestWatchWhileSolvesRun(t *testing.T) {
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 2})
	s := openSolves(t, solves.Config{Service: svc})
	var writes atomic.Int64
	hooks := service.Hooks{Committed: func(context.Context, time.Time, int, error) { writes.Add(1) }}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			info, _, err := s.Submit(t.Context(),
				solves.Input{Instance: haretest.Gangs(6, int64(i)), Options: hare.Options{WorkLimit: 300}})
			if err == nil {
				info, err = s.Wait(t.Context(), "", info.ID)
			}
			if err != nil || info.Status != solves.StatusSucceeded {
				t.Errorf("%+v %v", info, err)
			}
		})
	}
	for range 20 {
		svc.SetHooks(hooks)
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	before := writes.Load()
	if _, _, err := s.Submit(t.Context(),
		solves.Input{Instance: haretest.Gangs(6, 9), Options: hare.Options{WorkLimit: 1}}); err != nil ||
		writes.Load() <= before {
		t.Errorf("%d writes were seen, then %d: %v", before, writes.Load(), err)
	}
}
