// Package service runs solves, bounds and checks for many callers at once: a
// bounded number at a time, a bounded queue before them, one deadline for
// waiting and working, and an orderly end. It knows nothing of HTTP.
package service

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Sentinels of refused work.
var (
	ErrBusy     = errors.New("service: the queue is full")
	ErrDraining = errors.New("service: shutting down")
)

// ErrInfeasible says that a job can never run, so that no finite bound exists.
var ErrInfeasible = solver.ErrInfeasible

// DefaultGap is the gap of solves that name none.
const DefaultGap = solver.DefaultGap

// Methods lists the methods of Bound.
func Methods() []string { return solver.Methods() }

// Config sizes a Service. The zero value is good.
type Config struct {
	Solver solver.Config
	// Running is how many solves run at a time; zero means one a core.
	Running int
	// Queue is how many more may wait; zero means 64.
	Queue int
	// MaxTime limits a solve that names no time limit; zero means 60 s.
	MaxTime time.Duration
}

// Service is safe for concurrent use.
type Service struct {
	cfg     Config
	slots   chan struct{}
	waiting atomic.Int64
	running atomic.Int64
	stop    context.CancelFunc // cancels what runs
	life    context.Context
	mu      sync.Mutex
	drain   bool
	active  sync.WaitGroup
}

// New makes a service.
func New(cfg Config) *Service {
	if cfg.Running <= 0 {
		cfg.Running = runtime.GOMAXPROCS(0)
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 64
	}
	if cfg.MaxTime <= 0 {
		cfg.MaxTime = time.Minute
	}
	life, stop := context.WithCancel(context.Background())
	return &Service{cfg: cfg, slots: make(chan struct{}, cfg.Running), life: life, stop: stop}
}

// Version is the version of Hare in results.
func (s *Service) Version() string { return s.cfg.Solver.Version }

// EngineVersion is that of the LP engine, "" without one.
func (s *Service) EngineVersion() string { return s.cfg.Solver.EngineVersion }

// Load is the number of calls that wait and that run.
func (s *Service) Load() (waiting, running int64) { return s.waiting.Load(), s.running.Load() }

// Ready says whether new work is taken.
func (s *Service) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.drain
}

// enter waits for a slot. The context that it returns ends with ctx, and with
// the service's patience at shutdown.
func (s *Service) enter(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	if s.drain {
		s.mu.Unlock()
		return nil, nil, ErrDraining
	}
	s.active.Add(1)
	s.mu.Unlock()
	if s.waiting.Add(1) > int64(s.cfg.Queue+s.cfg.Running) {
		s.waiting.Add(-1)
		s.active.Done()
		return nil, nil, ErrBusy
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		s.waiting.Add(-1)
		s.active.Done()
		return nil, nil, ctx.Err()
	}
	s.waiting.Add(-1)
	s.running.Add(1)
	work, cancel := context.WithCancel(ctx)
	off := context.AfterFunc(s.life, cancel)
	return work, func() {
		off()
		cancel()
		s.running.Add(-1)
		<-s.slots
		s.active.Done()
	}, nil
}

// Solve solves one instance. The time spent waiting counts against the limit.
func (s *Service) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	opt = solver.Defaults(opt)
	if err := solver.CheckOptions(opt); err != nil {
		return nil, err
	}
	asked := opt.TimeLimit
	began := time.Now()
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if asked > 0 {
		// What is left of the limit; an answer takes some time at the least.
		opt.TimeLimit = max(10*time.Millisecond, asked-time.Since(began))
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.MaxTime)
		defer cancel()
	}
	res, err := solver.Solve(ctx, inst, opt, s.cfg.Solver)
	if res != nil {
		res.Options.TimeLimit = asked
	}
	return res, err
}

// Bound computes one relaxation.
func (s *Service) Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.MaxTime)
	defer cancel()
	return solver.Bound(ctx, inst, method, s.cfg.Solver)
}

// Verify checks a result.
func (s *Service) Verify(ctx context.Context, inst *hare.Instance, res *hare.Result) (*verify.Report, error) {
	_, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return verify.Check(inst, res), nil
}

// Drain refuses new work, waits until ctx ends for what runs, and then cancels
// it, so that it answers with its best certified pair.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	s.drain = true
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
