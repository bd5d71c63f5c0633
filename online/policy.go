// Package online decides, event by event and without knowing how long jobs
// are, which task starts on which GPU. It has no clock, no input or output, no
// goroutine and nothing random: the same events give the same decisions.
package online

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
)

// Policy schedules one session. The simulator, the service and the executor run the
// same policies.
type Policy interface {
	// Step applies events in order, all at time nowUs, which never decreases from
	// call to call, and returns the decisions that the events lead to, in the order
	// in which they were made. The returned slice is valid until the next call. What
	// the events point to is valid until Step returns: a policy copies what it keeps.
	// Step does not look at Event.AtUs and Event.Seq. An event that cannot be true
	// (an unknown job, a task that does not run) is refused with *RefusedError: the
	// events before the refused one are applied and their decisions are returned;
	// the refused event and the events behind it are not applied.
	Step(nowUs int64, events []hare.Event) ([]hare.Decision, error)
}

// Durable is a policy whose state survives a restart.
type Durable interface {
	Policy
	// Adopt applies one event and the decisions that were recorded for it, whether
	// or not this version would decide the same. Adopt fails where the event or the
	// decisions contradict the state; the policy must not be used afterwards.
	Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error
	// AppendSnapshot appends the whole state. A policy that is restored from these
	// bytes decides as this one does. Equal states give equal bytes.
	AppendSnapshot(b []byte) []byte
}

// Waker is a policy that may decide at times at which nothing happens on the cluster.
type Waker interface {
	Policy
	// WakeUs is the first time after the last step at which an event of type EventTick would let the
	// policy decide something, if nothing else happens before, or math.MaxInt64 where there is none. It
	// follows from the policy's state, so that a host that sends a tick then, or later, or never, can
	// replay its log. A time that is not after the last step is that of a tick which is due.
	WakeUs() int64
}

// WakeUs is Waker.WakeUs of a policy, or math.MaxInt64 where the policy never asks for a tick. Policies that pass
// events on to another one are Wakers by it.
func WakeUs(p Policy) int64 {
	if w, ok := p.(Waker); ok {
		return w.WakeUs()
	}
	return math.MaxInt64
}

// RefusedError says which event of a step could not be applied, and why.
type RefusedError struct {
	Index int // index of the event in the step
	// Err has a pointer into the event, as "/gpu", a stable code and a remedy.
	Err *hare.InvalidError
}

func (e *RefusedError) Error() string { return fmt.Sprintf("event %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }
