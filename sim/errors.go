package sim

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
)

// ErrStalled says that jobs wait although no task runs and no event is to come: no GPU
// that they may use will ever be in service, or the policy does not start them.
var ErrStalled = errors.New("sim: jobs wait forever")

// DecisionError says that a policy made a decision that is not possible.
type DecisionError struct {
	Event    int64 // the seq of the event that the decision answered
	AtUs     int64 // the time of the event
	Decision hare.Decision
	Reason   string
	Policy   string // Config.Name
}

func (de *DecisionError) Error() string {
	d := &de.Decision
	who := ""
	if de.Policy != "" {
		who = "policy " + de.Policy + " at "
	}
	return fmt.Sprintf("sim: %s%s s, event %d: %s of task %d of round %d of job %.60q on GPU %.60q: %s", who,
		hare.FormatMicros(de.AtUs), de.Event, d.Type, d.Task, d.Round, d.Job, d.GPU, de.Reason)
}
