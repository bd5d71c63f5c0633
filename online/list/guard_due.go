package list

import (
	"cmp"
	"slices"
)

// dueRound is an entry of a dueHeap.
type dueRound struct {
	at, wait int64
	job      *JobState
}

// dueHeap is a binary heap by at, then by arrival. It does not use container/heap, which
// allocates memory for every entry, because each wait of a job is an entry.
type dueHeap []dueRound

func (dr *dueRound) before(o *dueRound) bool {
	return dr.at < o.at || dr.at == o.at && dr.job.serial < o.job.serial
}

func (dh *dueHeap) push(x dueRound) {
	h := append(*dh, x)
	*dh = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (dh *dueHeap) pop() dueRound {
	h := *dh
	x, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = dueRound{}
	h = h[:last]
	*dh = h
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return x
		}
		if next+1 < last && h[next+1].before(&h[next]) {
			next++
		}
		if !h[next].before(&h[i]) {
			return x
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
}

// current reports whether an entry is of a wait that goes on.
func (l *Scheduler) current(x *dueRound) bool {
	return x.wait == x.job.guarded.wait && x.job.waits() && l.jobOf[x.job.spec.ID] == x.job
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
