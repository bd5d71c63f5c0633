// Package service runs solves, bounds and checks for concurrent callers: a bounded
// number at a time, a bounded queue for the others, one deadline for waiting and
// working, and a graceful shutdown. It does not know about HTTP.
//
// service.go has the queue; above it are admission and the run of a solve that has its slot, and then the calls.
package service

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Config configures a Service. The zero value works.
type Config struct {
	Solver solver.Config
	// Engine does the work; nil means package solver, configured by Solver.
	Engine Engine
	// Running is how many calls run at a time; zero means GOMAXPROCS.
	Running int
	// Queue is how many more calls may wait; zero means 64, a negative number means
	// none.
	Queue int
	// MaxTime limits solves without a time limit of their own, and all bounds; zero
	// means 60 s.
	MaxTime time.Duration
}

// Service runs calls in the slots of a queue. It is safe for concurrent use.
type Service struct {
	cfg   Config
	queue *admission.Queue
	costs *admission.Costs
	// greedyCosts predicts solves by simple rules, which run far shorter.
	greedyCosts *admission.Costs
	// simCosts and simLPCosts predict simulations without and with policies that solve
	// linear programs.
	simCosts, simLPCosts *admission.Costs
	capacityCosts        *admission.Costs // of plans of capacity
	life                 context.Context  // ends when running calls must end
	stop                 context.CancelFunc
	mu                   sync.Mutex    // makes Ready and active.Add one step
	drain                chan struct{} // closed when no new work is admitted
	active               sync.WaitGroup
	hooks                atomic.Pointer[Hooks]
}

// New returns a Service.
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
	life, stop := context.WithCancel(context.Background())
	return &Service{cfg: cfg, queue: admission.NewQueue(cfg.Running, cfg.Queue), costs: admission.NewCosts(),
		greedyCosts: admission.NewCosts(),
		simCosts:    admission.NewCostsAt(simIntercept), simLPCosts: admission.NewCostsAt(simLPIntercept),
		capacityCosts: admission.NewCostsAt(simLPIntercept),
		life:          life, stop: stop,
		drain: make(chan struct{})}
}

// Version returns the version of Hare that results name.
func (s *Service) Version() string { return s.cfg.Solver.Version }

// EngineVersion returns the version of the LP engine; "" where there is none.
func (s *Service) EngineVersion() string { return s.cfg.Solver.EngineVersion }

// Load returns how many calls wait and how many run.
func (s *Service) Load() (waiting, running int64) {
	w, r := s.queue.Load()
	return int64(w), int64(r)
}

// Capacity returns how many calls may run and wait together.
func (s *Service) Capacity() int { return s.cfg.Running + max(0, s.cfg.Queue) }

// Ready reports whether new work is admitted.
func (s *Service) Ready() bool {
	select {
	case <-s.drain:
		return false
	default:
		return true
	}
}

// acquire waits for a slot, at most until deadline; waiting calls get slots by earliest
// deadline. The returned context ends with ctx, and with cause admission.ErrDraining
// when Drain stops waiting; release frees the slot.
func (s *Service) acquire(ctx context.Context, deadline time.Time) (work context.Context, release func(), err error) {
	a := admission.Call{Deadline: deadline}
	if err := s.admit(a); err != nil {
		return nil, nil, err
	}
	return s.Await(ctx, s.queue.Enqueue(a), nil)
}

// admit admits a call to the queue and counts it among the calls that Drain waits for,
// until Await's release or Quit.
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

// Quit ends a call that was admitted but not enqueued.
func (s *Service) Quit(a admission.Call) {
	s.queue.Cancel(a.Cost)
	s.active.Done()
}

// Await waits for the slot of an enqueued call, as acquire does. It fails with
// admission.ErrDraining when quit is closed.
func (s *Service) Await(ctx context.Context, t *admission.Ticket, quit <-chan struct{}) (work context.Context,
	release func(), err error) {
	out := func() {
		t.Release()
		s.active.Done()
	}
	began := time.Now()
	err = s.wait(ctx, t, quit)
	s.currentHooks().waited(ctx, began, err)
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
	var late <-chan time.Time
	if deadline, ok := t.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.Granted():
		return nil
	case <-late:
		return admission.ErrLate
	case <-s.life.Done():
		return admission.ErrDraining
	case <-quit:
		return admission.ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Drain refuses new work and waits until all admitted calls have ended. When ctx ends
// before that, Drain refuses the waiting calls and cancels the running ones, which then
// return their best certified pairs so far.
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

// Ended is closed when running calls must end, because the context of Drain has ended.
func (s *Service) Ended() <-chan struct{} { return s.life.Done() }

// SetHooks sets the hooks. Calls that have begun may end without calling the new hooks.
func (s *Service) SetHooks(h Hooks) { s.hooks.Store(&h) }

// currentHooks returns the hooks of SetHooks; without them, hooks that do nothing.
func (s *Service) currentHooks() *Hooks {
	if h := s.hooks.Load(); h != nil {
		return h
	}
	return &Hooks{}
}

// Initial intercepts of the models of simulations, as for admission.NewCostsAt.
const (
	simIntercept   = -8
	simLPIntercept = -5
)

// Engine does the work that a Service admits and queues, in place of package solver.
type Engine interface {
	Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error)
	Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error)
	Verify(inst *hare.Instance, res *hare.Result, prev *verify.Previous) *verify.Report
}
