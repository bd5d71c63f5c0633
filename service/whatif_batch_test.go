package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

const wideBase = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":3}},{"name":"b","gpus":{"B":2}}]},"jobs":[
 {"id":"p","weight":3,"rounds":20,"tasks":3,"on":{"A":{"compute_s":1,"sync_s":0.5},"B":{"compute_s":2}}},
 {"id":"q","weight":1,"rounds":30,"tasks":2,"sync":"gang","on":{"A":{"compute_s":2,"sync_s":0.1},"B":{"compute_s":1}}},
 {"id":"r","weight":2,"release_s":4,"rounds":9,"tasks":2,"on":{"A":{"compute_s":3}}},
 {"id":"s","rounds":5,"tasks":2,"sync":"rigid","on":{"B":{"compute_s":4,"sync_s":1}}}]}}`

// twenty scenarios of all kinds.
func twenty() (out []string) {
	for i := range 4 {
		out = append(out,
			fmt.Sprintf(`{"add_gpus":{"type":"A","count":%d}}`, i+1),
			fmt.Sprintf(`{"drain":{"node":"a","at_s":%d}}`, 150+i),
			fmt.Sprintf(`{"scale_weights":%d}`, i+2),
			fmt.Sprintf(`{"patch":[{"op":"add","path":"/jobs/3/release_s","value":%d}]}`, i),
			fmt.Sprintf(`{"remove_jobs":[%q]}`, []string{"p", "q", "r", "s"}[i]))
	}
	return out
}

// The same lines, whatever runs at a time and on however many cores.
func TestWhatIfDoesNotDependOnConcurrency(t *testing.T) {
	var first []string
	for _, running := range []int{1, 3} {
		svc := service.New(service.Config{Running: running, Solver: solver.Config{Workers: running}})
		req := request(t, wideBase, twenty(), `,"options":{"work_limit":300},"prune":{"below_s":20},"ordered":true`)
		if err := svc.CheckWhatIf(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var lines []string
		err := svc.WhatIf(t.Context(), req, func(l *service.WhatIfLine) error {
			l.Timing = service.WhatIfTiming{}
			text, err := json.Marshal(l)
			lines = append(lines, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = lines
			if all := strings.Join(lines, "\n"); !strings.Contains(all, `"pruned":true`) || !strings.Contains(all, `"plan":"search"`) {
				t.Errorf("not of all kinds: %s", all)
			}
		} else if a, b := strings.Join(first, "\n"), strings.Join(lines, "\n"); a != b {
			t.Errorf("one at a time:\n%s\nthree:\n%s", a, b)
		}
	}
}

// Bounds and values are what the independent verifier says, and a scenario
// that only adds capacity costs no more than the base.
func TestWhatIfLinesHold(t *testing.T) {
	svc := service.New(service.Config{Running: 2})
	req := request(t, wideBase, twenty(), `,"options":{"work_limit":300}`)
	base, lines, summary := answers(t, svc, req)
	for i, l := range lines {
		if l.Value == nil || l.Bound == nil || l.Bound.Cmp(*l.Value) > 0 || l.Jobs == nil {
			t.Errorf("%d: %+v", i, l)
			continue
		}
		if i%5 == 0 && (l.ValueChange.Sign() > 0 || l.Plan == service.PlanBase && l.ValueChange.Sign() != 0) {
			t.Errorf("more GPUs cost more: %+v", l)
		}
		sum := l.Value.Sub(*base.Value)
		if sum.Cmp(*l.ValueChange) != 0 {
			t.Errorf("%d: change %v, not %v", i, l.ValueChange, sum)
		}
		// Jobs of both plans: with all of them listed, their changes add up.
		if i%5 != 4 {
			for _, j := range l.Jobs.ByWeightedChange {
				sum = sum.Sub(j.WeightedChange)
			}
			if sum.Sign() != 0 {
				t.Errorf("%d: changes of jobs miss %v of the value's", i, sum)
			}
		}
		// Where all weights change alike, so does the bound, but for rounding.
		if i%5 == 2 {
			factor := float64(i/5 + 2)
			if got := l.Bound.Float() / base.Bound.Float(); got < factor*(1-1e-6) {
				t.Errorf("weights times %g: bound times %g", factor, got)
			}
		}
	}
	if c := summary.Counts; c.Solved != 20 || c.Scenarios != 20 {
		t.Errorf("%+v", c)
	}
}

// Without a plan of the base nothing can be compared or pruned, but scenarios
// are solved all the same.
func TestWhatIfOfAnInfeasibleBase(t *testing.T) {
	const wide = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":1}}]},"jobs":[{"id":"x","tasks":2,"sync":"gang","on":{"A":{"compute_s":5}}}]}}`
	req := request(t, wide, []string{`{"add_gpus":{"type":"A","count":1}}`, `{"drain":{"node":"a","at_s":9}}`}, `,"prune":{"below_s":1000},"options":{"work_limit":50}`)
	base, lines, summary := answers(t, service.New(service.Config{}), req)
	if base.Value != nil || base.Termination != hare.TerminationInfeasible || len(base.Reasons) == 0 {
		t.Errorf("base %+v", base)
	}
	if l := lines[0]; l.Value == nil || l.Value.String() != "5" || l.ValueChange != nil || l.OptimumChange[0] != nil || l.OptimumChange[1] != nil {
		t.Errorf("with one more: %+v", l)
	}
	if l := lines[1]; l.Termination != hare.TerminationInfeasible || len(l.Reasons) == 0 || *l.Pruned || summary.Counts.Solved != 2 {
		t.Errorf("drained: %+v", l)
	}
}

