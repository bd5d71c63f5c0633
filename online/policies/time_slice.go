package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// timeSlice is the part of a rule that lets a job keep its GPUs for some time, from
// round to round, before it must ask again. A slice ends with the round in which it
// runs out, and with the job.
type timeSlice struct{ lengthUs int64 }

// started begins a slice where none runs. It is Rule.started.
func (ts timeSlice) started(l *list.Scheduler, j *list.JobState, gpuType int) {
	if l.NowUs() >= j.LeaseEndUs {
		j.LeaseEndUs = l.NowUs() + ts.lengthUs
	}
	j.OnlyType = -1
	if _, mix := l.Holding(j); j.Hold() != hare.Relaxed && !mix {
		j.OnlyType = gpuType
	}
}

// runs reports whether a job has time left.
func (ts timeSlice) runs(l *list.Scheduler, j *list.JobState) bool { return l.NowUs() < j.LeaseEndUs }

// review frees a job that waits at the end of a round to go to any type, where its
// slice has run out or its GPUs are gone.
func (ts timeSlice) review(l *list.Scheduler, j *list.JobState) {
	if !ts.runs(l, j) || j.OnlyType >= 0 && l.RoomNow(j, j.OnlyType, j.Spec().Tasks) < j.Spec().Tasks {
		j.OnlyType = -1
	}
}
