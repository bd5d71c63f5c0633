package task

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// reservation keeps GPUs for the first job that does not fit, as EASY backfill does. EASY
// calls the last two fields shadow time and extra nodes.
type reservation struct {
	forJob   *JobState
	types    []bool // by type, whether its GPUs are kept
	shadowUs int64  // when enough of these GPUs are expected to be free
	extra    int64  // GPUs of these types that forJob will not need then
}

// delaysReserved says whether a job on GPUs of a type would hold them beyond the time at
// which they are reserved for another job.
func (l *ListScheduler) delaysReserved(j *JobState, m mode) bool {
	r := &l.reserved
	return r.forJob != nil && r.forJob != j && r.types[m.gpuType] && l.nowUs+j.RoundsLeft()*m.durationUs > r.shadowUs
}

// gpuEnd is a held GPU and when its job is expected to release it.
type gpuEnd struct {
	atUs    int64
	gpuType int
}

// expectedEnds lists the held GPUs by the times at which their jobs are expected to
// release them.
func (l *ListScheduler) expectedEnds() []gpuEnd {
	var ends []gpuEnd
	for _, j := range l.jobs {
		slowest := int64(0)
		for _, g := range j.gpus {
			slowest = max(slowest, j.durationUs(l.gpus[g].gpuType))
		}
		for _, g := range j.gpus {
			x := &l.gpus[g]
			end := x.sinceUs + slowest
			if j.hold == hare.Rigid {
				end += (j.RoundsLeft() - 1) * slowest
			}
			ends = append(ends, gpuEnd{max(end, l.nowUs), x.gpuType})
		}
	}
	slices.SortFunc(ends, func(a, b gpuEnd) int {
		return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.gpuType, b.gpuType))
	})
	return ends
}

// reserve reserves GPUs of the type on which the job is expected to end first. The cost
// is O(GPUs log GPUs).
func (l *ListScheduler) reserve(j *JobState) {
	hold, mix := l.holding(j)
	if hold == hare.Relaxed {
		return // the job goes on with any GPU, so it needs no reservation
	}
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
	consider := func(types []bool, durationUs int64) {
		at, extra, ok := when(types)
		if end := at + j.RoundsLeft()*durationUs; ok && (best.forJob == nil || end < bestEnd) {
			best, bestEnd = reservation{j, types, at, extra}, end
		}
	}
	for _, m := range j.modes {
		types := make([]bool, len(l.types))
		types[m.gpuType], all[m.gpuType] = true, true
		slowest = max(slowest, m.durationUs)
		consider(types, m.durationUs)
	}
	if mix {
		consider(all, slowest)
	}
	l.reserved = best
}

// durationUs is how long a task of the job takes on a type, with synchronisation.
func (j *JobState) durationUs(gpuType int) int64 {
	for _, m := range j.modes {
		if m.gpuType == gpuType {
			return m.durationUs
		}
	}
	return 0
}
