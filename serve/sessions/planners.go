package sessions

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/wire"
)

// planners answers the questions of all sessions in goroutines of its own, in the order in
// which the questions were asked. A session has at most one question, so sessions take
// turns.
type planners struct {
	most  int           // answers that are made at the same time
	limit time.Duration // the longest time of an answer
	hooks func() *Hooks

	mu        sync.Mutex
	waiting   []*planJob
	running   map[*planJob]struct{}
	abandoned int           // goroutines whose answers nobody waits for any more
	changed   chan struct{} // closed and replaced when an answer has ended
}

// planJob is a question of a session and its answer.
type planJob struct {
	question online.PlanQuestion
	askedAt  time.Time
	cancel   context.CancelFunc
	ctx      context.Context    // of the answer; it ends with cancel
	done     chan plannedAnswer // has room for the answer

	// Those below are guarded by planners.mu.
	began     time.Time
	abandoned bool
	ended     bool // no goroutine of the planner runs
}

// plannedAnswer is a plan, or the reason why there is none.
type plannedAnswer struct {
	plan    []byte
	outcome PlanOutcome
	err     error
}

// abandonAfter is how long a planner may go on after its time before nobody waits for the
// planner any more.
const abandonAfter = 500 * time.Millisecond

func newPlanners(most int, limit time.Duration, hooks func() *Hooks) *planners {
	return &planners{most: most, limit: limit, hooks: hooks, running: map[*planJob]struct{}{},
		changed: make(chan struct{})}
}

// ask puts a question in the queue. The answer comes on planJob.done.
func (ps *planners) ask(question online.PlanQuestion) *planJob {
	j := &planJob{question: question, askedAt: time.Now(), done: make(chan plannedAnswer, 1)}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.waiting = append(ps.waiting, j)
	ps.startLocked()
	return j
}

// drop ends a question whose answer nobody wants any more.
func (ps *planners) drop(j *planJob) {
	j.cancel()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if i := slices.Index(ps.waiting, j); i >= 0 {
		ps.waiting = slices.Delete(ps.waiting, i, i+1)
		j.ended = true
		ps.hooks().planned(PlanCancelled, 0)
	}
}

// startLocked answers questions as far as there is room. At most as many goroutines are
// abandoned as may run: where planners hang, no more are started.
func (ps *planners) startLocked() {
	for len(ps.waiting) > 0 && len(ps.running) < ps.most && ps.abandoned < ps.most {
		j := ps.waiting[0]
		ps.waiting = slices.Delete(ps.waiting, 0, 1)
		ps.running[j] = struct{}{}
		j.began = time.Now()
		late := time.AfterFunc(ps.limit+abandonAfter, func() { ps.abandon(j) })
		go func() {
			ctx, cancel := context.WithTimeout(j.ctx, ps.limit)
			a := makePlan(ctx, j.question)
			if a.outcome == PlanFailed && ctx.Err() != nil {
				a.outcome = PlanLate
				a.err = fmt.Errorf("no plan after %v", ps.limit)
			}
			if j.ctx.Err() != nil {
				a.outcome = PlanCancelled
			}
			cancel()
			late.Stop()
			ps.end(j, a)
		}()
	}
}

// makePlan answers a question. A panic of the planner is an outcome.
func makePlan(ctx context.Context, question online.PlanQuestion) (a plannedAnswer) {
	a.err = recovered(func() (err error) {
		if a.plan, err = question.Answer(ctx); err == nil {
			err = wire.CheckPlan(a.plan)
		}
		return err
	})
	switch {
	case a.err == nil:
		a.outcome = PlanMade
	case errors.As(a.err, new(*panicError)):
		a.outcome = PlanPanicked
	default:
		a.outcome = PlanFailed
	}
	return a
}

// end takes the answer of a goroutine that ends.
func (ps *planners) end(j *planJob, a plannedAnswer) {
	j.cancel()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	j.ended = true
	if j.abandoned {
		ps.abandoned--
	} else {
		delete(ps.running, j)
		ps.hooks().planned(a.outcome, time.Since(j.began))
		j.done <- a
	}
	ps.wakeLocked()
	ps.startLocked()
}

// abandon stops waiting for a goroutine that goes on although its time is over.
func (ps *planners) abandon(j *planJob) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if j.ended {
		return
	}
	j.abandoned = true
	delete(ps.running, j)
	ps.abandoned++
	ps.hooks().planned(PlanLate, time.Since(j.began))
	j.done <- plannedAnswer{outcome: PlanLate, err: fmt.Errorf("the planner still runs after %v and is left alone",
		ps.limit)}
	ps.wakeLocked()
	ps.startLocked()
}

func (ps *planners) wakeLocked() {
	close(ps.changed)
	ps.changed = make(chan struct{})
}

// state reports whether the answer to a question has begun, and whether a goroutine of it
// runs.
func (ps *planners) state(j *planJob) (begun, runs bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return !j.began.IsZero(), !j.began.IsZero() && !j.ended
}

// count returns the questions that wait, the answers that are being made, and the
// abandoned goroutines.
func (ps *planners) count() (waiting, running, abandoned int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.waiting), len(ps.running), ps.abandoned
}

// close waits a moment for the answers that are being made, which were all dropped.
func (ps *planners) close() {
	timeout := time.After(abandonAfter)
	for {
		ps.mu.Lock()
		n, changed := len(ps.running), ps.changed
		ps.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			return
		}
	}
}

// panicError is a panic that was recovered.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recovered calls f and returns its error, or its panic as *panicError.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return f()
}
