package solves_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// earlierPlan is a result for haretest.Gangs(40, 5) and a request for its rest.
func earlierPlan(t *testing.T, stability int64) (*hare.Instance, *hare.ReplanRequest) {
	t.Helper()
	inst := haretest.Gangs(40, 5)
	res, err := solver.Solve(t.Context(), inst, hare.Options{Seed: 1, WorkLimit: 20}, solver.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return inst, &hare.ReplanRequest{Previous: res, AtUs: 5_000_000, HasAt: true, StabilityMicro: stability}
}

// A replan that is interrupted in any way still gives a plan for the rest, which lists
// its moves and verifies against the whole instance.
func TestStoredReplans(t *testing.T) {
	for _, stability := range []int64{0, 500_000} {
		inst, req := earlierPlan(t, stability)
		check := func(what string, s *solves.Solves, id string) *hare.Result {
			t.Helper()
			res, err := s.Result(t.Context(), "", id)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if res.Replan == nil || res.Replan.Rest == nil || res.Replan.Whole == nil ||
				res.Replan.StabilityMicro != stability {
				t.Fatalf("%s: %+v", what, res.Replan)
			}
			if rep := verify.CheckReplan(inst, res, nil); !rep.OK {
				t.Errorf("%s: %s", what, rep)
			}
			return res
		}
		in := solves.Input{Instance: inst, Replan: req, Options: hare.Options{Seed: 1, WorkLimit: 300}}
		want, err := solver.Replan(t.Context(), inst, *req, in.Options, solver.Config{Version: "test", Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := openSolves(t, solves.Config{Checkpoint: time.Millisecond})
		info, _, err := s.Submit(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(t.Context(), "", info.ID); err != nil {
			t.Fatal(err)
		}
		// The checkpoint does not change the result.
		if got := check("to the end", s, info.ID); untimed(t, got) != untimed(t, want) {
			t.Errorf("stored, it is another plan:\n%.300s\n%.300s", untimed(t, got), untimed(t, want))
		}
		// A cancelled solve, and one without time left at a restart, end with a pair.
		store := newMortal()
		in.Options = hare.Options{Seed: 1, TimeLimit: 20 * time.Second}
		was := saveOne(t, store, in)
		s = openSolves(t, solves.Config{Store: store})
		saved := check("saved", s, was.ID)
		if _, err = s.Cancel(t.Context(), "", was.ID); err != nil {
			t.Fatal(err)
		}
		if info, err = s.Wait(t.Context(), "", was.ID); err != nil || !info.Resumed ||
			info.Status != solves.StatusCancelled || info.Error != "" {
			t.Fatalf("%+v %v", info, err)
		}
		if res := check("cancelled", s, was.ID); res.Value.Cmp(*saved.Value) > 0 || res.Bound.Cmp(*saved.Bound) < 0 {
			t.Errorf("%v %v after %v %v", res.Value, res.Bound, saved.Value, saved.Bound)
		}
		_ = s.Close()
		// A solve with a work limit gives the same plan after a restart.
		store = newMortal()
		in.Options = hare.Options{Seed: 1, WorkLimit: 300_000}
		was = saveOne(t, store, in)
		s = openSolves(t, solves.Config{Store: store})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		go func() {
			time.Sleep(50 * time.Millisecond)
			_, _ = s.Cancel(ctx, "", was.ID)
		}()
		if info, err = s.Wait(ctx, "", was.ID); err != nil || !info.Resumed || !info.Finished() ||
			strings.Contains(info.Error, "cannot go on") {
			t.Fatalf("%+v %v", info, err)
		}
		check("gone on", s, was.ID)
	}
}

// A stored request is equal to the submitted one, also where a client leaves out optional
// parts.
func TestReplanOfABareSchedule(t *testing.T) {
	inst, req := earlierPlan(t, 0)
	req.Previous = &hare.Result{Schedule: req.Previous.Schedule}
	req.Before = inst
	store := newMortal()
	was := saveOne(t, store, solves.Input{Instance: inst, Replan: req,
		Options: hare.Options{Seed: 1, TimeLimit: time.Second}})
	s := openSolves(t, solves.Config{Store: store})
	info, err := s.Wait(t.Context(), "", was.ID)
	if err != nil || info.Status != solves.StatusSucceeded || !info.Resumed {
		t.Errorf("%+v %v", info, err)
	}
}
