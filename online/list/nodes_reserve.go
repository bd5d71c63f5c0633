package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// NodeReservation keeps whole nodes for the first job that does not fit, where the scheduler
// goes by nodes: EASY backfill. Other jobs run on these nodes only if they end before.
type NodeReservation map[int32]int64 // the time until which a node may be used

// Keep adds the nodes of GPUs. A node that is kept for two jobs may be used until the first of them needs it.
func (nr NodeReservation) Keep(l *Scheduler, gpus []int, untilUs int64) {
	for _, g := range gpus {
		n := l.nodes.Node(g)
		if sooner, kept := nr[n]; !kept || untilUs < sooner {
			nr[n] = untilUs
		}
	}
}

// Avoid says which nodes a job must not use whose tasks would run until endUs.
func (nr NodeReservation) Avoid(endUs int64) placement.Avoid {
	if len(nr) == 0 {
		return nil
	}
	return func(node int32) bool {
		untilUs, kept := nr[node]
		return kept && endUs > untilUs
	}
}

// Avoid says which nodes a job must not use in a mode, because they are reserved for another.
func (l *Scheduler) Avoid(j *JobState, m Mode) placement.Avoid {
	if r := &l.reserved; r.forJob == nil || r.forJob == j || len(l.onNodes) == 0 {
		return nil
	}
	endUs := int64(math.MaxInt64)
	if m.DurationUs > 0 {
		endUs = add(l.nowUs, SpanUs(j.RoundsLeft(), m.DurationUs))
	}
	return l.onNodes.Avoid(endUs)
}

// Use describes a GPU in service by the end that is expected of its job.
func (l *Scheduler) Use(g int, endUs func(*JobState, int) int64) placement.Use {
	x := &l.gpus[g]
	if x.Job == nil {
		return placement.Use{}
	}
	u := placement.Use{AtUs: max(endUs(x.Job, g), l.nowUs)}
	if x.lead {
		u.CPUMilli, u.MemoryMiB = l.nodes.Uses(x.Job.shape)
	}
	return u
}

// expectedEndUs is when a job is expected to release a GPU.
func (l *Scheduler) expectedEndUs(j *JobState, _ int) int64 {
	slowest, sinceUs := int64(0), int64(0)
	for _, g := range j.gpus {
		slowest = max(slowest, l.HeldUs(j, l.gpus[g].Type))
		sinceUs = max(sinceUs, l.gpus[g].SinceUs)
	}
	if slowest == 0 {
		slowest = l.RoundUs(j)
	}
	end := sinceUs + slowest
	if j.hold == hare.Rigid {
		end += SpanUs(j.RoundsLeft()-1, slowest)
	}
	return end
}

// reservationOnNodes is reservation where the scheduler goes by nodes, and the GPUs that are
// kept.
func (l *Scheduler) reservationOnNodes(j *JobState, mix bool) (best reservation, kept []int) {
	bestEnd, p := int64(0), l.kept(j, mix)
	ends := map[*JobState]int64{}
	endUs := func(o *JobState, g int) int64 {
		end, known := ends[o]
		if !known {
			end = l.expectedEndUs(o, g)
			ends[o] = end
		}
		return end
	}
	consider := func(gpuType int, types []int, durationUs int64) {
		if p != nil && p.Type != gpuType || l.nodes.QuotaRoomTogether(j.shape, types) < j.spec.Tasks {
			return
		}
		at, gpus, ok := l.nodes.Earliest(j.shape, types, j.spec.Tasks,
			func(g int) placement.Use { return l.Use(g, endUs) })
		at = max(at, l.nowUs)
		if end := at + SpanUs(j.RoundsLeft(), durationUs); ok && (best.forJob == nil || end < bestEnd) {
			best, bestEnd = reservation{forJob: j, gpuType: gpuType, shadowUs: at}, end
			kept = gpus
		}
	}
	slowest := int64(0)
	var all []int
	for _, m := range j.modes {
		durationUs := m.DurationUs
		if durationUs == 0 {
			durationUs = l.RoundUs(j)
		}
		slowest = max(slowest, durationUs)
		all = append(all, m.Type)
		consider(m.Type, []int{m.Type}, durationUs)
	}
	if mix {
		consider(-1, all, slowest)
	}
	best.types = make([]bool, len(l.types))
	return best, kept
}

// reserveNodes reserves nodes for the first job that does not fit.
func (l *Scheduler) reserveNodes(j *JobState, mix bool) {
	var kept []int
	l.reserved, kept = l.reservationOnNodes(j, mix)
	if l.reserved.forJob == nil {
		return
	}
	if p := l.kept(j, mix); p != nil && l.reserved.shadowUs > p.AtUs {
		l.reserved.shadowUs = p.AtUs
	}
	l.onNodes = NodeReservation{}
	l.onNodes.Keep(l, kept, l.reserved.shadowUs)
	for _, m := range j.modes {
		if l.reserved.gpuType == m.Type || l.reserved.gpuType < 0 {
			l.reserveQuotas(j, l.nodes.Quotas(j.shape, m.Type), l.reserved.shadowUs)
		}
	}
}

// tryStartMixedOnNodes starts a round on GPUs of several types, the first mode first.
func (l *Scheduler) tryStartMixedOnNodes(j *JobState) bool {
	var avoid placement.Avoid
	for _, m := range j.modes {
		if a := l.Avoid(j, m); a != nil {
			avoid = l.onNodes.Avoid(math.MaxInt64)
		}
		if !l.quotasAllow(j, m, j.spec.Tasks) {
			return false
		}
	}
	gpus := l.PickMixed(j, j.spec.Tasks, avoid)
	if gpus == nil {
		return false
	}
	if l.rule.Started != nil {
		for _, m := range j.modes {
			if slices.ContainsFunc(gpus, func(g int) bool { return l.gpus[g].Type == m.Type }) {
				l.rule.Started(l, j, m.Type)
			}
		}
	}
	l.StartGPUs(j, gpus)
	return true
}

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
		var types []int
		for _, m := range j.modes {
			types = append(types, m.Type)
		}
		_, gpus, _ := l.nodes.Earliest(j.shape, types, n, use)
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

// heldForGuard are the CPUs and the memory that are taken from the others for a task, beside
// its GPUs.
type heldForGuard struct {
	gpu   int
	shape placement.Shape
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
