package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// This file starts a job where there is room beside what is reserved for others.

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

// Pick chooses GPUs of a type for n tasks of a job: those of its last round where the rule is
// sticky and they are free and enough, or the best fit. It is nil where there is no room.
func (l *Scheduler) Pick(j *JobState, gpuType int, n int64, avoid placement.Avoid) []int {
	if l.rule.Sticky && n == j.spec.Tasks && l.lastIsFree(j, gpuType, avoid) {
		return j.last
	}
	if l.rule.Picks != nil && n == j.spec.Tasks {
		if gpus := l.rule.Picks(l, j, gpuType, avoid); gpus != nil {
			return gpus
		}
	}
	gpus := l.nodes.Pick(nil, j.shape, gpuType, n, avoid)
	if int64(len(gpus)) < n*j.spec.TaskGPUs() {
		return nil
	}
	return gpus
}

// lastIsFree reports whether a job could run its next round where it ran the last one, on GPUs
// of a type.
func (l *Scheduler) lastIsFree(j *JobState, gpuType int, avoid placement.Avoid) bool {
	if int64(len(j.last)) != j.Width() {
		return false
	}
	for _, g := range j.last {
		if l.gpus[g].Type != gpuType || !l.nodes.IsFree(g) || avoid != nil && avoid(l.nodes.Node(g)) {
			return false
		}
	}
	return l.nodes.Check(j.shape, j.last) == ""
}

// PickMixed chooses GPUs of several types for n tasks of a job, the first mode first; nil where
// there is no room.
func (l *Scheduler) PickMixed(j *JobState, n int64, avoid placement.Avoid) []int {
	return l.nodes.PickMixed(j.shape, j.types(), n, avoid)
}
