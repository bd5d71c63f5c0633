package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

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

// TryStart starts one task of a job whose tasks start one by one, or a whole round of
// another job. It reports whether there was room.
func (l *Scheduler) TryStart(j *JobState) bool {
	l.OpenRound(j)
	n := j.spec.Tasks
	if j.hold == hare.Relaxed {
		n = 1
	}
	slowest := l.slowestUs(j)
	for _, m := range j.modes {
		if m.DurationUs <= slowest && l.CanUse(j, m, n) {
			l.StartOn(j, m, n)
			return true
		}
	}
	if j.hold == hare.Relaxed {
		return false
	}
	_, mix := l.Holding(j)
	return mix && l.tryStartMixed(j)
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

// OpenRound decides, before the first start of a round, how long the round keeps its GPUs.
func (l *Scheduler) OpenRound(j *JobState) {
	if j.next == 0 && len(j.redo) == 0 {
		j.hold, _ = l.Holding(j)
	}
}

// tryStartMixed starts a round on GPUs of several types, the first mode first.
func (l *Scheduler) tryStartMixed(j *JobState) bool {
	if l.nodes != nil {
		return l.tryStartMixedOnNodes(j)
	}
	left, extra := j.spec.Tasks, l.reserved.extra
	counts := make([]int64, len(j.modes))
	for i, m := range j.modes {
		n := min(left, int64(len(l.free[m.Type])))
		if l.delaysReserved(j, m) {
			n = min(n, extra)
			extra -= n
		}
		counts[i] = n
		left -= n
	}
	if left > 0 {
		return false
	}
	for i, m := range j.modes {
		l.StartOn(j, m, counts[i])
	}
	return true
}

// CanUse reports whether n GPUs of a type are free for a job, and not reserved for
// another.
func (l *Scheduler) CanUse(j *JobState, m Mode, n int64) bool {
	if int64(len(l.free[m.Type])) < n || j.OnlyType >= 0 && j.OnlyType != m.Type {
		return false
	}
	if l.nodes != nil {
		return l.nodes.Room(j.shape, m.Type, n, l.Avoid(j, m)) >= n && l.quotasAllow(j, m, n)
	}
	return !l.delaysReserved(j, m) || l.reserved.extra >= n
}

// StartOn starts the job's next n tasks on free GPUs of a type.
func (l *Scheduler) StartOn(j *JobState, m Mode, n int64) {
	if l.nodes == nil && l.delaysReserved(j, m) {
		l.reserved.extra -= n
	}
	if l.rule.Started != nil && n > 0 {
		l.rule.Started(l, j, m.Type)
	}
	if l.nodes != nil {
		l.useQuotas(j, m, n)
		l.StartGPUs(j, l.Pick(j, m.Type, n, l.Avoid(j, m)))
		return
	}
	at := 0
	if l.rule.OneNode && n > 1 {
		at = l.bestFit(m.Type, n)
	}
	if l.rule.Sticky {
		for _, g := range j.last {
			if place, free := slices.BinarySearch(l.free[m.Type], g); free && n > 0 {
				l.start(j, l.hold(j, m.Type, place))
				n--
			}
		}
	}
	for range n {
		l.start(j, l.hold(j, m.Type, at))
	}
}

// bestFit is the index of the first free GPU of the node that has the fewest free GPUs of
// the type among the nodes with at least n, or 0 where no node has n. The cost is O(free
// GPUs).
func (l *Scheduler) bestFit(gpuType int, n int64) int {
	free, best, least := l.free[gpuType], 0, int64(0)
	for from := 0; from < len(free); {
		to := from
		for to < len(free) && l.gpus[free[to]].node == l.gpus[free[from]].node {
			to++
		}
		if have := int64(to - from); have >= n && (least == 0 || have < least) {
			best, least = from, have
		}
		from = to
	}
	return best
}
