package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// This file does what guard_reserve.go does where the scheduler goes by nodes.

// reserveDueOnNodes gives GPUs to the jobs with tickets, in their order: all that the job needs
// where they are expected to be free first, or none. Jobs behind one that gets none get none
// either, so that what is reserved becomes free for it. A job keeps its GPUs until it starts,
// but exchanges those of rigid jobs.
//
// A job whose quotas lack room gets no GPUs, and does not keep jobs behind it from theirs. What the
// next starts of the jobs before need of quotas counts as held.
func (l *Scheduler) reserveDueOnNodes() {
	for _, j := range l.guard.due {
		goesOn := l.reserveForDue(j)
		l.holdNeed(j)
		if !goesOn {
			break
		}
	}
	l.releaseNeeds()
}

// reserveForDue gives GPUs to a job with a ticket, and reports whether jobs behind it may get some.
func (l *Scheduler) reserveForDue(j *JobState) bool {
	n, mix := l.nextStart(j)
	if !l.FitsWhenEmpty(j) || len(l.lackingQuotas(j)) > 0 {
		l.dropReservation(j)
		return true
	}
	x := &j.guarded
	rigid := slices.ContainsFunc(x.gpus, func(g int) bool {
		o := l.gpus[g].Job
		return o != nil && o.spec.Sync == hare.Rigid
	})
	if len(x.gpus) > 0 && !rigid {
		return true
	}
	gpus, onType := l.chooseOnNodes(j, n, mix, true)
	if gpus == nil && len(x.gpus) > 0 {
		return true
	}
	if gpus == nil {
		gpus, onType = l.chooseOnNodes(j, n, mix, false)
	}
	if gpus == nil {
		return false
	}
	l.dropReservation(j)
	x.chosen, x.onType = true, onType
	for _, g := range gpus {
		l.reserveGPU(j, g)
	}
	return true
}

// chooseOnNodes chooses GPUs for the next start of a job, of n tasks, that no other job has
// reserved, without those that rigid jobs hold where noRigid is set; nil where there are none.
func (l *Scheduler) chooseOnNodes(j *JobState, n int64, mix, noRigid bool) (best []int, onType int) {
	use := func(g int) placement.Use {
		a := l.available(g)
		u := l.Use(g, func(*JobState, int) int64 { return a.atUs })
		o := l.guard.reservedBy[g]
		u.Never = o != nil && o != j || noRigid && a.rigid
		return u
	}
	if mix {
		_, gpus, _ := l.nodes.Earliest(j.shape, j.types(), n, use)
		return gpus, -1
	}
	bestEnd := int64(math.MaxInt64)
	for _, m := range j.modes {
		if l.nodes.QuotaRoom(j.shape, m.Type) < n {
			continue
		}
		at, gpus, ok := l.nodes.Earliest(j.shape, []int{m.Type}, n, use)
		if end := add(max(at, l.nowUs), j.roundOnUs(m.Type)); ok && (best == nil || end < bestEnd) {
			best, bestEnd, onType = gpus, end, m.Type
		}
	}
	return best, onType
}

// guardStartOnNodes is guardStart where the scheduler goes by nodes.
func (l *Scheduler) guardStartOnNodes() {
	for _, j := range slices.Clone(l.guard.due) {
		if len(j.guarded.gpus) == 0 || slices.ContainsFunc(j.guarded.gpus,
			func(g int) bool { return l.gpus[g].Job != nil }) {
			l.holdNeed(j)
			continue
		}
		gpus := l.nodes.Group(j.guarded.gpus)
		if l.nodes.Check(j.shape, gpus) != "" {
			l.holdNeed(j)
			continue
		}
		l.OpenRound(j)
		told := -1
		for _, g := range gpus {
			if t := l.gpus[g].Type; t != told && l.rule.Started != nil {
				l.rule.Started(l, j, t)
			}
			told = l.gpus[g].Type
		}
		l.StartGPUs(j, gpus)
	}
	for _, j := range l.guard.due {
		for at, g := range l.nodes.Group(j.guarded.gpus) {
			t := l.gpus[g].Type
			if place, free := slices.BinarySearch(l.free[t], g); free {
				l.free[t] = slices.Delete(l.free[t], place, place+1)
				l.guard.hidden = append(l.guard.hidden, g)
				l.nodes.Take(g)
			}
			if at%j.TaskGPUs() == 0 {
				l.nodes.HoldNode(g, j.shape, 1)
				l.guard.held = append(l.guard.held, heldForGuard{g, j.shape})
			}
		}
	}
}

// guardShowOnNodes gives back what guardStartOnNodes took of nodes.
func (l *Scheduler) guardShowOnNodes() {
	for _, g := range l.guard.hidden {
		l.nodes.Free(g)
	}
	for _, h := range l.guard.held {
		l.nodes.HoldNode(h.gpu, h.shape, -1)
	}
	l.guard.held = l.guard.held[:0]
	l.releaseNeeds()
}

// holdNeed holds of quotas what the next start of a job needs that is due: on the types of the GPUs
// that are reserved for the job, or on the first type that has nodes for it.
func (l *Scheduler) holdNeed(j *JobState) {
	if !l.nodes.HasQuotas() || len(j.spec.Users) == 0 {
		return
	}
	hold := func(gpuType int, tasks int64) {
		l.nodes.HoldQuota(j.shape, gpuType, tasks)
		l.guard.quotas = append(l.guard.quotas, heldQuota{j.shape, gpuType, tasks})
	}
	if len(j.guarded.gpus) > 0 {
		for at, g := range l.nodes.Group(j.guarded.gpus) {
			if at%j.TaskGPUs() == 0 {
				hold(l.gpus[g].Type, 1)
			}
		}
		return
	}
	n, mix := l.nextStart(j)
	for _, m := range j.modes {
		if mix || l.nodes.Most(j.shape, m.Type) >= n {
			hold(m.Type, n)
			return
		}
	}
}

// releaseNeeds gives back what holdNeed has held.
func (l *Scheduler) releaseNeeds() {
	for _, h := range l.guard.quotas {
		l.nodes.HoldQuota(h.shape, h.gpuType, -h.tasks)
	}
	l.guard.quotas = l.guard.quotas[:0]
}
