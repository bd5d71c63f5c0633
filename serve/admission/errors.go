package admission

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels of refused calls.
var (
	ErrBusy     = errors.New("admission: the queue is full")
	ErrDraining = errors.New("admission: shutting down")
	// ErrLate says that the time limit passed before a slot was free.
	ErrLate = errors.New("the time limit passed in the queue")
)

// ErrFull says that a limit on all tenants together is reached.
var ErrFull = errors.New("admission: the limit for all tenants together is reached")

// OverloadError says that a call was refused because of the calls that are already
// admitted. An OverloadError wraps ErrBusy, or ErrLate where the queue has room
// but the call's time limit would pass in the queue.
type OverloadError struct {
	// Wait is how long the queue is expected to take.
	Wait time.Duration
	late bool
}

func (e *OverloadError) Error() string {
	if e.late {
		return fmt.Sprintf("the time limit would pass in the queue, which takes about %.1f s", e.Wait.Seconds())
	}
	return ErrBusy.Error()
}

// Unwrap returns ErrBusy or ErrLate.
func (e *OverloadError) Unwrap() error {
	if e.late {
		return ErrLate
	}
	return ErrBusy
}

// LimitError says that a limit of the server is reached.
type LimitError struct {
	What  string // "sessions" or "active jobs of the session"
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d %s is reached: end some first", e.Limit, e.What)
}
