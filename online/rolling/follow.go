package rolling

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// This file starts jobs as the plan has them, and others where they delay nobody.

// visit starts a job whose turn it is, or reserves GPUs for the job.
func (r *rolling) visit(j *list.JobState, row *planner.Row) {
	switch {
	case taskByTask(j):
		r.startTasks(j)
	case len(j.GPUs()) > 0 && j.Spec().Sync == hare.Rigid:
	case len(j.GPUs()) > 0:
		// A round that runs elsewhere than the plan says ends before the job's turn.
		if !r.holds(j, row) {
			r.reserve(j, row, r.l.RoundEndUs(j))
		}
	case j.Ready() == 0:
	case r.fits(j, row.Types):
		r.start(j, row.Types)
	default:
		r.reserve(j, row, r.l.NowUs())
	}
}

// fits reports whether GPUs are free for a round of a job, and come back before they are
// due to a job that goes before.
func (r *rolling) fits(j *list.JobState, types []planner.TypeCount) bool {
	endUs := r.endUs(j, types)
	if !r.quotasAllow(j, types, endUs) {
		return false
	}
	for _, c := range types {
		v := &r.reserved[c.Type]
		if r.free[c.Type] < c.Count || v.made && endUs > v.shadowUs && v.extra < c.Count {
			return false
		}
		if r.l.Nodes() != nil && len(types) == 1 && !r.nodesHaveRoom(j, c, endUs) {
			return false
		}
	}
	if r.l.Nodes() != nil && len(types) > 1 {
		return r.l.PickMixed(j, j.Spec().Tasks, r.onNodes.Avoid(endUs)) != nil
	}
	return true
}

// start starts a round of a job that fits.
func (r *rolling) start(j *list.JobState, types []planner.TypeCount) {
	l := r.l
	l.OpenRound(j)
	endUs := r.endUs(j, types)
	if l.Nodes() != nil {
		r.startOnNodes(j, types, endUs)
		return
	}
	for _, c := range types {
		m := slices.IndexFunc(j.Modes(), func(m list.Mode) bool { return m.Type == c.Type })
		if v := &r.reserved[c.Type]; v.made && endUs > v.shadowUs {
			v.extra -= c.Count
		}
		l.StartOn(j, j.Modes()[m], c.Count)
		r.free[c.Type] -= c.Count
	}
}

// startTasks starts tasks of a round that goes task by task, as many as fit.
func (r *rolling) startTasks(j *list.JobState) {
	for _, m := range j.Modes() {
		one := []planner.TypeCount{{Type: m.Type, Count: j.Spec().TaskGPUs()}}
		for j.Ready() > 0 && r.fits(j, one) {
			r.start(j, one)
		}
	}
}

// startNewcomer starts a round of a newcomer on the cheapest type with room, or keeps
// GPUs of its cheapest type for it. No type is far slower than the job's best.
func (r *rolling) startNewcomer(t *turn) {
	slowest := slowestUnplanned * r.l.RoundUs(t.job)
	for _, m := range t.new.modes {
		types := []planner.TypeCount{{Type: m.Type, Count: t.job.Width()}}
		if m.DurationUs <= slowest && r.fits(t.job, types) {
			r.start(t.job, types)
			return
		}
	}
	r.reserve(t.job, t.row, r.l.NowUs())
}

func (r *rolling) fillWith(j *list.JobState) {
	if planOf(j).claim == nil {
		r.l.OpenRound(j)
	}
	switch {
	case j.Ready() == 0:
	case planOf(j).claim == nil && j.Hold() == hare.Relaxed:
		r.startTasks(j)
	case len(j.GPUs()) > 0 || j.Spec().Sync == hare.Rigid && planOf(j).claim != nil:
	case !r.startElsewhere(j) && (planOf(j).claim == nil || r.noNodesFor(j)):
		r.startMixed(j)
	}
}

// noNodesFor reports whether the nodes of the types of a job's next row never have room for the
// row: plans go by sums of GPUs, and the tasks of a gang that mixes types may need distinct nodes.
func (r *rolling) noNodesFor(j *list.JobState) bool {
	row := nextRow(j)
	return r.l.Nodes() != nil && row != nil && slices.ContainsFunc(row.Types, func(c planner.TypeCount) bool {
		return r.l.Most(j, c.Type) < c.Count/j.Spec().TaskGPUs()
	})
}

// startElsewhere starts a round on the fastest type that has room for it, and reports
// whether there was one.
func (r *rolling) startElsewhere(j *list.JobState) bool {
	turnUs, slowest := int64(math.MaxInt64), int64(math.MaxInt64)
	if row := nextRow(j); row != nil {
		turnUs = row.StartUs
		for _, c := range row.Types {
			if v := &r.reserved[c.Type]; v.made {
				turnUs = max(turnUs, v.shadowUs)
			}
		}
	} else {
		slowest = slowestWithoutRow(r.l, j)
	}
	for _, m := range j.Modes() {
		types := []planner.TypeCount{{Type: m.Type, Count: j.Width()}}
		if m.DurationUs <= slowest && r.endUs(j, types) <= turnUs && r.fits(j, types) {
			r.start(j, types)
			return true
		}
	}
	return false
}

// startMixed starts a round on GPUs of several types, the fastest first, where the job
// may mix types and they fit.
func (r *rolling) startMixed(j *list.JobState) {
	if _, mix := r.l.Holding(j); !mix {
		return
	}
	if r.l.Nodes() != nil {
		r.startMixedOnNodes(j)
		return
	}
	var types []planner.TypeCount
	left := j.Width()
	for _, m := range j.Modes() {
		if n := min(left, r.free[m.Type]); n > 0 {
			types = append(types, planner.TypeCount{Type: m.Type, Count: n})
			left -= n
		}
	}
	if left == 0 && r.fits(j, types) {
		r.start(j, types)
	}
}
