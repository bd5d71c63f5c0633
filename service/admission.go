package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
)

// OverloadError says that a call was refused because of what is already
// admitted. It is ErrBusy, or ErrLate where the queue has room but the time
// limit would pass in it.
type OverloadError struct {
	// Wait is how long the queue is expected to take.
	Wait time.Duration
	late bool
}

func (e *OverloadError) Error() string {
	if e.late {
		return fmt.Sprintf("service: the time limit would pass in the queue, which takes about %.1f s", e.Wait.Seconds())
	}
	return ErrBusy.Error()
}

// Unwrap returns ErrBusy or ErrLate.
func (e *OverloadError) Unwrap() error {
	if e.late {
		return ErrLate
	}
	return ErrBusy
}

// admission says how a call may be taken.
type admission struct {
	deadline time.Time
	cost     time.Duration // expected, of its work
	trust    float64       // factor by which costs are off; 1 at least
	degraded bool          // it takes little: it goes first, and may wait where others are refused
	before   bool          // was admitted before, by a server that is gone
}

// admit counts a call that will line up. It refuses where as many hold and wait
// as may, and where the call's time would pass in the queue even if all before
// it took less than expected by the factor of a.trust.
func (q *queue) admit(a admission) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.most
	if a.degraded {
		most *= 2
	}
	if a.before {
		q.take(a.cost)
		return nil
	}
	now := time.Now()
	wait := q.wait(now, a.deadline)
	if q.taken >= most {
		return &OverloadError{Wait: wait}
	}
	if !a.degraded && wait > leastTime && time.Duration(float64(wait)/max(1, a.trust)) > a.deadline.Sub(now) {
		return &OverloadError{Wait: wait, late: true}
	}
	q.take(a.cost)
	return nil
}

func (q *queue) take(cost time.Duration) {
	q.taken++
	q.coming += cost
}

// wait is how long a call of this deadline is expected to wait for a place:
// what runs, and what has an earlier deadline, over the places. What has not
// lined up yet counts as earlier. O(calls that wait).
func (q *queue) wait(now, deadline time.Time) time.Duration {
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

// degraded are the options of an answer that takes little: the schedule of a
// greedy rule, and the bounds that need no prices.
func degraded(opt hare.Options) hare.Options {
	opt.Bound, opt.Order, opt.Assign = hare.MethodCriticalPath, "wspt", "earliest_finish"
	return opt
}

// costsOf predicts solves under these options: those of the plain rules take so
// much less that they have a model of their own.
func (s *Service) costsOf(opt hare.Options) *Costs {
	if opt.Bound != hare.MethodPrice && opt.Order != hare.MethodPrice && opt.Assign != "insertion" {
		return s.plainCosts
	}
	return s.costs
}

// Costs is the model that solves are admitted by.
func (s *Service) Costs() *Costs { return s.costs }

// admitSolve counts a solve among those that Drain waits for and that the queue
// holds. Where there is too much to do and opt allows it, that is of the
// options that it returns, which make a degraded answer.
func (s *Service) admitSolve(inst *hare.Instance, opt hare.Options, deadline time.Time) (hare.Options, admission, error) {
	try := func(opt hare.Options, degraded bool) (admission, error) {
		costs := s.costsOf(opt)
		a := admission{deadline: deadline, cost: costs.Predict(WorkOf(inst, opt)), degraded: degraded}
		a.trust, _ = costs.Error()
		return a, s.admit(a)
	}
	a, err := try(opt, false)
	if errors.As(err, new(*OverloadError)) && opt.Degrade {
		opt = degraded(opt)
		a, err = try(opt, true)
	}
	return opt, a, err
}

// learn takes in how long a solve ran that was admitted as a says.
func (s *Service) learn(inst *hare.Instance, opt hare.Options, a admission, res *hare.Result, took time.Duration) {
	if res == nil {
		return
	}
	s.watching().predicted(a.cost, took)
	cut := res.Termination == hare.TerminationCancelled || res.Termination == hare.TerminationDeadline
	s.costsOf(opt).Learn(WorkOf(inst, opt), took, cut)
}
