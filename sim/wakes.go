package sim

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

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
