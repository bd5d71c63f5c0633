package solves_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/solver"
)

// An acknowledged solve waits in the queue for longer than its time limit and than the longest
// time of a solve, runs for the whole of its time, and is not refused for a long queue. A solve
// whose client waits for the answer is late meanwhile.
func TestAcknowledgedSolvesWaitInTheQueue(t *testing.T) {
	const limit = 60 * time.Millisecond
	ctx := t.Context()
	for _, restart := range []bool{false, true} {
		name := map[bool]string{false: "one server", true: "two servers"}[restart]
		t.Run(name, func(t *testing.T) {
			db := newMortal()
			open := func() *solves.Solves {
				return openSolves(t, solves.Config{Store: db, Service: service.New(service.Config{MaxTime: limit,
					Running: 1, Solver: solver.Config{Version: "test", Workers: 1}})})
			}
			s := open()
			over := make(chan struct{})
			busy := func() string {
				info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(2, 9), Run: uncancellable(over, nil),
					Options: hare.Options{TimeLimit: time.Hour}})
				if err != nil {
					t.Fatal(err)
				}
				return info.ID
			}
			first := busy()
			var ids []string
			for seed, opt := range []hare.Options{{WorkLimit: 20}, {}, {TimeLimit: limit}, {TimeLimit: time.Millisecond}} {
				opt.Seed = int64(seed)
				info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(4, 1), Options: opt})
				if err != nil || info.Status != solves.StatusQueued {
					t.Fatalf("%+v %v", info, err)
				}
				ids = append(ids, info.ID)
			}
			_, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(4, 1), Attached: true,
				Options: hare.Options{TimeLimit: time.Millisecond}})
			if !errors.Is(err, admission.ErrLate) {
				t.Errorf("a solve whose client waits: %v", err)
			}
			if restart {
				db.left.Store(0) // a crash
				close(over)
				_ = s.Close()
				db.left.Store(-1)
				over = make(chan struct{})
				s = open()
			}
			time.Sleep(2 * limit) // the time that may pass in the queue
			if restart {
				// It goes on with the solver, which would take its hour.
				if _, err := s.Cancel(ctx, "", first); err != nil {
					t.Fatal(err)
				}
			} else {
				for _, id := range ids {
					if info, err := s.Get(ctx, "", id); err != nil || info.Status != solves.StatusQueued {
						t.Fatalf("%+v %v", info, err)
					}
				}
				close(over)
			}
			for _, id := range ids {
				info, err := s.Wait(ctx, "", id)
				if err != nil || info.Status != solves.StatusSucceeded || info.Value == nil {
					t.Errorf("%+v %v", info, err)
				}
			}
		})
	}
}

// The time limit of an acknowledged solve begins when the solve begins to run.
func TestTimeLimitBeginsBehindTheQueue(t *testing.T) {
	const limit = time.Hour
	ctx := t.Context()
	s := openSolves(t, solves.Config{Service: service.New(service.Config{Running: 1})})
	over, left := make(chan struct{}), make(chan time.Duration, 1)
	run := func(_ context.Context, _ *hare.Instance, opt hare.Options, _ solver.Config) (*hare.Result, error) {
		left <- opt.TimeLimit
		return nil, errors.New("enough")
	}
	in := solves.Input{Instance: haretest.Gangs(2, 9), Run: uncancellable(over, nil)}
	if _, _, err := s.Submit(ctx, in); err != nil {
		t.Fatal(err)
	}
	info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(2, 9), Run: run,
		Options: hare.Options{TimeLimit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	const wait = 300 * time.Millisecond
	time.Sleep(wait)
	close(over)
	if _, err := s.Wait(ctx, "", info.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-left; got > limit || got <= limit-wait {
		t.Errorf("%v of %v are left after a wait of %v", got, limit, wait)
	}
}
