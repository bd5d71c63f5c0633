// Package admission is the admission control of a server: a queue for a fixed
// number of slots, predicted costs of calls, and quotas of tenants.
package admission

import "time"

// LeastTime is the time that a solve gets where waiting in the queue used up
// nearly all of its time limit.
const LeastTime = 10 * time.Millisecond

// Call describes a call that asks for admission.
type Call struct {
	Deadline time.Time
	Cost     time.Duration // expected time of the call's work
	// ErrorFactor is the factor by which predicted costs are wrong, at least 1.
	ErrorFactor float64
	// Degraded calls take little time: they go first, and twice as many of them may
	// wait.
	Degraded bool
	// Patient calls wait for a slot as long as it takes: Deadline only orders them.
	Patient bool
	// Readmitted calls were admitted before a restart and are never refused.
	Readmitted bool
}

// Admit counts a call for which Enqueue will be called. Admit refuses the call
// where the queue is full, and where the call's deadline would pass in the queue
// even if all calls before took less than expected by the call's ErrorFactor.
func (q *Queue) Admit(a Call) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.most
	if a.Degraded {
		most *= 2
	}
	if a.Readmitted {
		q.take(a.Cost)
		return nil
	}
	now := time.Now()
	wait := q.wait(now, a.Deadline)
	if q.admitted >= most {
		return &OverloadError{Wait: wait}
	}
	if !a.Degraded && !a.Patient && wait > LeastTime &&
		time.Duration(float64(wait)/max(1, a.ErrorFactor)) > a.Deadline.Sub(now) {
		return &OverloadError{Wait: wait, late: true}
	}
	q.take(a.Cost)
	return nil
}

func (q *Queue) take(cost time.Duration) {
	q.admitted++
	q.pendingCost += cost
}

// wait returns how long a call of this deadline is expected to wait for a slot:
// the remaining cost of the calls that run and of those with an earlier deadline,
// divided by the number of slots. Admitted calls that are not in the queue yet
// count as earlier. O(waiting calls).
func (q *Queue) wait(now, deadline time.Time) time.Duration {
	if q.admitted < q.slots {
		return 0
	}
	work := q.pendingCost
	for t := range q.running {
		work += max(0, t.cost-now.Sub(t.since))
	}
	for _, t := range q.heap {
		if !deadline.Before(t.deadline) {
			work += t.cost
		}
	}
	return work / time.Duration(q.slots)
}
