package store

import (
	"fmt"
)

// CorruptError says that what is stored is not what was written. The session
// takes no events until it is salvaged, restored or deleted; see docs/durability.md.
type CorruptError struct {
	Session string // "" is the whole store, or Solve
	Solve   string
	Seq     int64 // the first event that is lost; 0 where there is none to name
	What    string
}

func (e *CorruptError) Error() string {
	if e.Solve != "" {
		return fmt.Sprintf("solve %s is damaged: %s", e.Solve, e.What)
	}
	if e.Session == "" {
		return "the store is damaged: " + e.What
	}
	return fmt.Sprintf("the log of session %s is damaged at event %d: %s", e.Session, e.Seq, e.What)
}
