package lp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare/internal/lp/highs"
)

// PoolConfig describes the workers of a pool. Its zero value is useful.
type PoolConfig struct {
	// Command starts a worker. Nil means this executable with the argument lp-worker; its
	// main must call ServeIfWorker or WorkerMain.
	Command []string
	// Env is added to the environment of a worker, which otherwise holds only
	// LD_LIBRARY_PATH, HARE_LIBHIGHS and the variables that limit its threads.
	Env []string
	// Size is the number of workers, which is also the number of problems solved at the same
	// time. Zero means one for each CPU, at most 8.
	Size int
	// MemoryBytes limits the address space of each worker beyond what it maps at its start.
	// Zero means 4 GiB, a negative number means no limit.
	MemoryBytes int64
	// MaxSolves is the number of problems after which a worker is replaced by a fresh one.
	// Zero means 1,000.
	MaxSolves int
	// SolveTimeout limits the time of one problem if the context has no earlier deadline.
	// Zero means 10 minutes.
	SolveTimeout time.Duration
	// StartTimeout limits the start of a worker. Zero means 5 s.
	StartTimeout time.Duration
	// Attempts is the number of workers that may fail at one problem before the caller gets
	// the error. Zero means 3.
	Attempts int
	// FailureLimit is the number of failures in a row after which the pool answers
	// ErrUnavailable at once for Cooldown. Zero means 8.
	FailureLimit int
	// Cooldown is the length of that pause, and the longest pause between two starts. Zero
	// means 5 s.
	Cooldown time.Duration
}

func (c *PoolConfig) validate() error {
	if os.Getenv(workerVariable) != "" {
		// Without this check, processes would start processes without end.
		return errors.New("lp: pool: this process was started as a worker; its main must call lp.ServeIfWorker")
	}
	if c.Size < 0 || c.Size > 1024 || c.MaxSolves < 0 || c.Attempts < 0 || c.FailureLimit < 0 ||
		c.SolveTimeout < 0 || c.StartTimeout < 0 || c.Cooldown < 0 {
		return errors.New("lp: pool: sizes, counts and times must not be negative, nor the size above 1,024")
	}
	if c.Command == nil {
		self, err := selfPath()
		if err != nil {
			return fmt.Errorf("lp: pool: %w", err)
		}
		c.Command = []string{self, "lp-worker"}
	}
	if len(c.Command) == 0 {
		return errors.New("lp: pool: empty command")
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 4 << 30
	}
	setDefault(&c.Size, min(runtime.NumCPU(), 8))
	setDefault(&c.MaxSolves, 1000)
	setDefault(&c.SolveTimeout, 10*time.Minute)
	setDefault(&c.StartTimeout, 5*time.Second)
	setDefault(&c.Attempts, 3)
	setDefault(&c.FailureLimit, 8)
	setDefault(&c.Cooldown, 5*time.Second)
	return nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Stats counts events since the pool was made.
type Stats struct {
	Starts   int64 // workers that completed the handshake
	Restarts int64 // workers to be started in place of workers that failed or were killed
	Recycled int64 // workers replaced because of MaxSolves
	Kills    int64 // workers killed because a context or SolveTimeout ended
	Failures int64 // workers that died, answered wrongly or did not start
	Solves   int64 // solutions returned
	Idle     int   // workers that are ready now

	Available bool   // whether Solve would try to solve now
	LastError string // the last failure, with the first line that the worker wrote; "" without failures
}

// Pool solves problems in warm worker processes. It is safe for concurrent
// use. Create it with NewPool and end it with Close.
type Pool struct {
	cfg    PoolConfig
	env    []string
	idle   chan *process
	starts chan startRequest
	closed chan struct{}
	slots  sync.WaitGroup

	mu         sync.Mutex
	live       map[*process]struct{}
	closing    bool
	breaker    circuitBreaker
	stats      Stats
	version    string
	firstStart chan struct{} // closed after the first start, whether it succeeded or not
}

var _ Chainer = (*Pool)(nil)

// NewPool starts the workers and returns without waiting for them. A missing or broken
// engine is not an error here: Solve then returns ErrUnavailable.
func NewPool(cfg PoolConfig) (*Pool, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		cfg:        cfg,
		env:        workerEnv(cfg.Env),
		idle:       make(chan *process, cfg.Size),
		starts:     make(chan startRequest),
		closed:     make(chan struct{}),
		live:       make(map[*process]struct{}),
		breaker:    newCircuitBreaker(cfg.FailureLimit, cfg.Cooldown),
		firstStart: make(chan struct{}),
	}
	p.slots.Go(p.runStarter)
	for range cfg.Size {
		p.slots.Go(p.startWorker)
	}
	return p, nil
}

