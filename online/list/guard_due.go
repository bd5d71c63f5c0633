package list

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// This file finds the jobs that are due: see guard.

// guardArrival begins the first wait of a job.
func (l *Scheduler) guardArrival(j *JobState) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	x := &j.guarded
	if x.roundUs = j.FastestUs(); x.roundUs == 0 {
		x.roundUs = unknownRoundUs
	}
	if j.spec.Sync == hare.Rigid && l.rule.Guard.size != nil {
		x.roundUs = SpanUs(l.rule.Guard.size(j), x.roundUs)
	}
	x.work = min(times(min(j.Width(), int64(l.GPUs())), x.roundUs), mostWork)
	l.guard.work += x.work
	x.turns, x.sinceUs = l.guard.turns, j.sinceUs
	l.guard.fresh = append(l.guard.fresh, j)
	l.limitArrival(j)
}

// guardEnd forgets a job.
func (l *Scheduler) guardEnd(j *JobState) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	l.guard.work -= j.guarded.work
	l.limitEnd(j)
	l.comeBack(j)
	l.dropTicket(j)
}

// guardWaits notes when the jobs that have begun to wait will be due. It is called after
// jobs have started.
func (l *Scheduler) guardWaits() {
	if !l.guards() {
		return
	}
	g := &l.guard
	for _, j := range g.fresh {
		if j.guarded.ticket == 0 && j.waits() && !j.guarded.back && l.jobOf[j.spec.ID] == j {
			l.noteWait(j)
			l.noteLate(j, l.nowUs)
		}
	}
	clear(g.fresh)
	g.fresh = g.fresh[:0]
	if most := 2*len(l.jobs) + 64; len(g.byTurn)+len(g.byTime) > most || len(g.slowdown.late) > most {
		g.byTurn, g.byTime, g.slowdown.late = g.byTurn[:0], g.byTime[:0], g.slowdown.late[:0]
		for _, j := range l.jobs {
			if j.guarded.ticket == 0 && j.waits() && !j.guarded.back {
				l.noteWait(j)
				l.noteLate(j, j.guarded.lookUs)
			}
		}
	}
}

// noteWait enters a job that waits.
func (l *Scheduler) noteWait(j *JobState) {
	at := add(j.guarded.turns, max(0, l.mayMiss(j)))
	l.guard.byTurn.push(dueRound{at: at, wait: j.guarded.wait, job: j})
}

// heldBack says of the jobs that wait which are held back by their quotas: for them the clock of
// turns stands still.
func (l *Scheduler) heldBack() {
	g := &l.guard
	quotas := l.nodes != nil && l.nodes.HasQuotas()
	if !quotas && g.back == 0 {
		g.settled, g.arrived = false, g.arrived[:0]
		return
	}
	jobs := l.jobs
	if g.settled {
		jobs = g.arrived
	}
	g.settled, g.arrived = true, g.arrived[:0]
	for _, j := range jobs {
		x := &j.guarded
		back := quotas && j.waits() && len(l.lackingQuotas(j)) > 0
		switch {
		case back && !x.back:
			x.missed = add(x.missed, l.missedNow(j))
			x.wait++
			x.back = true
			g.back++
		case !back && x.back:
			l.comeBack(j)
			if j.waits() {
				x.turns, x.sinceUs = l.turnsNow(), l.nowUs
				g.fresh = append(g.fresh, j)
			}
		}
	}
}

// guardDue gives tickets to the jobs that are due now, and GPUs to those with tickets. It
// is called before jobs start.
func (l *Scheduler) guardDue() {
	if !l.guards() {
		return
	}
	g := &l.guard
	l.heldBack()
	var due []*JobState
	for _, j := range g.fresh {
		if j.waits() && !j.guarded.back && l.jobOf[j.spec.ID] == j && l.mayMiss(j) < 0 {
			due = append(due, j)
		}
	}
	turns := l.turnsNow()
	for len(g.byTurn) > 0 && g.byTurn[0].at <= turns {
		if x := g.byTurn.pop(); l.current(&x) {
			x.at = add(x.job.guarded.sinceUs, mulDivUp(max(0, l.mayMiss(x.job)), x.job.guarded.roundUs, nano))
			g.byTime.push(x)
		}
	}
	for len(g.byTime) > 0 && g.byTime[0].at <= l.nowUs {
		if x := g.byTime.pop(); l.current(&x) {
			due = append(due, x.job)
		}
	}
	due = l.lateJobs(due)
	slices.SortFunc(due, func(a, b *JobState) int { return cmp.Compare(a.serial, b.serial) })
	for _, j := range due {
		if j.guarded.ticket > 0 {
			continue
		}
		g.tickets++
		j.guarded.ticket = g.tickets
		g.due = append(g.due, j)
	}
	l.reserveDue()
}
