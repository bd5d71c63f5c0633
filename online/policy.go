// Package online decides, event by event and without knowing how long jobs
// are, which task starts on which GPU. It has no clock, no input or output, no
// goroutine and nothing random: the same events give the same decisions.
package online

import (
	"fmt"

	"github.com/hare-sched/hare"
)

// Policy schedules one session. The simulator, the service and the executor
// run the same one.
type Policy interface {
	// Step applies events in order, all at time nowUs, which is never less
	// than before, and returns the decisions that they lead to, in the order
	// in which they were made; the slice is the policy's until the next call.
	// Event.AtUs and Event.Seq are not looked at. An event that cannot be
	// true (an unknown job, a task that does not run) is refused with
	// *RefusedError: those before it are applied and their decisions are
	// returned; it and those behind it are not applied.
	Step(nowUs int64, events []hare.Event) ([]hare.Decision, error)
}

// Durable is a policy whose state survives a restart.
type Durable interface {
	Policy
	// Adopt applies one event and the decisions that were recorded for it, be
	// they what this version would decide or not. It fails where they cannot
	// belong to the state, which is then not to be used any more.
	Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error
	// AppendSnapshot appends the whole state. Restore makes a policy of it
	// that decides as this one does. Same state, same bytes.
	AppendSnapshot(b []byte) []byte
}

// RefusedError says which event of a step could not be applied, and why.
type RefusedError struct {
	Index int // of events
	// Err has a pointer into the event, as "/gpu", a stable code and a remedy.
	Err *hare.InvalidError
}

func (e *RefusedError) Error() string { return fmt.Sprintf("event %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }
