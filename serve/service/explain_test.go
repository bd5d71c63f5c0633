package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
)

// TestServiceExplains checks that an explanation has one deadline, and that each of
// its computations waits in the queue.
func TestServiceExplains(t *testing.T) {
	inst := haretest.Gangs(4, 3)
	const second = 1_000_000
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 1, Queue: -1})
	res, err := svc.Solve(t.Context(), inst, hare.Options{WorkLimit: 500})
	if err != nil {
		t.Fatal(err)
	}
	x, err := svc.Explain(t.Context(), inst, res, explain.Request{Job: inst.Jobs[0].ID, EarlierUs: second}, time.Minute)
	if err != nil || !x.Earlier.Finished || x.Earlier.Solves < 3 {
		t.Fatalf("%+v, %v", x, err)
	}
	if waiting, running := svc.Load(); waiting != 0 || running != 0 {
		t.Errorf("%d wait and %d run behind it", waiting, running)
	}
	x, err = svc.Explain(t.Context(), inst, res, explain.Request{Job: inst.Jobs[0].ID, EarlierUs: second},
		time.Nanosecond)
	if err != nil || x.Earlier.Finished {
		t.Errorf("%+v, %v", x, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := svc.Explain(ctx, inst, res, explain.Request{Job: inst.Jobs[0].ID, EarlierUs: second}, 0); err == nil {
		t.Error("explained to nobody")
	}
	svc.Drain(t.Context())
	if _, err := svc.Explain(t.Context(), inst, res, explain.Request{Job: inst.Jobs[0].ID},
		0); err != admission.ErrDraining {
		t.Errorf("%v", err)
	}
}
