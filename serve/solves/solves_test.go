package solves_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

func openSolves(t testing.TB, cfg solves.Config) *solves.Solves {
	t.Helper()
	if cfg.Service == nil {
		cfg.Service = service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 2})
	}
	if cfg.Store == nil {
		cfg.Store = store.NewMemorySolves()
	}
	s, err := solves.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSolveFromSubmissionToDeletion(t *testing.T) {
	ctx := t.Context()
	s := openSolves(t, solves.Config{})
	inst := haretest.Gangs(10, 1)
	info, replayed, err := s.Submit(ctx,
		solves.Input{Instance: inst, Options: hare.Options{Seed: 1, WorkLimit: 1}, Tenant: "a"})
	if err != nil || replayed || info.ID == "" || info.Jobs != 10 || info.GPUs != 4 || info.Events < 1 {
		t.Fatalf("%+v %t %v", info, replayed, err)
	}
	id := info.ID
	info, err = s.Wait(ctx, "a", id)
	if err != nil || info.Status != solves.StatusSucceeded || info.Value == nil || info.Bound == nil ||
		info.ResultBytes == 0 || info.Ended.Before(info.Started) {
		t.Fatalf("%+v %v", info, err)
	}
	res, err := s.Result(ctx, "a", id)
	if err != nil || res.Value.Cmp(*info.Value) != 0 {
		t.Fatal(res, err)
	}
	want, err := solver.Solve(ctx, inst, hare.Options{Seed: 1, WorkLimit: 1},
		solver.Config{Version: "test", Workers: 1})
	if err != nil || want.Value.Cmp(*res.Value) != 0 || want.Bound.Cmp(*res.Bound) != 0 || !res.Reproducible {
		t.Errorf("value %v, bound %v; on its own %v, %v, %v", res.Value, res.Bound, want.Value, want.Bound, err)
	}
	r, size, err := s.ResultBytes(ctx, "a", id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || int64(len(text)) != size || size != info.ResultBytes {
		t.Errorf("%d bytes of %d: %v", len(text), size, err)
	}
	if got, err := s.Instance(ctx, "a", id); err != nil || wire.SHA256(got) != wire.SHA256(inst) {
		t.Error(err)
	}
	seq, last := int64(0), ""
	var at int64
	for ev, err := range s.Events(ctx, "a", id, 0) {
		if err != nil || ev.Seq != seq+1 || ev.AtUs < at {
			t.Fatalf("%+v behind %d: %v", ev, seq, err)
		}
		seq, last, at = ev.Seq, ev.Type, ev.AtUs
	}
	if last != solves.EventDone || seq != info.Events {
		t.Errorf("%d events, the last %q; the solve says %d", seq, last, info.Events)
	}
	for _, tenant := range []string{"", "b"} {
		_, err1 := s.Get(ctx, tenant, id)
		_, err2 := s.Result(ctx, tenant, id)
		_, err3 := s.Cancel(ctx, tenant, id)
		if err4 := s.Delete(ctx, tenant, id); !errors.Is(err1, solves.ErrNoSolve) ||
			!errors.Is(err2, solves.ErrNoSolve) || !errors.Is(err3, solves.ErrNoSolve) ||
			!errors.Is(err4, solves.ErrNoSolve) {
			t.Error(tenant, err1, err2, err3, err4)
		}
		if all, _, _ := s.List(ctx, tenant, solves.Filter{}); len(all) != 0 {
			t.Error(all)
		}
	}
	if all, next, err := s.List(ctx, "a", solves.Filter{Status: solves.StatusSucceeded}); len(all) != 1 ||
		next != "" || err != nil {
		t.Error(all, next, err)
	}
	if err := s.Delete(ctx, "a", id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "a", id); !errors.Is(err, solves.ErrGone) {
		t.Error(err)
	}
}

func TestSolveIsCancelledWithItsBestPair(t *testing.T) {
	ctx := t.Context()
	s := openSolves(t, solves.Config{})
	info, _, err := s.Submit(ctx, solves.Input{Instance: haretest.Gangs(60, 2),
		Options: hare.Options{Seed: 1, TimeLimit: 20 * time.Second, Bound: hare.MethodMachine}}) // a bound at once
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Result(ctx, "", info.ID); !errors.Is(err, solves.ErrNoResult) {
		t.Error(err)
	}
	if err := s.Delete(ctx, "", info.ID); !errors.Is(err, solves.ErrRunning) {
		t.Error(err)
	}
	for ev, err := range s.Events(ctx, "", info.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == solves.EventPhase && ev.Phase == solver.PhaseImprove {
			break
		}
	}
	if _, err := s.Cancel(ctx, "", info.ID); err != nil {
		t.Fatal(err)
	}
	info, err = s.Wait(ctx, "", info.ID)
	if err != nil || info.Status != solves.StatusCancelled || info.Value == nil || info.Bound == nil {
		t.Errorf("%+v %v", info, err)
	}
}

// hugeRun returns at once, with a result of about this many bytes.
func hugeRun(bytes int) service.RunFunc {
	return func(_ context.Context, inst *hare.Instance, opt hare.Options, _ solver.Config) (*hare.Result, error) {
		return &hare.Result{InstanceSHA256: wire.SHA256(inst), Version: "test", Status: hare.StatusSucceeded,
			Termination: hare.TerminationInfeasible, Objective: hare.ObjectiveWeightedJCT,
			Options: opt, Reasons: []hare.Reason{{Code: "long", Detail: strings.Repeat("x", bytes)}}}, nil
	}
}
