package sim

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// wakes sends ticks to a policy at the times for which the policy asks. At most one occurrence counts at a
// time: others are of times for which the policy does not ask any more, and do nothing.
type wakes struct {
	policy   online.Waker // nil where the policy never asks
	askedUs  int64        // when the policy wants a tick, or math.MaxInt64
	queuedUs int64        // the first occurrence in the event queue, or math.MaxInt64
	serial   int64
}

func newWakes(policy online.Policy) wakes {
	w := wakes{askedUs: math.MaxInt64, queuedUs: math.MaxInt64}
	w.policy, _ = policy.(online.Waker)
	return w
}

// askWake notes when the policy wants a tick after a step. A time that is not after now is that of a tick which
// is due: the policy decided nothing in the step, as where the compute of a task ended that keeps its GPU. After
// a tick such a time is ignored, because another tick would find the same state.
func (e *engine) askWake() {
	w := &e.wakes
	w.askedUs = w.policy.WakeUs()
	switch {
	case w.askedUs > hare.MaxExact || w.askedUs <= e.nowUs && e.events[0].Type == hare.EventTick:
		w.askedUs = math.MaxInt64
	case w.askedUs < e.nowUs:
		w.askedUs = e.nowUs
	}
	e.queueWake()
}

// queueWake puts the tick that the policy asks for into the event queue, unless the queue has an earlier one.
func (e *engine) queueWake() {
	w := &e.wakes
	if w.askedUs >= w.queuedUs {
		return
	}
	w.serial++
	w.queuedUs = w.askedUs
	e.eventQueue.push(newOccurrence(w.askedUs, policyWakes, w.serial, 0))
}

// wake sends a tick where the policy still wants one at the time of the occurrence atUs.
func (e *engine) wake(atUs int64) error {
	w := &e.wakes
	if atUs == w.queuedUs {
		w.queuedUs = math.MaxInt64
	}
	if w.askedUs != atUs {
		e.queueWake()
		return nil
	}
	e.nowUs = atUs
	e.events[0] = hare.Event{Type: hare.EventTick}
	return e.notify()
}
