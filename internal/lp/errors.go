package lp

import "errors"

var (
	// ErrUnavailable says that no engine runs: there is none, or it failed so
	// often lately that it rests. Callers use their own method instead.
	ErrUnavailable = errors.New("lp: no engine available")
	// ErrInfeasible and ErrUnbounded say that the problem has no optimum.
	ErrInfeasible = errors.New("lp: infeasible")
	ErrUnbounded  = errors.New("lp: unbounded")
	// ErrClosed is returned by a pool after Close.
	ErrClosed = errors.New("lp: pool is closed")
)

// EngineError is an answer of a healthy engine that found no optimum, or
// refused the problem, for a reason other than infeasible or unbounded.
type EngineError struct{ Detail string }

func (e *EngineError) Error() string { return "lp: engine: " + e.Detail }

// WorkerError is the failure of a worker process: it ended, answered what it
// must not, or did not start. Stderr holds the first 4 KiB that it wrote.
type WorkerError struct {
	Op     string // start, write, read, answer
	Err    error
	Stderr string
}

func (e *WorkerError) Error() string { return "lp: worker: " + e.Op + ": " + e.Err.Error() }

func (e *WorkerError) Unwrap() error { return e.Err }
