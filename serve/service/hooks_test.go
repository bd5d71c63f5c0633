package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
)

// TestHooksFollowASolve checks that the hooks report a solve from its wait to its
// end, with its phases in order.
func TestHooksFollowASolve(t *testing.T) {
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	var seen []string
	svc.SetHooks(service.Hooks{
		Waited: func(_ context.Context, _ time.Time, err error) {
			seen = append(seen, "waited")
			if err != nil {
				t.Error(err)
			}
		},
		Solving: func(ctx context.Context, inst *hare.Instance, _ hare.Options) (context.Context, func(solver.Event),
			func(*hare.Result, error)) {
			seen = append(seen, service.SolveID(ctx))
			progress := func(e solver.Event) {
				if len(seen) == 0 || seen[len(seen)-1] != e.Phase {
					seen = append(seen, e.Phase)
				}
			}
			return ctx, progress, func(res *hare.Result, err error) {
				if res == nil || err != nil || len(inst.Jobs) == 0 {
					t.Error(res, err)
				}
				seen = append(seen, "ended")
			}
		},
	})
	events := 0
	ctx := service.WithProgress(service.WithSolveID(t.Context(), "s-1"), func(solver.Event) { events++ })
	if _, err := svc.Solve(ctx, oneJob(t),
		hare.Options{Seed: 1, WorkLimit: 100, Bound: "machine", Order: "wspt"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"waited", "s-1", solver.PhaseAssign, solver.PhaseBound, solver.PhaseAssign, solver.PhaseVerify,
		"ended"}
	if !slices.Equal(slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s == solver.PhaseImprove }),
		want) {
		t.Errorf("%q, not %q", seen, want)
	}
	if events < 4 {
		t.Errorf("the caller saw %d events", events)
	}
}

// TestHooksSeeFailures checks that a failed wait is reported with its reason, and
// that a solve that panics is reported as ended.
func TestHooksSeeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := service.New(service.Config{Engine: &fake{takes: time.Minute}, Running: 1})
		var late, all int
		svc.SetHooks(service.Hooks{Waited: func(_ context.Context, began time.Time, err error) {
			all++
			if errors.Is(err, admission.ErrLate) && time.Since(began) == time.Second {
				late++
			}
		}})
		go func() { _, _ = svc.Solve(context.Background(), oneJob(t), hare.Options{}) }()
		synctest.Wait()
		if _, err := svc.Solve(t.Context(), oneJob(t), hare.Options{TimeLimit: time.Second}); !errors.Is(err,
			admission.ErrLate) {
			t.Error(err)
		}
		svc.Drain(context.Background())
		if late != 1 || all != 2 {
			t.Errorf("%d late of %d", late, all)
		}
	})
	ended := false
	svc := service.New(service.Config{Engine: &solvePanics{}})
	svc.SetHooks(service.Hooks{Solving: func(ctx context.Context, _ *hare.Instance, _ hare.Options) (context.Context,
		func(solver.Event), func(*hare.Result, error)) {
		return ctx, nil, func(res *hare.Result, err error) { ended = res == nil && err == nil }
	}})
	func() {
		defer func() { _ = recover() }()
		_, _ = svc.Solve(t.Context(), oneJob(t), hare.Options{})
	}()
	if !ended {
		t.Error("the end of a solve that panics is not seen")
	}
}

type solvePanics struct{ panics }

func (*solvePanics) Solve(context.Context, *hare.Instance, hare.Options) (*hare.Result, error) {
	panic("defect")
}

func oneJob(t *testing.T) *hare.Instance {
	t.Helper()
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
		Jobs: []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 3, Tasks: 2,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}},
	}
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	return inst
}
