package leases

import (
	"context"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// gavelFIFO gives jobs a whole type, first come first served.
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400. There the plain form
// keeps what it gave before. For a new job it draws a type at random among those
// with room, but then gives the last type by name that has a free GPU, room or
// not, and takes the drawn one off the list once the given one is used up
// exactly. This is followed draw by draw, since the published figures come from
// it; so shares of the plain form can need more GPUs than there are, and rounds
// grant what fits (sim.Shares.Oversubscribed).
//
// With perf, all is given again each time, each job in the order of arrival the
// type with room on which it is fastest; the queue stops at the first job that
// fits nowhere.
type gavelFIFO struct {
	perf     bool
	draws    *sim.Twister
	assigned []assigned // by number of the job
}

type assigned struct{ number, kind int }

var _ SharePolicy = (*gavelFIFO)(nil)

func (gf *gavelFIFO) LeaseTraits() Traits {
	return Traits{ShuffleTypes: !gf.perf, OnlyShares: true}
}

// Shares is O(jobs × types), and O(jobs²) at worst when many jobs end at once.
func (gf *gavelFIFO) Shares(_ context.Context, s *State, out *Shares) error {
	if gf.perf {
		gf.assigned = gf.assigned[:0]
	}
	free := slices.Clone(s.GPUs)
	kept := gf.assigned
	gf.assigned = nil
	var queue []int // indices into s.Jobs
	for i := range s.Jobs {
		if !slices.ContainsFunc(kept, func(g assigned) bool { return g.number == s.Jobs[i].Number }) {
			queue = append(queue, i)
		}
	}
	for _, g := range kept {
		if i, there := indexOf(s, g.number); there {
			free[g.kind] -= s.Jobs[i].GPUs
			gf.assigned = append(gf.assigned, g)
			continue
		}
		// The head of the queue inherits the type of a job that has ended.
		if len(queue) > 0 {
			if j := &s.Jobs[queue[0]]; j.GPUs <= free[g.kind] && j.Rate[g.kind] > 0 {
				gf.give(j, g.kind, free)
				queue = queue[1:]
			}
		}
	}
	var open []int // types
	for k, n := range free {
		if n > 0 {
			open = append(open, k)
		}
	}
	for len(queue) > 0 && len(open) > 0 {
		j := &s.Jobs[queue[0]]
		queue = queue[1:]
		var room []int // indices into open
		for i, k := range open {
			if free[k] >= j.GPUs {
				room = append(room, i)
			}
		}
		if len(room) == 0 {
			break
		}
		kind, at := gf.pick(j, open, room)
		if j.Rate[kind] > 0 {
			gf.give(j, kind, free)
			if free[kind] == 0 {
				open = slices.Delete(open, at, at+1)
			}
		}
	}
	slices.SortFunc(gf.assigned, func(a, b assigned) int { return a.number - b.number })
	for _, g := range gf.assigned {
		if i, there := indexOf(s, g.number); there {
			out.Share[i*len(s.Types)+g.kind] = 1
		}
	}
	out.Oversubscribed = !gf.perf
	return nil
}

// pick gives the type for a job and the place in open that is taken off when
// the type is used up.
func (gf *gavelFIFO) pick(j *View, open, room []int) (kind, at int) {
	if !gf.perf {
		return open[len(open)-1], room[gf.draws.Below(len(room))]
	}
	at = room[0]
	for _, i := range room[1:] {
		if j.Rate[open[i]] > j.Rate[open[at]] {
			at = i
		}
	}
	return open[at], at
}

func (gf *gavelFIFO) give(j *View, kind int, free []int) {
	gf.assigned = append(gf.assigned, assigned{j.Number, kind})
	free[kind] -= j.GPUs
}

// indexOf finds a job by its number; jobs rise by number.
func indexOf(s *State, number int) (int, bool) {
	return slices.BinarySearchFunc(s.Jobs, number, func(j View, n int) int { return j.Number - n })
}
