package service_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// TestWhatIfCountsInQuota checks that a what-if never runs more solves at the same
// time than the quota of its tenant allows, and that it runs all of them.
func TestWhatIfCountsInQuota(t *testing.T) {
	for _, may := range []int{1, 2, 3, 9} {
		engine := &crowd{}
		svc := service.New(service.Config{Engine: engine, Running: 4})
		quotas := admission.NewQuotas(admission.Quota{Solves: may}, nil)
		release, err := quotas.Acquire("a") // the place of the call itself
		if err != nil {
			t.Fatal(err)
		}
		req := &whatifdoc.Request{}
		req.Base.Instance = haretest.Gangs(6, 1)
		for i := range 12 {
			req.Scenarios = append(req.Scenarios, whatifdoc.Scenario{ID: fmt.Sprint(i),
				Options: wire.Options{Seed: new(int64(i))}})
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

// crowd counts the solves that run at the same time.
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