func workerEnv(extra []string) []string {
	env := []string{workerVariable + "=1", "GOMAXPROCS=1", "GOTRACEBACK=none", "MALLOC_ARENA_MAX=1", "OMP_NUM_THREADS=1",
		"OPENBLAS_NUM_THREADS=1"}
	for _, name := range []string{"LD_LIBRARY_PATH", highs.LibraryVariable} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// Solve implements Solver. If a worker fails, it is replaced and the problem is given to
// another worker, up to PoolConfig.Attempts times. The end of ctx kills the worker and
// returns at once.
func (p *Pool) Solve(ctx context.Context, problem *Problem) (*Solution, error) {
	if sol, err := problem.withoutEngine(ctx); sol != nil || err != nil {
		return sol, err
	}
	for attempt := 1; ; attempt++ {
		w, err := p.acquire(ctx)
		if err != nil {
			return nil, err
		}
		sol, alive, err := p.run(ctx, w, frameSolve, problem, problem)
		if alive {
			p.release(w)
		}
		if !p.again(err, attempt) {
			return sol, err
		}
	}
}

// again reports whether a worker failed at a problem which another may solve.
func (p *Pool) again(err error, attempt int) bool {
	var failed *WorkerError
	return errors.As(err, &failed) && attempt < p.cfg.Attempts
}

// withoutEngine returns the solution of a problem that needs no engine, or the error for one that none may be given;
// else neither.
func (prob *Problem) withoutEngine(ctx context.Context) (*Solution, error) {
	if err := prob.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(prob.Index) == 0 {
		return prob.solveSeparable()
	}
	if n := requestBytes(prob); n > maxRequestBytes {
		return nil, &EngineError{Detail: "a problem of " + strconv.FormatInt(n, 10) + " bytes is too large"}
	}
	return nil, nil
}

// Version returns the version of the engine, such as "1.15.1". It waits at most a second
// for the first worker to start; "" means that none has started.
func (p *Pool) Version() string {
	select {
	case <-p.firstStart:
	case <-p.closed:
	case <-time.After(min(p.cfg.StartTimeout, time.Second)):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// Ready waits until a worker has started and returns the version of the engine, or
// ErrUnavailable, or the context's error.
func (p *Pool) Ready(ctx context.Context) (string, error) {
	w, err := p.acquire(ctx)
	if err != nil {
		return "", err
	}
	version := w.version
	p.release(w)
	return version, nil
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Idle = len(p.idle)
	s.Available = !p.closing && p.breaker.allows(time.Now())
	return s
}

// Available reports whether Solve would try to solve now.
func (p *Pool) Available() bool { return p.Stats().Available }

// Close kills all workers and waits until they have ended. Running solves return
// ErrClosed.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		p.slots.Wait()
		return nil
	}
	p.closing = true
	close(p.closed)
	for w := range p.live {
		w.kill()
	}
	p.mu.Unlock()
	p.slots.Wait()
	return nil
}

// acquire waits for an idle worker.
func (p *Pool) acquire(ctx context.Context) (*process, error) {
	for {
		if p.isClosed() {
			return nil, ErrClosed
		}
		p.mu.Lock()
		tripped, allowed := p.breaker.open, p.breaker.allows(time.Now())
		p.mu.Unlock()
		if !allowed {
			return nil, ErrUnavailable
		}
		select {
		case <-p.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tripped:
			return nil, ErrUnavailable
		case w := <-p.idle:
			if !w.exited() {
				return w, nil
			}
			p.failed(w, w.fail("idle", errors.New("ended while idle")))
			p.replace(w, true)
		}
	}
}

// release makes w idle again, or has it replaced after MaxSolves problems.
func (p *Pool) release(w *process) {
	if w.solves < p.cfg.MaxSolves {
		p.idle <- w // the channel has room for all workers
		return
	}
	p.count(func(s *Stats) { s.Recycled++ })
	p.replace(w, false)
}

// run gives w the part of a problem that it lacks and returns the solution of the whole. If w is not alive afterwards,
// it is replaced.
func (p *Pool) run(ctx context.Context, w *process, ask frameType, part, problem *Problem) (sol *Solution, alive bool,
	err error) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.SolveTimeout)
	defer cancel()
	spare := context.AfterFunc(limited, w.kill)
	sol, err = w.solve(ask, part, problem)
	killed := !spare()

	var failed *WorkerError
	switch broken := errors.As(err, &failed); {
	case !broken && !killed:
		p.succeeded(err == nil)
		return sol, true, err
	case !broken:
		// The answer came just before the kill: the answer counts, but the worker is dead.
		p.succeeded(err == nil)
		p.count(func(s *Stats) { s.Kills++ })
		p.replace(w, true)
		return sol, false, err
	case killed:
		p.count(func(s *Stats) { s.Kills++ })
		p.replace(w, true)
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		return nil, false, fmt.Errorf("lp: no answer within %v", p.cfg.SolveTimeout)
	default:
		p.replace(w, true)
		if p.isClosed() {
			return nil, false, ErrClosed
		}
		failed.Stderr = w.finalStderr()
		p.failed(w, err)
		return nil, false, err
	}
}

func (p *Pool) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *Pool) count(f func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.stats)
}

func (p *Pool) succeeded(solved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breaker.success()
	if solved {
		p.stats.Solves++
	}
}

func (p *Pool) failed(w *process, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Failures++
	p.stats.LastError = err.Error()
	if w != nil {
		if line, _, _ := strings.Cut(w.stderr.String(), "\n"); line != "" {
			p.stats.LastError += ": " + line
		}
	}
	p.breaker.failure(time.Now())
}
