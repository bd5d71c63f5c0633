package service_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif"
)

// A solve that goes on after a restart holds its tenant's place again, and what
// is stored is counted as before.
func TestQuotasAfterARestart(t *testing.T) {
	store := newMortal()
	quotas := admission.NewQuotas(admission.Quota{Solves: 1}, nil)
	release, err := quotas.Acquire("a")
	if err != nil {
		t.Fatal(err)
	}
	s := openSolves(t, service.SolvesConfig{Store: store, Quotas: quotas, Checkpoint: 5 * time.Millisecond})
	info, _, err := s.Submit(t.Context(), service.SolveInput{Tenant: "a", Instance: jobsOn(40, 5), Options: hare.Options{TimeLimit: 20 * time.Second}, Release: release})
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range s.Events(t.Context(), "a", info.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == service.SolveCheckpoint {
			break
		}
	}
	if u := quotas.Usage("a"); u.Solves != 1 || u.StoredBytes == 0 {
		t.Errorf("%+v", u)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if u := quotas.Usage("a"); u.Solves != 0 {
		t.Errorf("left to the next start, it holds %+v", u)
	}
	quotas = admission.NewQuotas(admission.Quota{Solves: 1}, nil)
	s = openSolves(t, service.SolvesConfig{Store: store, Quotas: quotas})
	if u := quotas.Usage("a"); u.Solves != 1 || u.StoredBytes == 0 {
		t.Errorf("%+v", u)
	}
	if _, err := quotas.Acquire("a"); !errors.As(err, new(*admission.QuotaError)) {
		t.Error(err)
	}
	if _, err := s.Cancel(t.Context(), "a", info.ID); err != nil {
		t.Fatal(err)
	}
	if info, err = s.Wait(t.Context(), "a", info.ID); err != nil || !info.Finished() {
		t.Fatalf("%+v %v", info, err)
	}
	ended := quotas.Usage("a")
	if ended.Solves != 0 {
		t.Errorf("ended, it holds %+v", ended)
	}
	_ = s.Close()
	quotas = admission.NewQuotas(admission.Quota{}, nil)
	s = openSolves(t, service.SolvesConfig{Store: store, Quotas: quotas})
	if u := quotas.Usage("a"); u != ended {
		t.Errorf("%+v, before the restart %+v", u, ended)
	}
	if err := s.Delete(t.Context(), "a", info.ID); err != nil {
		t.Fatal(err)
	}
	if u := quotas.Usage("a"); u != (admission.Quota{}) {
		t.Errorf("deleted, it leaves %+v", u)
	}
}

// crowd counts the solves that run at a time.
type crowd struct {
	now, most atomic.Int32
}

func (c *crowd) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	time.Sleep(10 * time.Millisecond)
	opt.WorkLimit = 1
	return solver.Solve(ctx, inst, opt, solver.Config{Workers: 1})
}

func (*crowd) Bound(context.Context, *hare.Instance, string) (*hare.Relaxation, error) {
	return nil, errors.New("not asked for")
}

func (*crowd) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report {
	return &verify.Report{OK: true}
}

// A what-if solves no more at a time than its tenant may, and all in the end.
func TestWhatIfCountsInQuota(t *testing.T) {
	for _, may := range []int{1, 2, 3, 9} {
		engine := &crowd{}
		svc := service.New(service.Config{Engine: engine, Running: 4})
		quotas := admission.NewQuotas(admission.Quota{Solves: may}, nil)
		release, err := quotas.Acquire("a") // that of the call
		if err != nil {
			t.Fatal(err)
		}
		req := &whatif.Request{Options: hare.Options{Seed: 1}}
		req.Base.Instance = jobsOn(6, 1)
		for i := range 12 {
			req.Scenarios = append(req.Scenarios, whatif.Scenario{ID: fmt.Sprint(i), Options: hare.Options{Seed: int64(i)}})
		}
		if err := svc.CheckWhatIf(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		lines := 0
		ctx := whatif.WithQuota(t.Context(), func() (func(), error) { return quotas.Acquire("a") })
		if err := svc.WhatIf(ctx, req, func(l *whatif.Line) error {
			if lines++; l.Err != nil {
				t.Error(l.Err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if most := int(engine.most.Load()); most > min(may, 4) || lines != 14 {
			t.Errorf("%d at a time where %d may be, %d lines", most, may, lines)
		}
		release()
		if u := quotas.Usage("a"); u.Solves != 0 {
			t.Errorf("%+v is left", u)
		}
	}
}
