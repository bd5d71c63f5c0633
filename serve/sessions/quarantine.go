package sessions

import (
	"fmt"
	"runtime/debug"
)

// QuarantineError says that the policy of a session panicked. The session takes no events
// until the server starts again. The session's log can be read, and the session can be
// deleted.
type QuarantineError struct {
	Session string
	Seq     int64 // the event at which the policy panicked; 0 where the policy handled no event
}

func (e *QuarantineError) Error() string {
	at := ""
	if e.Seq > 0 {
		at = fmt.Sprintf(" at event %d", e.Seq)
	}
	return fmt.Sprintf("the policy of session %s panicked%s: the session takes no events until the server starts "+
		"again; its log can be read", e.Session, at)
}

// guard calls f, which calls the policy. A panic quarantines the session: the policy's
// state is discarded, and the policy is not called again.
func (a *actor) guard(seq int64, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.policy = nil
			bad := &QuarantineError{Session: a.session.id, Seq: seq}
			a.session.quarantine.Store(bad)
			a.session.parent.cfg.Logger.Error(
				"the policy of a session panicked: the session is quarantined, the others go on",
				"session", a.session.id, "event", seq, "panic", p, "stack", string(debug.Stack()))
			err = bad
		}
	}()
	return f()
}
