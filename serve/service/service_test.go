package service_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an engine that answers after some time, or when its context ends.
type fake struct {
	takes  time.Duration
	limits []time.Duration
	mu     sync.Mutex
	most   atomic.Int64
	now    atomic.Int64
}

func (f *fake) Solve(ctx context.Context, _ *hare.Instance, opt hare.Options) (*hare.Result, error) {
	n := f.now.Add(1)
	defer f.now.Add(-1)
	for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
	}
	f.mu.Lock()
	f.limits = append(f.limits, opt.TimeLimit)
	f.mu.Unlock()
	res := &hare.Result{Termination: hare.TerminationOptimal, Options: opt}
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		res.Termination = hare.TerminationCancelled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			res.Termination = hare.TerminationDeadline
		}
	}
	return res, nil
}

func (f *fake) Bound(ctx context.Context, _ *hare.Instance, method string) (*hare.Relaxation, error) {
	select {
	case <-time.After(f.takes):
		return &hare.Relaxation{Method: method}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fake) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report {
	return &verify.Report{OK: true}
}

func TestOnlySoManyRunAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Second}
		s := service.New(service.Config{Engine: f, Running: 2, Queue: 3})
		var busy, done atomic.Int64
		for range 8 {
			go func() {
				switch _, err := s.Solve(t.Context(), nil, hare.Options{}); {
				case errors.Is(err, admission.ErrBusy):
					busy.Add(1)
				case err == nil:
					done.Add(1)
				}
			}()
		}
		synctest.Wait()
		if w, r := s.Load(); w != 3 || r != 2 || busy.Load() != 3 {
			t.Errorf("%d wait, %d run, %d sent away; want 3, 2, 3", w, r, busy.Load())
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if w, r := s.Load(); w != 0 || r != 0 || done.Load() != 5 || f.most.Load() != 2 {
			t.Errorf("%d wait, %d run, %d done, %d at once at most; want 0, 0, 5, 2", w, r, done.Load(), f.most.Load())
		}
	})
}

func TestNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service.New(service.Config{Engine: &fake{takes: time.Second}, Running: 1, Queue: -1})
		go func() { _, _ = s.Solve(t.Context(), nil, hare.Options{}) }()
		synctest.Wait()
		if _, err := s.Solve(t.Context(), nil, hare.Options{}); !errors.Is(err, admission.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := s.Solve(t.Context(), nil, hare.Options{}); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitingCountsAgainstTheLimit checks that one time limit covers the queue and
// the work.
func TestWaitingCountsAgainstTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 3 * time.Second}
		s := service.New(service.Config{Engine: f, Running: 1})
		go func() { _, _ = s.Solve(t.Context(), nil, hare.Options{}) }()
		synctest.Wait()
		began := time.Now()
		if _, err := s.Solve(t.Context(), nil, hare.Options{TimeLimit: 2 * time.Second}); !errors.Is(err,
			admission.ErrLate) {
			t.Errorf("%v, want ErrLate", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("sent away after %v, want 2 s", took)
		}
		res, err := s.Solve(t.Context(), nil, hare.Options{TimeLimit: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if left := f.limits[1]; left != 4*time.Second {
			t.Errorf("the solver got %v, want the 4 s that the queue left", left)
		}
		if res.Options.TimeLimit != 5*time.Second {
			t.Errorf("the result says %v, want the limit asked for", res.Options.TimeLimit)
		}
	})
}

func TestMaxTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Hour}
		s := service.New(service.Config{Engine: f, Running: 1, MaxTime: 3 * time.Second})
		res, err := s.Solve(t.Context(), nil, hare.Options{})
		if err != nil || res.Termination != hare.TerminationDeadline || f.limits[0] != 0 {
			t.Errorf("%v %v, limit %v: the clock must only guard", res, err, f.limits)
		}
		if _, err := s.Bound(t.Context(), nil, "price"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("bound: %v", err)
		}
	})
}

func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service.New(service.Config{Engine: &fake{takes: time.Minute}, Running: 1})
		ctx, cancel := context.WithCancel(t.Context())
		runs := make(chan *hare.Result, 1)
		waits := make(chan error, 1)
		go func() {
			res, _ := s.Solve(ctx, nil, hare.Options{})
			runs <- res
		}()
		synctest.Wait()
		go func() {
			_, err := s.Solve(ctx, nil, hare.Options{})
			waits <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that waited: %v", err)
		}
		if res := <-runs; res == nil || res.Termination != hare.TerminationCancelled {
			t.Errorf("the one that ran: %+v", res)
		}
		if w, r := s.Load(); w != 0 || r != 0 {
			t.Errorf("%d wait, %d run", w, r)
		}
	})
}

func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name         string
		takes, grace time.Duration
		first        string
		second       error
		took         time.Duration
	}{
		{"all finish", time.Second, time.Minute, hare.TerminationOptimal, nil, 2 * time.Second},
		{"grace ends", time.Hour, time.Second, hare.TerminationCancelled, admission.ErrDraining, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := service.New(service.Config{Engine: &fake{takes: c.takes}, Running: 1})
				runs := make(chan *hare.Result, 1)
				waits := make(chan error, 1)
				go func() {
					res, _ := s.Solve(t.Context(), nil, hare.Options{})
					runs <- res
				}()
				synctest.Wait()
				go func() {
					_, err := s.Solve(t.Context(), nil, hare.Options{})
					waits <- err
				}()
				synctest.Wait()
				began := time.Now()
				grace, cancel := context.WithTimeout(t.Context(), c.grace)
				defer cancel()
				s.Drain(grace)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if res := <-runs; res.Termination != c.first {
					t.Errorf("what ran ended as %q, want %q", res.Termination, c.first)
				}
				if err := <-waits; !errors.Is(err, c.second) {
					t.Errorf("what waited: %v, want %v", err, c.second)
				}
				if _, err := s.Solve(t.Context(), nil, hare.Options{}); !errors.Is(err, admission.ErrDraining) || s.Ready() {
					t.Errorf("after: %v, ready %t", err, s.Ready())
				}
			})
		})
	}
}

func TestOptionsAreCheckedBeforeTheQueue(t *testing.T) {
	s := service.New(service.Config{Engine: &fake{}})
	_, err := s.Solve(t.Context(), nil, hare.Options{Assign: "best"})
	var fault *hare.InvalidError
	if !errors.As(err, &fault) || fault.Pointer != "/options/assign" {
		t.Errorf("%v", err)
	}
}

// TestPanicFreesThePlace checks that a panic in the engine frees its place in the
// service.
func TestPanicFreesThePlace(t *testing.T) {
	s := service.New(service.Config{Engine: &panics{}, Running: 1, Queue: -1})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = s.Verify(t.Context(), nil, nil, nil, nil)
		}()
	}
	if w, r := s.Load(); w != 0 || r != 0 {
		t.Errorf("%d wait, %d run", w, r)
	}
}

type panics struct{ fake }

func (*panics) Verify(*hare.Instance, *hare.Result, *verify.Previous) *verify.Report { panic("defect") }

func ExampleService() {
	file, err := os.Open("../../testdata/examples/three-jobs.instance.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = file.Close() }()
	inst, err := wire.DecodeInstance(file, wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	res, err := s.Solve(context.Background(), inst, hare.Options{Seed: 1, WorkLimit: 5000})
	if err != nil {
		fmt.Println(err)
		return
	}
	rep, err := s.Verify(context.Background(), inst, res, nil, nil)
	fmt.Println(rep.OK, err, res.Value.Cmp(*res.Bound) >= 0)
	// Output: true <nil> true
}
