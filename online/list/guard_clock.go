package list

import (
	"slices"
)

// This file keeps the clock of turns of the guard, and what jobs miss by it: see guard.

// guardPatience is how many rounds of a job are counted beyond those that it has had. A job that
// is due gets one round and then waits for the next: with eight in a row, the jobs that wait for a
// wide gang pile up, and wait for four times as long in all.
const guardPatience = 8

// nano is how finely turns and rounds are counted.
const nano = 1e9

// leastTurnUs is the shortest turn; the clock of turns cannot overflow with it.
const leastTurnUs = 1e6

// mostWork limits the work of a round of one job in GPU-microseconds, so that the sum over
// half a million jobs does not overflow.
const mostWork = 1 << 44

// unknownRoundUs is the time of a round of a job whose speed is not given on any type.
const unknownRoundUs = 60e6

func (l *Scheduler) guards() bool { return l.rule.Guard.kappa > 0 }

// settleTurns brings the clock of turns to the present; it is called before the work or the
// GPUs in service change.
func (l *Scheduler) settleTurns() {
	g := &l.guard
	g.slowdown.inServiceUs = l.inServiceUs()
	g.turns, g.sinceUs = l.turnsNow(), l.nowUs
}

func (l *Scheduler) turnsNow() int64 {
	g := &l.guard
	gpus := int64(l.GPUs())
	if g.work == 0 || gpus == 0 || l.nowUs == g.sinceUs {
		return g.turns
	}
	return add(g.turns, mulDivUp(l.nowUs-g.sinceUs, gpus*nano, max(g.work, gpus*leastTurnUs)))
}

// inServiceUs is the GPU time in service until now.
func (l *Scheduler) inServiceUs() int64 {
	return add(l.guard.slowdown.inServiceUs, times(l.nowUs-l.guard.sinceUs, int64(l.GPUs())))
}

// missedNow is how many rounds a job that waits has missed since the wait began, in
// billionths: the turns, but no more rounds than fit in the time.
func (l *Scheduler) missedNow(j *JobState) int64 {
	x := &j.guarded
	return min(l.turnsNow()-x.turns, mulDivUp(l.nowUs-x.sinceUs, nano, x.roundUs))
}

// mayMiss is how many more rounds a job may miss before it is due, if it has missed none in
// the current wait; below 0 where it is due at once.
func (l *Scheduler) mayMiss(j *JobState) int64 {
	return times(l.rule.Guard.kappa*(nano/1e6), add(j.round, guardPatience)) - j.guarded.missed
}

// guardTurn begins or ends a wait.
func (l *Scheduler) guardTurn(j *JobState, waits bool) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	x := &j.guarded
	if waits {
		x.turns, x.sinceUs = l.guard.turns, j.sinceUs
		l.guard.fresh = append(l.guard.fresh, j)
		return
	}
	if !x.back {
		x.missed = add(x.missed, l.missedNow(j))
	}
	l.comeBack(j)
	x.wait++
	l.dropTicket(j)
}

// comeBack notes that no quota holds a job back.
func (l *Scheduler) comeBack(j *JobState) {
	if j.guarded.back {
		j.guarded.back = false
		l.guard.back--
	}
}

// current reports whether an entry is of a wait that goes on.
func (l *Scheduler) current(x *dueRound) bool {
	return x.wait == x.job.guarded.wait && x.job.waits() && l.jobOf[x.job.spec.ID] == x.job
}

// dropTicket ends what is reserved for a job, where something is.
func (l *Scheduler) dropTicket(j *JobState) {
	x := &j.guarded
	if x.ticket == 0 {
		return
	}
	at := slices.Index(l.guard.due, j)
	l.guard.due = slices.Delete(l.guard.due, at, at+1)
	l.dropReservation(j)
	x.ticket = 0
}

func (l *Scheduler) dropReservation(j *JobState) {
	for _, g := range j.guarded.gpus {
		delete(l.guard.reservedBy, g)
	}
	j.guarded.gpus, j.guarded.chosen = nil, false
}

// guardResized forgets what is reserved, before a GPU joins or leaves. Jobs keep their
// tickets.
func (l *Scheduler) guardResized() {
	if !l.guards() {
		return
	}
	l.settleTurns()
	for _, j := range l.guard.due {
		l.dropReservation(j)
	}
}

func (l *Scheduler) reserveGPU(j *JobState, g int) {
	if l.guard.reservedBy == nil {
		l.guard.reservedBy = map[int]*JobState{}
	}
	l.guard.reservedBy[g] = j
	at, _ := slices.BinarySearch(j.guarded.gpus, g)
	j.guarded.gpus = slices.Insert(j.guarded.gpus, at, g)
}

func (l *Scheduler) unreserveGPU(j *JobState, g int) {
	delete(l.guard.reservedBy, g)
	at, _ := slices.BinarySearch(j.guarded.gpus, g)
	j.guarded.gpus = slices.Delete(j.guarded.gpus, at, at+1)
}
