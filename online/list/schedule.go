package list

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// This file takes events and decides after each which of the waiting jobs start.

// Step is online.Policy.Step: events one by one, each with its decisions.
func (l *Scheduler) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	l.out = l.out[:0]
	for i := range events {
		if err := l.apply(nowUs, &events[i]); err != nil {
			return l.out, &online.RefusedError{Index: i, Err: err}
		}
		before := len(l.out)
		l.tick = events[i].Type == hare.EventTick
		l.noteArrival(&events[i])
		if l.changed {
			l.changed = false
			l.prepare()
			l.guardDue()
			l.guardStart()
			if l.rule.Assign != nil {
				l.rule.Assign(l)
			} else {
				l.schedule()
			}
			l.guardShow()
			l.OpenQuotas()
			l.makePromise()
			l.afterSchedule()
		}
		l.guardWaits()
		l.guard.settled = l.guard.settled && len(l.out) == before
	}
	return l.out, nil
}

// noteArrival notes whether an event says no more than that a job arrived, which waits.
func (l *Scheduler) noteArrival(e *hare.Event) {
	g := &l.guard
	if e.Type != hare.EventJobArrived || e.Arrived.Progress != nil {
		g.settled, g.arrived = false, g.arrived[:0]
	} else if g.settled {
		g.arrived = append(g.arrived, l.jobOf[e.Arrived.ID])
	}
}

// WakeUs is online.Waker.WakeUs. Only rules that say so want ticks.
func (l *Scheduler) WakeUs() int64 {
	if l.rule.Wake == nil {
		return math.MaxInt64
	}
	return l.rule.Wake(l)
}

func (l *Scheduler) prepare() {
	l.expectSpreads()
	if l.belief != nil {
		l.belief.Learn(l)
		l.typicalUs = 0
	}
	if l.rule.Prepare != nil {
		l.rule.Prepare(l)
	}
}

func (l *Scheduler) afterSchedule() {
	if l.rule.After != nil {
		l.rule.After(l)
	}
}

// schedule starts what fits, in the order of the priorities.
func (l *Scheduler) schedule() {
	if l.rule.Version != nil {
		l.scheduleWaiting()
		return
	}
	if !l.prioritize() {
		return
	}
	l.queue.init()
	for len(l.queue) > 0 && l.AnyFree() {
		j := l.queue.pop()
		for j.Ready() > 0 && l.TryStart(j) {
		}
		switch {
		case j.Ready() == 0 || !l.FitsWhenEmpty(j):
		case l.nodes != nil && (l.rule.Strict || l.rule.Backfill) && l.HeldByQuota(j):
		case l.rule.Strict:
			return
		case l.rule.Backfill && l.reserved.forJob == nil:
			l.Reserve(j)
		}
	}
}

// prioritize lists the jobs that wait and sets their priorities. It returns false where
// no job can start.
func (l *Scheduler) prioritize() bool {
	l.reserved, l.onNodes, l.onQuotas = reservation{}, nil, nil
	if !l.AnyFree() {
		return false
	}
	l.queue = l.queue[:0]
	for _, j := range l.jobs {
		if j.Ready() > 0 {
			l.queue = append(l.queue, j)
		}
	}
	if len(l.queue) == 0 {
		return false
	}
	if l.rule.Plan != nil {
		l.rule.Plan(l, l.queue)
	}
	for _, j := range l.queue {
		if l.rule.Review != nil {
			l.rule.Review(l, j)
		}
		j.priority = l.rule.Priority(l, j)
	}
	return true
}

// ScheduleBy starts what fits in the order of another rule, which takes account of switches as the own rule does.
func (l *Scheduler) ScheduleBy(other *Rule) {
	own := l.rule
	l.rule = *other
	l.rule.OneNode, l.rule.Touched, l.rule.Setup = own.OneNode, own.Touched, own.Setup
	l.schedule()
	l.rule = own
}

// scheduleWaiting is schedule for a rule with a version: it starts the same jobs.
func (l *Scheduler) scheduleWaiting() {
	if !l.AnyFree() {
		return
	}
	l.reserved, l.onNodes = reservation{}, nil
	l.updateWaiting()
	for l.AnyFree() {
		var first *waitingGroup
		for _, g := range l.waiting.groups {
			if len(g.jobs) > 0 && (first == nil || g.jobs[0].before(first.jobs[0])) && g.fits(l) {
				first = g
			}
		}
		if first == nil {
			return
		}
		j := first.jobs[0]
		first.remove(j)
		l.touch(j)
		for j.Ready() > 0 && l.TryStart(j) {
		}
	}
}

// updateWaiting brings the groups up to date. It takes O(log jobs) for each job touched
// since the last call, and O(jobs) where the priorities or the GPUs in service have changed.
func (l *Scheduler) updateWaiting() {
	w := &l.waiting
	if v := l.rule.Version(); w.stale || w.of == nil || w.version != v {
		*w = waitingJobs{of: map[groupKey]*waitingGroup{}, version: v}
		for _, j := range l.jobs {
			j.group, j.touched = nil, false
			if j.Ready() > 0 {
				l.wait(j)
			}
		}
		return
	}
	for _, j := range w.touched {
		j.touched = false
		if j.group != nil {
			j.group.remove(j)
		}
		if j.Ready() > 0 && l.jobOf[j.spec.ID] == j {
			l.wait(j)
		}
	}
	clear(w.touched)
	w.touched = w.touched[:0]
}

// wait adds a job to its group.
func (l *Scheduler) wait(j *JobState) {
	j.priority = l.rule.Priority(l, j)
	w, key := &l.waiting, l.groupKey(j)
	g := w.of[key]
	if g == nil {
		g = &waitingGroup{key: key}
		w.of[key] = g
		w.groups = append(w.groups, g)
	}
	g.push(j)
}

// groupKey is what the next start of a job needs.
func (l *Scheduler) groupKey(j *JobState) groupKey {
	hold, mix := j.hold, false
	if j.next == 0 && len(j.redo) == 0 {
		hold, mix = l.Holding(j)
	} else if hold != hare.Relaxed {
		_, mix = l.Holding(j)
	}
	key := groupKey{tasks: j.spec.Tasks, mix: mix && hold != hare.Relaxed}
	if l.nodes != nil {
		key.shape = j.shape
	}
	if hold == hare.Relaxed {
		key.tasks = 1
	}
	slowest := l.slowestUs(j)
	for _, m := range j.modes {
		bit := uint64(1) << m.Type
		if m.DurationUs <= slowest && (j.OnlyType < 0 || j.OnlyType == m.Type) {
			key.types |= bit
		}
		if key.mix {
			key.all |= bit
		}
	}
	return key
}

// fits reports whether GPUs are free for a start of the jobs of a group.
func (wg *waitingGroup) fits(l *Scheduler) bool {
	sum := int64(0)
	for t := range l.free {
		n := int64(len(l.free[t]))
		if l.nodes != nil && n > 0 && (wg.key.types|wg.key.all)>>t&1 == 1 {
			n = l.nodes.Room(wg.key.shape, t, wg.key.tasks, nil)
		}
		if n >= wg.key.tasks && wg.key.types>>t&1 == 1 {
			return true
		}
		if wg.key.all>>t&1 == 1 {
			sum += n
		}
	}
	return wg.key.mix && sum >= wg.key.tasks
}
