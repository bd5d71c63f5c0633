package rolling

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// This file says what a round of a job holds and for how long, and when the turn of a job comes.

// taskByTask reports whether the rest of the round at hand starts task by task: a GPU of
// the round was lost, or the round is wider than the cluster.
func taskByTask(j *list.JobState) bool {
	return j.Hold() == hare.Relaxed && j.RoundBegun()
}

// switchesAhead is by how many switches a job that can go on without one goes before its
// turn. It charges the job that would take the GPUs for its own switch, for that of the job
// to come back, and for the jobs that wait behind both. Measured with 10 s a switch on
// generated gangs, seeds 1 to 3, the value over the bound is 1.51 at 1, 1.42 at 3, 1.38 at
// 10 and 1.41 at 30.
const switchesAhead = 10

// turnUs is when the turn of a job comes by its row, or earlier for a job that has ended a
// round and can go on without a switch.
func turnUs(l *list.Scheduler, j *list.JobState, row *planner.Row) int64 {
	us := l.SwitchUs()
	if us == 0 || len(j.GPUs()) > 0 || j.Round() == 0 || taskByTask(j) {
		return row.StartUs
	}
	for _, c := range row.Types {
		if l.OwnGPUs(j, c.Type) < c.Count {
			return row.StartUs
		}
	}
	return row.StartUs - saturating.Mul(switchesAhead, us)
}

// held is how many GPUs of a type a job holds.
func (r *rolling) held(j *list.JobState, gpuType int) (n int64) {
	for _, g := range j.GPUs() {
		if r.l.Slots()[g].Type == gpuType {
			n++
		}
	}
	return n
}

// holds reports whether a job runs on the GPUs that a row names.
func (r *rolling) holds(j *list.JobState, row *planner.Row) bool {
	for _, c := range row.Types {
		if r.held(j, c.Type) < c.Count {
			return false
		}
	}
	return true
}

// longestUs is the time of a round of a job on the slowest of some types.
func longestUs(j *list.JobState, types []planner.TypeCount) (long int64) {
	for _, c := range types {
		long = max(long, j.DurationUs(c.Type))
	}
	return long
}

// endUs is when GPUs on which a job starts now are expected to come back: after a round,
// or at the end of a rigid job.
func (r *rolling) endUs(j *list.JobState, types []planner.TypeCount) int64 {
	rounds := int64(1)
	if j.Spec().Sync == hare.Rigid {
		rounds = r.belief.RoundsLeft(j)
	}
	setupUs := int64(0)
	for _, c := range types {
		setupUs = max(setupUs, r.l.SetupUs(j, c.Type, c.Count))
	}
	return r.l.NowUs() + setupUs + list.SpanUs(rounds, longestUs(j, types))
}

// holdsUs is for how long a start of a job on GPUs with rounds of roundUs holds them.
func (r *rolling) holdsUs(j *list.JobState, roundUs int64) int64 {
	if j.Spec().Sync == hare.Rigid {
		return list.SpanUs(r.belief.RoundsLeft(j), roundUs)
	}
	return roundUs
}

// heldOf are the GPUs of a type that a job holds; false where it holds none.
func (r *rolling) heldOf(o *list.JobState, gpuType int) (heldGPUs, bool) {
	l := r.l
	h := heldGPUs{job: o, count: r.held(o, gpuType), startUs: math.MinInt64}
	if h.count == 0 {
		return h, false
	}
	h.endUs = l.ProfiledEndUs(o)
	next := nextRow(o)
	switch {
	case o.Spec().Sync == hare.Rigid:
		h.restUs = list.SpanUs(r.belief.RoundsLeft(o)-1, l.HeldUs(o, gpuType))
	case next != nil && r.holds(o, next):
		h.restUs = list.SpanUs(next.Round+next.Rounds-o.Round()-1, longestUs(o, next.Types))
		if h.restUs > 0 {
			h.startUs = next.StartUs
		}
	}
	h.overdue = h.endUs < l.NowUs()
	return h, true
}

// slowestUnplanned is how many times slower than its best a type may be for a job that
// the plan has no place for.
const slowestUnplanned = 4

// slowestWithoutRow is the longest round that a job without rows may start.
func slowestWithoutRow(l *list.Scheduler, j *list.JobState) int64 {
	if slowest := slowestUnplanned * j.FastestUs(); slowest >= l.RoundUs(j) {
		return slowest
	}
	return l.RoundUs(j) // no faster type is wide enough
}

// endOf is when a job is expected to release a GPU that it holds, if a row that starts at startUs
// waits for it.
func (r *rolling) endOf(o *list.JobState, gpuType int, startUs int64) int64 {
	h, ok := r.heldOf(o, gpuType)
	if !ok {
		return 0
	}
	end := max(h.endUs, r.l.NowUs())
	if h.startUs <= startUs {
		end += h.restUs
	}
	return end
}
