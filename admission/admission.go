package admission

import "time"

// LeastTime is what a solve gets when the queue took nearly all of its limit.
const LeastTime = 10 * time.Millisecond

// Call says how a call may be taken.
type Call struct {
	Deadline time.Time
	Cost     time.Duration // expected, of its work
	Trust    float64       // factor by which costs are off; 1 at least
	Degraded bool          // it takes little: it goes first, and may wait where others are refused
	Before   bool          // was admitted before, by a server that is gone
}

// Admit counts a call that will line up. It refuses where as many hold and wait
// as may, and where the call's time would pass in the queue even if all before
// it took less than expected by the factor of a.trust.
func (q *Queue) Admit(a Call) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.most
	if a.Degraded {
		most *= 2
	}
	if a.Before {
		q.take(a.Cost)
		return nil
	}
	now := time.Now()
	wait := q.wait(now, a.Deadline)
	if q.taken >= most {
		return &OverloadError{Wait: wait}
	}
	if !a.Degraded && wait > LeastTime && time.Duration(float64(wait)/max(1, a.Trust)) > a.Deadline.Sub(now) {
		return &OverloadError{Wait: wait, late: true}
	}
	q.take(a.Cost)
	return nil
}

func (q *Queue) take(cost time.Duration) {
	q.taken++
	q.coming += cost
}

// wait is how long a call of this deadline is expected to wait for a place:
// what runs, and what has an earlier deadline, over the places. What has not
// lined up yet counts as earlier. O(calls that wait).
func (q *Queue) wait(now, deadline time.Time) time.Duration {
	if q.taken < q.places {
		return 0
	}
	work := q.coming
	for t := range q.held {
		work += max(0, t.cost-now.Sub(t.since))
	}
	for _, t := range q.heap {
		if !deadline.Before(t.deadline) {
			work += t.cost
		}
	}
	return work / time.Duration(q.places)
}
