// Package service runs solves, bounds and checks for many callers at once: a
// bounded number at a time, a bounded queue before them, one deadline for
// waiting and working, and an orderly end. It knows nothing of HTTP.
package service

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// ErrInfeasible says that a job can never run, so that no finite bound exists.
var ErrInfeasible = solver.ErrInfeasible

// DefaultGap is the gap of solves that name none.
const DefaultGap = solver.DefaultGap

// Methods lists the methods of Bound.
func Methods() []string { return solver.Methods() }

// Engine does the work that a Service admits.
type Engine interface {
	Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error)
	Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error)
	Verify(inst *hare.Instance, res *hare.Result, prev *verify.Previous) *verify.Report
}

// Config sizes a Service. The zero value is good.
type Config struct {
	Solver solver.Config
	// Engine does the work; nil means package solver, configured by Solver.
	Engine Engine
	// Running is how many calls run at a time; zero means one a core.
	Running int
	// Queue is how many more may wait; zero means 64, less means none.
	Queue int
	// MaxTime limits a solve that names no time limit, and every bound; zero
	// means 60 s.
	MaxTime time.Duration
}

// Service is safe for concurrent use.
type Service struct {
	cfg   Config
	queue *admission.Queue
	costs *admission.Costs
	// plainCosts is of solves by the plain rules, which take far less.
	plainCosts *admission.Costs
	// playCosts and programCosts are of simulations, without and with linear
	// programs.
	playCosts, programCosts *admission.Costs
	life                    context.Context // ends when what runs must end
	stop                    context.CancelFunc
	mu                      sync.Mutex    // guards drain against active
	drain                   chan struct{} // closed when no new work is taken
	active                  sync.WaitGroup
	hooks                   atomic.Pointer[Hooks]
}

// New makes a service.
func New(cfg Config) *Service {
	if cfg.Running <= 0 {
		cfg.Running = runtime.GOMAXPROCS(0)
	}
	if cfg.Queue == 0 {
		cfg.Queue = 64
	}
	if cfg.MaxTime <= 0 {
		cfg.MaxTime = time.Minute
	}
	if cfg.Engine == nil {
		cfg.Engine = solverEngine{cfg.Solver}
	}
	life, stop := context.WithCancel(context.Background())
	return &Service{cfg: cfg, queue: admission.NewQueue(cfg.Running, cfg.Queue), costs: admission.NewCosts(),
		plainCosts: admission.NewCosts(),
		playCosts:  admission.NewCostsAt(playBegin), programCosts: admission.NewCostsAt(programBegin), life: life, stop: stop,
		drain: make(chan struct{})}
}

// Version is the version of Hare in results.
func (s *Service) Version() string { return s.cfg.Solver.Version }

// EngineVersion is that of the LP engine, "" without one.
func (s *Service) EngineVersion() string { return s.cfg.Solver.EngineVersion }

// Load is the number of calls that wait and that run.
func (s *Service) Load() (waiting, running int64) {
	w, r := s.queue.Load()
	return int64(w), int64(r)
}

// Capacity is how many calls may run and wait together.
func (s *Service) Capacity() int { return s.cfg.Running + max(0, s.cfg.Queue) }

// Ready says whether new work is taken.
func (s *Service) Ready() bool {
	select {
	case <-s.drain:
		return false
	default:
		return true
	}
}

// enter waits for a place, the earliest deadline first, no longer than until
// deadline. The context that it returns ends with ctx, and with the service's
// patience at shutdown, of which its cause is admission.ErrDraining; leave gives the
// place back.
func (s *Service) enter(ctx context.Context, deadline time.Time) (work context.Context, leave func(), err error) {
	a := admission.Call{Deadline: deadline}
	if err := s.admit(a); err != nil {
		return nil, nil, err
	}
	return s.Await(ctx, s.queue.Enqueue(a), nil)
}

// admit counts a call among those that Drain waits for and that the queue
// holds; Await ends that, or Quit.
func (s *Service) admit(a admission.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Ready() {
		return admission.ErrDraining
	}
	if err := s.queue.Admit(a); err != nil {
		return err
	}
	s.active.Add(1)
	return nil
}

// Quit ends a call that was admitted and did not line up.
func (s *Service) Quit(a admission.Call) {
	s.queue.Cancel(a.Cost)
	s.active.Done()
}

