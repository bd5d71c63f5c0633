package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// batchOf returns a request for a what-if of these scenarios, as a client would
// send it.
func batchOf(t testing.TB, scenarios []string, rest string) *whatifdoc.Request {
	t.Helper()
	text := `{"base":{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":3}},{"name":"b",` +
		`"gpus":{"B":2}}]},"jobs":[
 {"id":"p","weight":3,"rounds":20,"tasks":3,"on":{"A":{"compute_s":1,"sync_s":0.5},"B":{"compute_s":2}}},
 {"id":"q","weight":1,"rounds":30,"tasks":2,"sync":"gang","on":{"A":{"compute_s":2,"sync_s":0.1},"B":{"compute_s":1}}},
 {"id":"r","weight":2,"release_s":4,"rounds":9,"tasks":2,"on":{"A":{"compute_s":3}}},
 {"id":"s","rounds":5,"tasks":2,"sync":"rigid","on":{"B":{"compute_s":4,"sync_s":1}}}]}},` +
		`"scenarios":[` + strings.Join(scenarios, ",") + `]` + rest + `}`
	req, err := whatifdoc.Decode(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// gate is an engine that counts solves and answers them when the test opens it.
type gate struct {
	open       chan struct{}
	now, most  atomic.Int64
	mu         sync.Mutex
	order      []string
	certifying solver.Config
}

func (g *gate) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	g.mu.Lock()
	g.order = append(g.order, inst.Name)
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch inst.Name {
	case "bad":
		return nil, errors.New("a defect")
	case "worse":
		panic("a defect")
	}
	return solver.Solve(ctx, inst, opt, g.certifying)
}

func (g *gate) Bound(context.Context, *hare.Instance, string) (*hare.Relaxation, error) {
	return nil, errors.New("not asked for")
}

func (g *gate) Verify(inst *hare.Instance, res *hare.Result, _ *verify.Previous) *verify.Report {
	return verify.Check(inst, res)
}

func named(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, fmt.Sprintf(`{"patch":[{"op":"add","path":"/name","value":%q}]}`, n))
	}
	return out
}

// TestWhatIfSharesTheQueue checks that a batch occupies no more places than the
// service has, that a call of another client runs before the rest of the batch, and
// that a panic fails only its own scenario.
func TestWhatIfSharesTheQueue(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	svc := service.New(service.Config{Engine: g, Running: 1, Queue: 1})
	req := batchOf(t, named("s0", "bad", "worse", "s3"), `,"options":{"work_limit":20}`)
	if err := svc.CheckWhatIf(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	other := *req.Base.Instance
	other.Name = "other"
	otherDone := make(chan error, 1)
	began := sync.Once{}
	var failed, solved int
	go func() { g.open <- struct{}{} }() // lets the base end
	err := svc.WhatIf(t.Context(), req, func(l *whatif.Line) error {
		if l.Err != nil {
			failed++
		} else if l.Index != nil {
			solved++
		}
		if l.Line == "base" {
			began.Do(func() {
				go func() {
					// Another client calls while the first scenario runs.
					for g.now.Load() == 0 {
						time.Sleep(time.Millisecond)
					}
					go func() {
						_, err := svc.Solve(context.Background(), &other, hare.Options{Seed: 1, WorkLimit: 20})
						otherDone <- err
					}()
					for waiting := int64(0); waiting == 0; waiting, _ = svc.Load() {
						time.Sleep(time.Millisecond)
					}
					close(g.open)
				}()
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-otherDone; err != nil {
		t.Errorf("the other client: %v", err)
	}
	if failed != 2 || solved != 2 || g.most.Load() != 1 {
		t.Errorf("%d failed, %d solved, %d at a time", failed, solved, g.most.Load())
	}
	if got := strings.Join(g.order, " "); got != " s0 other bad worse s3" {
		t.Errorf("order: %s", got)
	}
}

// TestWhatIfEndsWithItsCaller checks that no solve continues after the caller has
// left, or after an answer could not be delivered.
func TestWhatIfEndsWithItsCaller(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	svc := service.New(service.Config{Engine: g, Running: 2})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		g.open <- struct{}{}
		for g.now.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	req := batchOf(t, named("s0", "s1", "s2"), `,"options":{"work_limit":20}`)
	if err := svc.CheckWhatIf(ctx, req); err != nil {
		t.Fatal(err)
	}
	if err := svc.WhatIf(ctx, req, func(*whatif.Line) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, running := svc.Load(); running != 0 {
		t.Errorf("%d run on", running)
	}
	close(g.open)
	full := errors.New("full")
	lines := 0
	req = batchOf(t, named("s0", "s1", "s2"), `,"options":{"work_limit":20}`)
	err := svc.WhatIf(t.Context(), req, func(*whatif.Line) error {
		if lines++; lines == 2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || lines != 2 {
		t.Errorf("%d lines: %v", lines, err)
	}
	svc.Drain(t.Context())
	if err := svc.WhatIf(t.Context(), req, func(*whatif.Line) error { return nil }); !errors.Is(err,
		admission.ErrDraining) {
		t.Errorf("draining: %v", err)
	}
}
