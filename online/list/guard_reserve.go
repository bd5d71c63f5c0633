package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// This file gives GPUs to the jobs that are due, and starts them: see guard.

// reserveDue gives GPUs to the jobs with tickets, in their order: of the type on which the
// job is expected to end its round first, the GPUs that are expected to be free first. A
// job keeps the type and its GPUs until it starts, but exchanges those of rigid jobs.
func (l *Scheduler) reserveDue() {
	if l.nodes != nil {
		l.reserveDueOnNodes()
		return
	}
	for _, j := range l.guard.due {
		n, mix := l.nextStart(j)
		if !l.FitsWhenEmpty(j) {
			l.dropReservation(j)
			continue
		}
		x := &j.guarded
		switch {
		case !x.chosen:
			l.chooseType(j, n, mix)
		case x.onType >= 0 && !mix:
			l.chooseFree(j, n)
		}
		l.exchangeRigid(j)
		l.fillReservation(j, n)
	}
}

// unreserved lists the GPUs in service that a job may reserve, of a type or, if gpuType is
// below 0, of all its types, the first to be free first. With all, GPUs that jobs with
// earlier tickets have reserved come as well, behind a round of these jobs.
func (l *Scheduler) unreserved(j *JobState, gpuType int, all bool) []gpuAvailable {
	var out []gpuAvailable
	for g := range l.gpus {
		x := &l.gpus[g]
		if !x.InService || gpuType >= 0 && x.Type != gpuType || gpuType < 0 && !j.uses(x.Type) {
			continue
		}
		o := l.guard.reservedBy[g]
		if o != nil && !all {
			continue
		}
		ga := l.available(g)
		if o != nil {
			ga.atUs = add(ga.atUs, max(o.guarded.roundUs, o.DurationUs(x.Type)))
		}
		out = append(out, ga)
	}
	slices.SortFunc(out, func(a, b gpuAvailable) int { return a.before(&b) })
	return out
}

// chooseType chooses the type of a job's reservation.
func (l *Scheduler) chooseType(j *JobState, n int64, mix bool) {
	x := &j.guarded
	x.chosen, x.onType = true, -1
	if mix {
		return
	}
	best := int64(math.MaxInt64)
	for _, m := range j.modes {
		if int64(l.inService[m.Type]) < n {
			continue
		}
		ends := l.unreserved(j, m.Type, true)
		endUs := add(ends[n-1].atUs, j.roundOnUs(m.Type))
		if x.onType < 0 || endUs < best {
			best, x.onType = endUs, m.Type
		}
	}
}

// chooseFree moves a reservation to another type where GPUs are free and the round is
// expected to end sooner there.
func (l *Scheduler) chooseFree(j *JobState, n int64) {
	x := &j.guarded
	for _, m := range j.modes {
		if m.Type == x.onType || int64(len(l.free[m.Type])) < n {
			continue
		}
		free := int64(0)
		for _, g := range l.free[m.Type] {
			if l.guard.reservedBy[g] == nil {
				free++
			}
		}
		if free < n || add(l.nowUs, j.roundOnUs(m.Type)) > l.ReservedEndUs(j) {
			continue
		}
		l.dropReservation(j)
		x.chosen, x.onType = true, m.Type
		return
	}
}

// ReservedEndUs is when a round of a job on the GPUs that are reserved for it is expected
// to end.
func (l *Scheduler) ReservedEndUs(j *JobState) int64 {
	end, round := l.nowUs, int64(0)
	for _, g := range j.guarded.gpus {
		end = max(end, l.available(g).atUs)
		round = max(round, j.roundOnUs(l.gpus[g].Type))
	}
	return add(end, round)
}

// fillReservation reserves GPUs for a job up to n.
func (l *Scheduler) fillReservation(j *JobState, n int64) {
	x := &j.guarded
	if int64(len(x.gpus)) >= n {
		return
	}
	for _, ga := range l.unreserved(j, x.onType, false) {
		if int64(len(x.gpus)) == n {
			return
		}
		l.reserveGPU(j, ga.gpu)
	}
}

// exchangeRigid exchanges reserved GPUs that rigid jobs hold for GPUs that no rigid job
// holds, as far as there are any.
func (l *Scheduler) exchangeRigid(j *JobState) {
	rigid := slices.DeleteFunc(slices.Clone(j.guarded.gpus), func(g int) bool {
		o := l.gpus[g].Job
		return o == nil || o.spec.Sync != hare.Rigid
	})
	if len(rigid) == 0 {
		return
	}
	for i, ga := range l.unreserved(j, j.guarded.onType, false) {
		if i == len(rigid) || ga.rigid {
			return
		}
		l.unreserveGPU(j, rigid[i])
		l.reserveGPU(j, ga.gpu)
	}
}

// guardStart starts the jobs whose GPUs are all free, and takes the other GPUs that are
// reserved and free from the others until guardShow.
func (l *Scheduler) guardStart() {
	if !l.guards() {
		return
	}
	if l.nodes != nil {
		l.guardStartOnNodes()
		return
	}
	for _, j := range slices.Clone(l.guard.due) {
		n, _ := l.nextStart(j)
		if int64(len(j.guarded.gpus)) != n || slices.ContainsFunc(j.guarded.gpus,
			func(g int) bool { return l.gpus[g].Job != nil }) {
			continue
		}
		l.OpenRound(j)
		told := -1
		for _, g := range slices.Clone(j.guarded.gpus) {
			t := l.gpus[g].Type
			if t != told && l.rule.Started != nil {
				l.rule.Started(l, j, t)
			}
			told = t
			at, _ := slices.BinarySearch(l.free[t], g)
			l.start(j, l.hold(j, t, at))
		}
	}
	for _, j := range l.guard.due {
		for _, g := range j.guarded.gpus {
			t := l.gpus[g].Type
			if at, free := slices.BinarySearch(l.free[t], g); free {
				l.free[t] = slices.Delete(l.free[t], at, at+1)
				l.guard.hidden = append(l.guard.hidden, g)
			}
		}
	}
}

// guardShow gives back what guardStart took.
func (l *Scheduler) guardShow() {
	if l.nodes != nil {
		l.guardShowOnNodes()
	}
	for _, g := range l.guard.hidden {
		t := l.gpus[g].Type
		at, _ := slices.BinarySearch(l.free[t], g)
		l.free[t] = slices.Insert(l.free[t], at, g)
	}
	l.guard.hidden = l.guard.hidden[:0]
}

// GuardReleases adds when the GPUs that guardStart took are expected to be free.
func (l *Scheduler) GuardReleases(ends []GPURelease, gpuType int) []GPURelease {
	for _, g := range l.guard.hidden {
		if l.gpus[g].Type != gpuType {
			continue
		}
		at := l.nowUs
		if j := l.guard.reservedBy[g]; j != nil { // otherwise the job has started elsewhere meanwhile
			at = l.ReservedEndUs(j)
		}
		ends = append(ends, GPURelease{at, 1})
	}
	return ends
}

// GPURelease is some GPUs of a type and when they are expected to be free.
type GPURelease struct{ AtUs, Count int64 }
