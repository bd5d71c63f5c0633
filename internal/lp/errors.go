package lp

import "errors"

var (
	// ErrUnavailable says that no engine runs: either there is none, or it has failed so
	// often that the circuit breaker is open. Callers then use their own method.
	ErrUnavailable = errors.New("lp: no engine available")
	// ErrInfeasible and ErrUnbounded say that the problem has no optimum.
	ErrInfeasible = errors.New("lp: infeasible")
	ErrUnbounded  = errors.New("lp: unbounded")
	// ErrClosed is returned by a pool after Close.
	ErrClosed = errors.New("lp: pool is closed")
)

// EngineError is the answer of a healthy engine that found no optimum for a reason other
// than infeasible or unbounded, or refused the problem.
type EngineError struct{ Detail string }

func (ee *EngineError) Error() string { return "lp: engine: " + ee.Detail }

// WorkerError is the failure of a worker process that ended, answered wrongly or did not
// start. Stderr holds the first 4 KiB that the worker wrote.
type WorkerError struct {
	Op     string // start, write, read, answer
	Err    error
	Stderr string
}

func (we *WorkerError) Error() string { return "lp: worker: " + we.Op + ": " + we.Err.Error() }

func (we *WorkerError) Unwrap() error { return we.Err }
