package greedy

import (
	"github.com/hare-sched/hare"
)

// supply is what the classes that a job may use have free over time, as one
// list of changes, read from the profiles as far as it is asked for.
type supply struct {
	b       *board
	classes []int32  // of the job's modes, those of one mode together
	mode    []int    // by place in classes
	step    []int    // by place in classes, its profile's next step
	later   timeline // by class, its next change; at is its place in classes
	times   []int64  // of changes so far
	first   []int    // by time, where its changes start
	at      []int32  // by change: place in classes
	free    []int32  // by change: free from then on
}

// view is what is free at one time: next is the first change after it.
type view struct {
	next int
	free []int32 // by place in classes
}

func (v *view) copyFrom(o *view) {
	v.next = o.next
	v.free = append(v.free[:0], o.free...)
}

// newSupply is the supply of j's modes from t on, and what is free then.
// O(classes · log steps).
func newSupply(b *board, j *hare.ModelJob, t int64) (*supply, view) {
	s := &supply{b: b}
	var v view
	for i := range j.Modes {
		for _, c := range b.byType[j.Modes[i].Type] {
			p := b.profiles[c]
			x := p.index(t)
			at := int32(len(s.classes))
			s.classes, s.mode, s.step = append(s.classes, c), append(s.mode, i), append(s.step, x+1)
			v.free = append(v.free, p.free[x])
			if x+1 < len(p.times) {
				s.later.push(timed{p.times[x+1], at})
			}
		}
	}
	return s, v
}

// time is when change x takes place; never after the last.
func (s *supply) time(x int) int64 {
	for x >= len(s.times) {
		if len(s.later) == 0 {
			return never
		}
		t := s.later[0].time
		s.times, s.first = append(s.times, t), append(s.first, len(s.at))
		for len(s.later) > 0 && s.later[0].time == t {
			at := s.later[0].at
			p := s.b.profiles[s.classes[at]]
			i := s.step[at]
			s.at, s.free = append(s.at, at), append(s.free, p.free[i])
			if s.step[at]++; i+1 < len(p.times) {
				s.later.replace(timed{p.times[i+1], at})
			} else {
				s.later.pop()
			}
		}
	}
	return s.times[x]
}

// left is the number of steps of the profiles from the start on.
func (s *supply) left() (n int64) {
	for at, c := range s.classes {
		n += int64(len(s.b.profiles[c].times) - s.step[at])
	}
	return n
}

// changes are the places and new counts of change x, which time has seen.
func (s *supply) changes(x int) ([]int32, []int32) {
	to := len(s.at)
	if x+1 < len(s.first) {
		to = s.first[x+1]
	}
	return s.at[s.first[x]:to], s.free[s.first[x]:to]
}

// forward moves v to time t.
func (s *supply) forward(v *view, t int64) {
	for s.time(v.next) <= t {
		s.apply(v)
	}
}

// apply moves v to its next change, which exists; it reports whether some
// class has more GPUs free than before.
func (s *supply) apply(v *view) (rises bool) {
	at, free := s.changes(v.next)
	for i, c := range at {
		rises = rises || free[i] > v.free[c]
		v.free[c] = free[i]
	}
	v.next++
	return rises
}
