// Package highs gives programs that import Hare the linear-programming engine HiGHS, which raises bounds beyond what
// Hare's own engine finds. Without it solves work too.
//
// HiGHS is a C library, which programs that are built with the tag highs load when they run, cgo or not. They find
// it as lib/libhighs.so (libhighs.dylib on macOS) beside the program, under the path in HARE_LIBHIGHS, or where the
// system has it; scripts/get-highs.sh fetches one. It runs in child processes of the same program: a crash of HiGHS
// costs quality, never the program.
package highs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/lp/highs"
)

// ErrUnavailable says that the program was built without the tag highs, or finds no library.
var ErrUnavailable = highs.ErrUnavailable

// ServeIfWorker makes a process that an Engine started a worker, and does not return from it; in other processes it
// does nothing. A program that calls Open calls ServeIfWorker first in main, and tests call it in TestMain.
func ServeIfWorker() { lp.ServeIfWorker() }

// Engine solves linear programs in warm worker processes; it is what solver.Config.LP takes. It is safe for concurrent
// use.
type Engine struct{ pool *lp.Pool }

var _ lp.Chainer = (*Engine)(nil)

// Open starts an engine with a worker for each CPU, at most 8, and waits for the first. The error is ErrUnavailable
// where there is no HiGHS, and says where it was looked for; another error says that workers do not start, as where
// main does not call ServeIfWorker.
func Open() (*Engine, error) {
	pool, err := lp.NewPool(lp.PoolConfig{})
	if err != nil {
		return nil, fmt.Errorf("highs: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if _, err := pool.Ready(ctx); err != nil {
		why := pool.Stats().LastError
		_ = pool.Close()
		if reason, missing := strings.CutPrefix(why, lp.ErrUnavailable.Error()+": "+ErrUnavailable.Error()); missing {
			return nil, fmt.Errorf("%w%s", ErrUnavailable, reason)
		}
		return nil, fmt.Errorf("highs: no worker starts: does main call highs.ServeIfWorker first? (%w; %s)", err, why)
	}
	return &Engine{pool}, nil
}

// startTimeout is how long Open waits for the first worker.
const startTimeout = 20 * time.Second

// Available reports whether the engine would try to solve now: it pauses after many failures in a row.
func (e *Engine) Available() bool { return e.pool.Available() }

// Solve solves one problem; it is called by solves.
func (e *Engine) Solve(ctx context.Context, p *lp.Problem) (*lp.Solution, error) {
	return e.pool.Solve(ctx, p)
}

// Chain returns a chain of problems, each solved from the basis of the one before; it is called by solves.
func (e *Engine) Chain() lp.Chain { return e.pool.Chain() }

// Version returns the version of HiGHS, as solver.Config.EngineVersion takes it. It waits for the first worker.
func (e *Engine) Version() string { return e.pool.Version() }

// Restarts returns how often workers had to be started again, as solver.Config.Restarts takes it.
func (e *Engine) Restarts() int64 { return e.pool.Stats().Restarts }

// Close ends the workers.
func (e *Engine) Close() error { return e.pool.Close() }
