package policies

import "github.com/hare-sched/hare"

// timeSlice is the part of a rule that lets a job keep its GPUs for some time, from
// round to round, before it must ask again. A slice ends with the round in which it
// runs out, and with the job.
type timeSlice struct{ lengthUs int64 }

// started begins a slice where none runs. It is Rule.started.
func (ts timeSlice) started(l *ListScheduler, j *JobState, gpuType int) {
	if l.nowUs >= j.leaseEndUs {
		j.leaseEndUs = l.nowUs + ts.lengthUs
	}
	j.onlyType = -1
	if _, mix := l.holding(j); j.hold != hare.Relaxed && !mix {
		j.onlyType = gpuType
	}
}

// runs reports whether a job has time left.
func (ts timeSlice) runs(l *ListScheduler, j *JobState) bool { return l.nowUs < j.leaseEndUs }

// review frees a job that waits at the end of a round to go to any type, where its
// slice has run out or its GPUs are gone.
func (ts timeSlice) review(l *ListScheduler, j *JobState) {
	if !ts.runs(l, j) || j.onlyType >= 0 && l.roomNow(j, j.onlyType, j.spec.Tasks) < j.spec.Tasks {
		j.onlyType = -1
	}
}