// A deadline covers the batch: what is not solved in time is answered from the
// bounds.
func TestWhatIfDeadline(t *testing.T) {
	svc := service.New(service.Config{Running: 2})
	req := request(t, wideBase, twenty(), `,"options":{"time_limit_s":0.4,"gap":0}`)
	began := time.Now()
	_, lines, _ := answers(t, svc, req)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	for i, l := range lines {
		if l.Bound == nil || l.OptimumChange[0] == nil {
			t.Errorf("%d has no bound: %+v", i, l)
		}
	}
	req = request(t, wideBase, twenty()[:2], `,"options":{"time_limit_s":0.000001}`)
	_, lines, summary := answers(t, svc, req)
	if summary.Counts.Bounded != 2 || lines[0].Termination != hare.TerminationDeadline || lines[0].OptimumChange[1] == nil {
		t.Errorf("%+v %+v", summary.Counts, lines)
	}
}

// gate answers solves when it is opened, and counts.
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

func (g *gate) Verify(inst *hare.Instance, res *hare.Result) *verify.Report {
	return verify.Check(inst, res)
}

func named(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, fmt.Sprintf(`{"patch":[{"op":"add","path":"/name","value":%q}]}`, n))
	}
	return out
}

// A batch takes no more places than the service has, a call of another client
// gets its turn before the rest of the batch, and a defect fails its scenario
// alone.
func TestWhatIfSharesTheQueue(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	svc := service.New(service.Config{Engine: g, Running: 1, Queue: 1})
	req := request(t, wideBase, named("s0", "bad", "worse", "s3"), `,"options":{"work_limit":20}`)
	if err := svc.CheckWhatIf(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	other := *req.Base.Instance
	other.Name = "other"
	otherDone := make(chan error, 1)
	began := sync.Once{}
	var failed, solved int
	go func() { g.open <- struct{}{} }() // the base
	err := svc.WhatIf(t.Context(), req, func(l *service.WhatIfLine) error {
		if l.Err != nil {
			failed++
		} else if l.Index != nil {
			solved++
		}
		if l.Line == "base" {
			began.Do(func() {
				go func() {
					// While the first scenario runs, another client comes.
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

// When the caller goes, nothing runs on; when the answer cannot be given, it
// ends.
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
	req := request(t, wideBase, named("s0", "s1", "s2"), `,"options":{"work_limit":20}`)
	if err := svc.CheckWhatIf(ctx, req); err != nil {
		t.Fatal(err)
	}
	if err := svc.WhatIf(ctx, req, func(*service.WhatIfLine) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, running := svc.Load(); running != 0 {
		t.Errorf("%d run on", running)
	}
	close(g.open)
	full := errors.New("full")
	lines := 0
	req = request(t, wideBase, named("s0", "s1", "s2"), `,"options":{"work_limit":20}`)
	err := svc.WhatIf(t.Context(), req, func(*service.WhatIfLine) error {
		if lines++; lines == 2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || lines != 2 {
		t.Errorf("%d lines: %v", lines, err)
	}
	svc.Drain(t.Context())
	if err := svc.WhatIf(t.Context(), req, func(*service.WhatIfLine) error { return nil }); !errors.Is(err, admission.ErrDraining) {
		t.Errorf("draining: %v", err)
	}
}
