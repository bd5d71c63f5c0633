package place

import (
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// mergedProfile is the free capacity over time of the classes that a job may use: a list
// of changes in order of time, merged from the profiles as far as a caller asks.
type mergedProfile struct {
	b       *Residual
	classes []int32   // the classes of the job's modes, sorted by mode
	mode    []int     // by index in classes
	step    []int     // by index in classes: the next step of the profile
	pending eventHeap // the next change of each class; at is an index in classes
	times   []int64   // the times of the changes read so far
	first   []int     // by time: the index of its first change
	at      []int32   // by change: the index in classes
	free    []int32   // by change: the free GPUs from then on
}

// cursor is a position in the list with what is free there; next is the first change
// after it.
type cursor struct {
	next int
	free []int32 // by index in classes
}

func (cu *cursor) copyFrom(o *cursor) {
	cu.next = o.next
	cu.free = append(cu.free[:0], o.free...)
}

// newMergedProfile returns the capacity of j's modes from t on, and what is free at t.
// It takes O(classes · log steps).
func newMergedProfile(res *Residual, j *model.Job, t int64) (*mergedProfile, cursor) {
	mp := &mergedProfile{b: res}
	var v cursor
	for i := range j.Modes {
		for _, c := range res.byType[j.Modes[i].Type] {
			p := res.Profiles[c]
			x := p.Index(t)
			at := int32(len(mp.classes))
			mp.classes, mp.mode, mp.step = append(mp.classes, c), append(mp.mode, i), append(mp.step, x+1)
			v.free = append(v.free, p.Count(x))
			if x+1 < p.Steps() {
				mp.pending.push(event{p.Time(x + 1), at})
			}
		}
	}
	return mp, v
}

// time returns when change x takes place, or never after the last change.
func (mp *mergedProfile) time(x int) int64 {
	for x >= len(mp.times) {
		if len(mp.pending) == 0 {
			return room.Never
		}
		t := mp.pending[0].time
		mp.times, mp.first = append(mp.times, t), append(mp.first, len(mp.at))
		for len(mp.pending) > 0 && mp.pending[0].time == t {
			at := mp.pending[0].at
			p := mp.b.Profiles[mp.classes[at]]
			i := mp.step[at]
			mp.at, mp.free = append(mp.at, at), append(mp.free, p.Count(i))
			if mp.step[at]++; i+1 < p.Steps() {
				mp.pending.replace(event{p.Time(i + 1), at})
			} else {
				mp.pending.pop()
			}
		}
	}
	return mp.times[x]
}

// remaining returns the number of steps of the profiles from the start on.
func (mp *mergedProfile) remaining() (n int64) {
	for at, c := range mp.classes {
		n += int64(mp.b.Profiles[c].Steps() - mp.step[at])
	}
	return n
}

// changes returns the classes and the new counts at time number x, which must have been
// read.
func (mp *mergedProfile) changes(x int) ([]int32, []int32) {
	to := len(mp.at)
	if x+1 < len(mp.first) {
		to = mp.first[x+1]
	}
	return mp.at[mp.first[x]:to], mp.free[mp.first[x]:to]
}

// advance moves v to time t.
func (mp *mergedProfile) advance(v *cursor, t int64) {
	for mp.time(v.next) <= t {
		mp.apply(v)
	}
}

// apply moves v past its next change, which must exist, and reports whether some class
// gains free GPUs.
func (mp *mergedProfile) apply(v *cursor) (rises bool) {
	at, free := mp.changes(v.next)
	for i, c := range at {
		rises = rises || free[i] > v.free[c]
		v.free[c] = free[i]
	}
	v.next++
	return rises
}