// Await waits for the place of a call that has lined up, as enter says, and
// with admission.ErrDraining no longer than until quit is closed.
func (s *Service) Await(ctx context.Context, t *admission.Ticket, quit <-chan struct{}) (work context.Context,
	leave func(), err error) {
	out := func() {
		t.Release()
		s.active.Done()
	}
	began := time.Now()
	err = s.wait(ctx, t, quit)
	s.watching().waited(ctx, began, err)
	if err != nil {
		out()
		return nil, nil, err
	}
	work, cancel := context.WithCancelCause(ctx)
	off := context.AfterFunc(s.life, func() { cancel(admission.ErrDraining) })
	return work, func() {
		off()
		cancel(nil)
		out()
	}, nil
}

func (s *Service) wait(ctx context.Context, t *admission.Ticket, quit <-chan struct{}) error {
	select {
	case <-t.Granted():
		return nil
	default:
	}
	late := time.NewTimer(time.Until(t.Deadline()))
	defer late.Stop()
	select {
	case <-t.Granted():
		return nil
	case <-late.C:
		return admission.ErrLate
	case <-s.life.Done():
		return admission.ErrDraining
	case <-quit:
		return admission.ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Solve solves one instance. Its time limit runs from here on, so that waiting
// counts; when ctx ends, the answer is the best certified pair so far.
func (s *Service) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	return s.limited(ctx, inst, opt, func(ctx context.Context, opt hare.Options) (*hare.Result, error) {
		return s.cfg.Engine.Solve(ctx, inst, opt)
	})
}

// limited runs a solve for inst when there is a place for it, within its time.
func (s *Service) limited(ctx context.Context, inst *hare.Instance, opt hare.Options,
	run func(context.Context, hare.Options) (*hare.Result, error)) (res *hare.Result, err error) {
	opt = solver.Defaults(opt)
	if err := solver.CheckOptions(opt); err != nil {
		return nil, err
	}
	asked := opt.TimeLimit
	limit := asked
	if limit == 0 {
		limit = s.cfg.MaxTime
	}
	deadline := time.Now().Add(limit)
	granted, a, err := s.AdmitSolve(inst, opt, deadline)
	if err != nil {
		return nil, err
	}
	opt = granted
	ctx, leave, err := s.Await(ctx, s.queue.Enqueue(a), nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	if asked > 0 {
		opt.TimeLimit = max(admission.LeastTime, time.Until(deadline))
	} else {
		// A work limit decides then; the clock only guards.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	began := time.Now()
	ctx, ended := s.watching().solving(ctx, inst, opt)
	defer func() { ended(res, err) }()
	res, err = run(ctx, opt)
	s.Learn(inst, opt, a, res, time.Since(began))
	if res != nil {
		res.Options.TimeLimit, res.Degraded = asked, a.Degraded
	}
	return res, err
}

// Bound computes one relaxation.
func (s *Service) Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
	deadline := time.Now().Add(s.cfg.MaxTime)
	ctx, leave, err := s.enter(ctx, deadline)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return s.cfg.Engine.Bound(ctx, inst, method)
}

// Verify checks a result. A plan for the rest of an earlier one went on from
// previous, a result for before; both may be nil, as verify.Previous says. A
// check that has begun runs to its end.
func (s *Service) Verify(ctx context.Context, inst *hare.Instance, res, previous *hare.Result,
	before *hare.Instance) (*verify.Report, error) {
	_, leave, err := s.enter(ctx, time.Now().Add(s.cfg.MaxTime))
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.cfg.Engine.Verify(inst, res, &verify.Previous{Result: previous, Instance: before}), nil
}

// Drain refuses new work, waits until ctx ends for what was admitted, and then
// sends the queue away and cancels what runs, so that it answers with its best
// certified pair. It returns when nothing is left.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	if s.Ready() {
		close(s.drain)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.active.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.stop()
		<-done
	}
	s.stop()
}

// Ended is closed when what still runs must end: after Drain's patience.
func (s *Service) Ended() <-chan struct{} { return s.life.Done() }

// solverEngine is package solver behind Engine.
type solverEngine struct{ cfg solver.Config }

var _ Engine = solverEngine{}

func (e solverEngine) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	cfg := e.cfg
	cfg.Progress = both(cfg.Progress, progressOf(ctx))
	return solver.Solve(ctx, inst, opt, cfg)
}

func (e solverEngine) Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
	switch method {
	case hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine:
	default:
		if e.cfg.LP == nil {
			return nil, &hare.InvalidError{Pointer: "/method", Code: "no_lp_engine", Detail: method +
				" needs the LP engine (HiGHS), which is not running: take another method, or see hare doctor"}
		}
	}
	return solver.Bound(ctx, inst, method, e.cfg)
}

func (solverEngine) Verify(inst *hare.Instance, res *hare.Result, prev *verify.Previous) *verify.Report {
	return verify.CheckReplan(inst, res, prev)
}
