package list

import (
	"math"

	"github.com/hare-sched/hare"
)

// This file says what a job needs for its next start, and whether GPUs in service have room for it.

// Holding says for how long a job keeps its GPUs, by the rule and the GPUs in service, and
// whether its rounds may mix types.
func (l *Scheduler) Holding(j *JobState) (hold hare.Sync, mix bool) {
	hold = max(j.spec.Sync, l.rule.Hold)
	if hold == hare.Relaxed || j.spec.Sync != hare.Relaxed {
		return hold, j.spec.Mix
	}
	all, widest := l.Room(j)
	if int64(all) < j.spec.Tasks {
		return hare.Relaxed, true
	}
	return hold, int64(widest) < j.spec.Tasks
}

// Room is how many tasks of a job GPUs in service have room for at once, in all and on one type.
func (l *Scheduler) Room(j *JobState) (all, widest int) {
	for _, m := range j.modes {
		n := int(l.Most(j, m.Type))
		all += n
		widest = max(widest, n)
	}
	if l.nodes != nil {
		all = int(l.mostTogether(j))
	}
	return all, widest
}

// Most is how many tasks of a job GPUs in service of a type have room for at once.
func (l *Scheduler) Most(j *JobState, gpuType int) int64 {
	if l.nodes == nil {
		return int64(l.inService[gpuType])
	}
	return l.nodes.Most(j.shape, gpuType)
}

// mostTogether is how many tasks of a job GPUs in service of all its types have room for at once.
func (l *Scheduler) mostTogether(j *JobState) int64 {
	if len(j.modes) == 1 {
		return l.Most(j, j.modes[0].Type)
	}
	if j.togetherAt != l.capacity+1 {
		j.together, j.togetherAt = l.nodes.MostTogether(j.shape, j.types()), l.capacity+1
	}
	return j.together
}

// FitsWhenEmpty reports whether the job's next start would find room if all GPUs in
// service were free.
func (l *Scheduler) FitsWhenEmpty(j *JobState) bool {
	hold, mix := l.Holding(j)
	all, widest := l.Room(j)
	switch {
	case hold == hare.Relaxed:
		return all > 0
	case mix:
		return int64(all) >= j.spec.Tasks
	}
	return int64(widest) >= j.spec.Tasks
}

// FitsTogether reports whether nodes have room for all tasks of a round of a job at once.
func (l *Scheduler) FitsTogether(j *JobState) bool {
	hold, _ := l.Holding(j)
	return hold != hare.Relaxed && l.FitsWhenEmpty(j)
}

// RoomNow is how many tasks of a job free GPUs of a type have room for, or limit if there are
// more.
func (l *Scheduler) RoomNow(j *JobState, gpuType int, limit int64) int64 {
	free := int64(len(l.free[gpuType]))
	if l.nodes == nil || free == 0 {
		return free
	}
	return l.nodes.Room(j.shape, gpuType, limit, nil)
}

// nextStart is how many GPUs the next start of a job takes at once, and whether they may be
// of several types.
func (l *Scheduler) nextStart(j *JobState) (gpus int64, mix bool) {
	hold := j.hold
	if j.next == 0 && len(j.redo) == 0 {
		hold, mix = l.Holding(j)
	}
	if hold == hare.Relaxed {
		return 1, true
	}
	return j.spec.Tasks, mix
}

// OpenRound decides, before the first start of a round, how long the round keeps its GPUs.
func (l *Scheduler) OpenRound(j *JobState) {
	if j.next == 0 && len(j.redo) == 0 {
		j.hold, _ = l.Holding(j)
	}
}

// slowestUs is the longest that a round of a job may take by the rule.
func (l *Scheduler) slowestUs(j *JobState) int64 {
	if l.rule.Slowest <= 0 {
		return math.MaxInt64
	}
	best := l.RoundUs(j)
	if best == 0 {
		return math.MaxInt64
	}
	return int64(min(l.rule.Slowest*float64(best), 1<<62))
}

// RoundUs is how long a round of a job takes on the fastest type that is in service
// and wide enough, or on the fastest type of all where none is. Where no speed is known,
// it is 0, or with Rule.LearnSizes the mean of the jobs that are there.
func (l *Scheduler) RoundUs(j *JobState) int64 {
	least, any := int64(0), int64(0)
	for _, m := range j.modes {
		if m.DurationUs == 0 {
			continue
		}
		if any == 0 || m.DurationUs < any {
			any = m.DurationUs
		}
		if l.Most(j, m.Type) >= j.spec.Tasks && (least == 0 || m.DurationUs < least) {
			least = m.DurationUs
		}
	}
	switch {
	case least > 0:
		return least
	case any > 0:
		return any
	}
	if l.typicalUs == 0 && l.belief != nil {
		l.typicalUs = l.meanRoundUs() // mostly nobody asks, and it takes O(jobs)
	}
	return l.typicalUs
}

// meanRoundUs is the mean time of a round over the jobs that are there, each on its
// fastest type, or 1 s where no speed is known. It takes O(jobs).
func (l *Scheduler) meanRoundUs() int64 {
	sum, n := int64(0), int64(0)
	for _, j := range l.jobs {
		if us := j.FastestUs(); us > 0 {
			sum, n = min(sum+us, hare.MaxExact), n+1
		}
	}
	if n == 0 {
		return 1e6
	}
	return max(1, sum/n)
}
