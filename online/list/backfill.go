package list

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// delaysReserved reports whether a job on GPUs of a type would hold them beyond the time at
// which they are reserved for another job.
func (l *Scheduler) delaysReserved(j *JobState, m Mode) bool {
	r := &l.reserved
	if r.forJob == nil || r.forJob == j || !r.types[m.Type] {
		return false
	}
	return m.DurationUs == 0 || l.nowUs+SpanUs(j.RoundsLeft(), m.DurationUs) > r.shadowUs
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

// Reserve reserves GPUs of the type on which the job is expected to end first, or of the
// type that it was promised. The cost is O(GPUs log GPUs).
func (l *Scheduler) Reserve(j *JobState) {
	hold, mix := l.Holding(j)
	if hold == hare.Relaxed {
		return // the job goes on with any GPU, so it needs no reservation
	}
	if l.nodes != nil {
		l.reserveNodes(j, mix)
		return
	}
	l.reserved = l.reservation(j, mix)
	if p := l.kept(j, mix); p != nil && l.reserved.forJob != nil && l.reserved.shadowUs > p.AtUs {
		l.reserved.shadowUs, l.reserved.extra = p.AtUs, 0
	}
}

// reservation finds the reservation of a job whose rounds keep their GPUs.
func (l *Scheduler) reservation(j *JobState, mix bool) reservation {
	ends := l.expectedEnds()
	// when is the time at which enough GPUs of some types are free.
	when := func(types []bool) (atUs, extra int64, ok bool) {
		room := int64(0)
		for t := range types {
			if types[t] {
				room += int64(len(l.free[t]))
			}
		}
		atUs = l.nowUs
		for i := 0; ; i++ {
			if room >= j.spec.Tasks && (i == len(ends) || ends[i].atUs > atUs) {
				return atUs, room - j.spec.Tasks, true
			}
			if i == len(ends) {
				return 0, 0, false
			}
			atUs = ends[i].atUs
			if types[ends[i].gpuType] {
				room++
			}
		}
	}
	var best reservation
	bestEnd, all, slowest := int64(0), make([]bool, len(l.types)), int64(0)
	p := l.kept(j, mix)
	consider := func(gpuType int, types []bool, durationUs int64) {
		if p != nil && p.Type != gpuType {
			return
		}
		at, extra, ok := when(types)
		if end := at + SpanUs(j.RoundsLeft(), durationUs); ok && (best.forJob == nil || end < bestEnd) {
			best, bestEnd = reservation{j, gpuType, types, at, extra}, end
		}
	}
	for _, m := range j.modes {
		types := make([]bool, len(l.types))
		types[m.Type], all[m.Type] = true, true
		durationUs := m.DurationUs
		if durationUs == 0 {
			durationUs = l.RoundUs(j)
		}
		slowest = max(slowest, durationUs)
		consider(m.Type, types, durationUs)
	}
	if mix {
		consider(-1, all, slowest)
	}
	return best
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
	for _, m := range j.modes {
		durationUs := m.DurationUs
		if durationUs == 0 {
			durationUs = l.RoundUs(j)
		}
		slowest = max(slowest, durationUs)
		consider(m.Type, []int{m.Type}, durationUs)
	}
	if mix {
		consider(-1, j.types(), slowest)
	}
	best.types = make([]bool, len(l.types))
	return best, kept
}

// promises reports whether reservations are promises.
func (l *Scheduler) promises() bool { return l.rule.Backfill && l.belief != nil }

// kept is the promise of a job, or nil where there is none that the GPUs in service allow.
func (l *Scheduler) kept(j *JobState, mix bool) *promise {
	p := j.promise
	if p == nil || p.Type < 0 && !mix || p.Type >= 0 && l.Most(j, p.Type) < j.spec.Tasks {
		return nil
	}
	return p
}

// makePromise promises GPUs to the first job that waits and needs a reservation.
func (l *Scheduler) makePromise() {
	if !l.promises() {
		return
	}
	var first *JobState
	least := 0.0
	for _, j := range l.jobs {
		if j.Ready() == 0 || !l.FitsWhenEmpty(j) {
			continue
		}
		if hold, _ := l.Holding(j); hold == hare.Relaxed || len(l.lackingQuotas(j)) > 0 {
			continue
		}
		if p := l.rule.Priority(l, j); first == nil || p < least {
			first, least = j, p
		}
	}
	if first == nil {
		return
	}
	_, mix := l.Holding(first)
	if l.kept(first, mix) != nil {
		return
	}
	first.promise = nil
	var r reservation
	if l.nodes != nil {
		r, _ = l.reservationOnNodes(first, mix)
	} else {
		r = l.reservation(first, mix)
	}
	if r.forJob != nil {
		first.promise = &promise{AtUs: r.shadowUs, Type: r.gpuType}
	}
}
