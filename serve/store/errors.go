package store

import (
	"fmt"
)

// CorruptError says that stored data is not what was written. A damaged session takes no
// events until it is salvaged, restored or deleted; see docs/use/operate.md#what-survives.
type CorruptError struct {
	Session string // "" where the whole store, or Solve, is damaged
	Solve   string
	Seq     int64 // the first lost event; 0 where none can be named
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
