package list

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// reservation keeps GPUs for the first job that does not fit, as EASY backfill does. EASY
// calls the last two fields shadow time and extra nodes.
type reservation struct {
	forJob   *JobState
	gpuType  int    // the type whose GPUs are kept, or −1 for all that the job may use
	types    []bool // by type, whether its GPUs are kept
	shadowUs int64  // when enough of these GPUs are expected to be free
	extra    int64  // GPUs of these types that forJob will not need then
}

// delaysReserved reports whether a job on GPUs of a type would hold them beyond the time at
// which they are reserved for another job.
func (l *Scheduler) delaysReserved(j *JobState, m Mode) bool {
	r := &l.reserved
	if r.forJob == nil || r.forJob == j || !r.types[m.Type] {
		return false
	}
	return m.DurationUs == 0 || l.nowUs+SpanUs(j.RoundsLeft(), m.DurationUs) > r.shadowUs
}

// gpuEnd is a held GPU and when its job is expected to release it.
type gpuEnd struct {
	atUs    int64
	gpuType int
}

// expectedEnds lists the held GPUs by the times at which their jobs are expected to
// release them.
func (l *Scheduler) expectedEnds() []gpuEnd {
	var ends []gpuEnd
	for _, j := range l.jobs {
		slowest := int64(0)
		for _, g := range j.gpus {
			slowest = max(slowest, j.DurationUs(l.gpus[g].Type))
		}
		if slowest == 0 {
			slowest = l.RoundUs(j)
		}
		for _, g := range j.gpus {
			x := &l.gpus[g]
			end := x.SinceUs + slowest
			if j.hold == hare.Rigid {
				end += SpanUs(j.RoundsLeft()-1, slowest)
			}
			ends = append(ends, gpuEnd{max(end, l.nowUs), x.Type})
		}
	}
	slices.SortFunc(ends, func(a, b gpuEnd) int {
		return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.gpuType, b.gpuType))
	})
	return ends
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

// promise is the first reservation of a job, where ends are only believed. What is
// believed changes, and a reservation that moved with it would let short jobs pass the
// first for ever. So the time and the type stay: from the promised time on, no job that
// comes after it takes a GPU of that type before the job.
type promise struct {
	AtUs int64 `json:"at_us"`
	Type int   `json:"type"` // −1 means all that the job may use
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

// DurationUs is how long a task of the job takes on a type, with synchronisation.
func (j *JobState) DurationUs(gpuType int) int64 {
	for _, m := range j.modes {
		if m.Type == gpuType {
			return m.DurationUs
		}
	}
	return 0
}
