package search

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
)

// The first states of the annealing are list schedules that know the prices of the relaxation: these are dual values
// of GPU-time, so that a place which costs w (C − a) and λ times the price of its GPU-time is charged what it takes
// from other jobs (a Lagrangian heuristic: Fisher, "The Lagrangian relaxation method for solving integer programming
// problems", Management Science 27, 1981). λ is tried a little below 1 too, because the prices of a bound are of an
// optimum in which jobs are divided, and a schedule cannot use every gap. Orders are tried by several ranks, gangs in
// one piece and by every plan.

// listScheduler schedules jobs one after another, each at the place with the least w (C
// − a) + λ · price of its GPU-time.
type listScheduler struct {
	p          *annealProblem
	finder     *room.Finder
	capacities []room.Capacity
	work       int64   // the number of places tried so far
	ends       []int64 // by job of the order that is placed; nil where no job waits for others
}

func newListScheduler(ap *annealProblem) *listScheduler {
	ls := &listScheduler{p: ap, finder: ap.newFinder()}
	if ap.nodes == nil {
		ls.finder.Floors = make([]room.Floor, len(ap.empty))
	}
	for k := range ap.empty {
		ls.capacities = append(ls.capacities, room.NewCapacity(ap.empty[k]))
	}
	return ls
}

// schedule places the jobs in order and stores each job's plan in plan. It returns false
// if a job has no place or ctx has ended. Plans lists the plans to try for a job; a call
// of try reports whether the plan is the best so far.
func (ls *listScheduler) schedule(ctx context.Context, order []int32, lambda float64,
	plans func(i int32, try func(room.JobPlan) bool), plan []room.JobPlan) (value float64, ok bool) {
	for k := range ls.capacities {
		ls.capacities[k].CopyFrom(ls.p.empty[k])
		ls.finder.Forget(int16(k))
	}
	for k := range ls.finder.Floors {
		ls.finder.Floors[k].Reset()
	}
	var kept []room.Segment
	if ls.p.ordered && ls.ends == nil {
		ls.ends = make([]int64, len(ls.p.jobs))
	}
	last := int64(0)
	for n, i := range order {
		if n%64 == 0 && ctx.Err() != nil {
			return 0, false
		}
		j := &ls.p.jobs[i]
		ready := j.Release
		for _, e := range j.Before {
			ready = max(ready, ls.ends[e.Job]+e.Lag)
		}
		best := room.Never
		var bestCost float64
		try := func(p room.JobPlan) bool {
			ls.work++
			form := j.Form(p.Shape)
			end, ok := ls.finder.PlaceFrom(form, max(ready, form.Release), &p, ls.capacities)
			if !ok {
				return false
			}
			cost := j.Cost(end)
			if lambda > 0 {
				for x := range ls.finder.Segments {
					s := &ls.finder.Segments[x]
					cost += lambda * float64(s.Width) * (ls.p.cumulativePrice(s.Type,
						s.End) - ls.p.cumulativePrice(s.Type, s.Start))
				}
			}
			if best == room.Never || cost < bestCost || cost == bestCost && end < best {
				best, bestCost, plan[i] = end, cost, p
				kept = append(kept[:0], ls.finder.Segments...)
				return true
			}
			return false
		}
		plans(i, try)
		if best == room.Never {
			return 0, false
		}
		trim(&plan[i], kept)
		for x := range kept {
			if nl := ls.p.nodes; nl != nil {
				nl.Reserve(ls.capacities[nl.Column[kept[x].Type]], j.Form(kept[x].Shape), kept[x].Type, kept[x].Pool,
					int64(kept[x].Width),
					kept[x].Start, kept[x].End, kept[x].Lead)
				continue
			}
			s := &ls.capacities[kept[x].Type][kept[x].Pool]
			s.Reserve(s.Index(kept[x].Start), kept[x].Start, kept[x].End, int64(kept[x].Width))
		}
		value += j.Cost(best)
		last = max(last, best)
		if ls.ends != nil {
			ls.ends[i] = best
		}
	}
	if ls.p.makespan {
		value += 1e-6 * float64(last)
	}
	return value, true
}

// trim removes the types that segs does not use from a round-by-round plan.
func trim(p *room.JobPlan, segments []room.Segment) {
	if p.Kind != room.RoundByRound {
		return
	}
	n := uint8(0)
	for _, k := range p.Uses() {
		if slices.ContainsFunc(segments, func(s room.Segment) bool { return s.Type == k }) {
			p.Types[n] = k
			n++
		}
	}
	p.N = n
	clear(p.Types[n:])
}

// inOnePiece tries a job in one piece on each type, and round by round where the job fits
// on no type in one piece.
func (ls *listScheduler) inOnePiece(i int32, try func(room.JobPlan) bool) {
	ls.p.jobs[i].EachForm(func(j *room.Job) {
		for _, k := range j.ContiguousTypes {
			try(room.ContiguousOn(k).In(j.Shape))
		}
		if len(j.ContiguousTypes) == 0 {
			ls.tryRoundByRound(j, try)
		}
	})
}

// everyPlan tries a job in one piece on each type and, if it is a gang, round by round.
func (ls *listScheduler) everyPlan(i int32, try func(room.JobPlan) bool) {
	ls.p.jobs[i].EachForm(func(j *room.Job) {
		for _, k := range j.ContiguousTypes {
			try(room.ContiguousOn(k).In(j.Shape))
		}
		ls.tryRoundByRound(j, try)
	})
}

// tryRoundByRound tries round-by-round plans of a gang job over one type, over two
// types, and over the few fastest types.
func (ls *listScheduler) tryRoundByRound(j *room.Job, try func(room.JobPlan) bool) {
	few := j.RoundTypes[:min(len(j.RoundTypes), room.MaxTypes)]
	for n, k := range few {
		try(room.RoundByRoundOver(k).In(j.Shape))
		if ls.p.nodes != nil && ls.p.nodes.Coupled {
			continue
		}
		for _, o := range few[:n] {
			try(room.RoundByRoundOver(min(k, o), max(k, o)).In(j.Shape))
		}
	}
	if len(few) > 2 && (ls.p.nodes == nil || !ls.p.nodes.Coupled) {
		try(room.RoundByRoundOver(few...).In(j.Shape))
	}
}

// priorities returns several orders of the jobs to start from, the most promising first:
// by α-points of the fractional schedule, by Smith's ratio, by deadlines and chains where there
// are some, and by release if releases differ.
func (ap *annealProblem) priorities(rel *hare.Relaxation) [][]float64 {
	least, release := make([]float64, len(ap.jobs)), make([]float64, len(ap.jobs))
	for i := range ap.jobs {
		j := &ap.m.Jobs[ap.jobs[i].Index]
		least[i], release[i] = place.SmithRatio(j), float64(j.ReleaseUs)
	}
	if ap.makespan {
		return ap.makespanPriorities(release)
	}
	all := slices.Concat([][]float64{least}, ap.deadlinePriorities(), ap.chainPriorities())
	if ap.spread {
		all = append(all, release)
	}
	if rel == nil || len(rel.Progress) != len(ap.m.Jobs) {
		return all
	}
	for n, alpha := range []float64{0.5, 0.75, 0.25, 0.95, 0.05} {
		rank := make([]float64, len(ap.jobs))
		for i := range ap.jobs {
			rank[i] = place.TimeOf(rel.Progress[ap.jobs[i].Index], alpha*float64(ap.jobs[i].Rounds))
		}
		if n == 0 {
			all = slices.Insert(all, 0, rank)
		} else {
			all = append(all, rank)
		}
	}
	return all
}

// makespanPriorities returns orders for the least makespan: the longest way to the last end
// first, the most GPU time first, and the widest first.
func (ap *annealProblem) makespanPriorities(release []float64) [][]float64 {
	n := len(ap.jobs)
	tails, areas, widths := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range ap.jobs {
		j := &ap.m.Jobs[ap.jobs[i].Index]
		tail := float64(room.LeastTime(j))
		if ap.dependencies != nil {
			tail = float64(ap.dependencies.Tail[ap.jobs[i].Index])
		}
		width := float64(ap.jobs[i].Width)
		tails[i], areas[i] = -tail, -float64(room.LeastTime(j))*width
		widths[i] = -width - tail/(1+tail) // tails break ties
	}
	all := [][]float64{tails, areas, widths}
	if ap.spread {
		all = append(all, release)
	}
	return all
}

// deadlinePriorities returns orders that go by deadlines: Smith's ratio with the cost of being
// late as part of the weight, and the last start at which a job is not late; jobs without a
// deadline then go by Smith's ratio between the others.
func (ap *annealProblem) deadlinePriorities() [][]float64 {
	n, late := len(ap.jobs), 0
	smith, starts := make([]float64, n), make([]float64, n)
	var work, weight float64
	for i := range ap.jobs {
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].Index]
		area := float64(room.LeastTime(j)) * float64(a.Width)
		if smith[i] = math.Inf(1); a.Weight+a.Late > 0 {
			smith[i] = area / (a.Weight + a.Late)
		}
		work += area
		weight += a.Weight
		if a.Late > 0 {
			late++
		}
	}
	if late == 0 {
		return nil
	}
	for i := range ap.jobs {
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].Index]
		last := 0.0
		if ap.gridUs != nil {
			last = float64(ap.gridUs[len(ap.gridUs)-1])
		}
		starts[i] = float64(a.Deadline - room.LeastTime(j))
		if a.Late == 0 {
			// The share of the horizon at which jobs of this ratio begin is about that of the ratio.
			starts[i] = last
			if a.Weight > 0 && work > 0 {
				starts[i] = last * min(1, float64(room.LeastTime(j))*float64(a.Width)*weight/(a.Weight*work)/2)
			}
		}
	}
	return [][]float64{smith, starts}
}

// chainPriorities returns an order for jobs that wait for others: Smith's ratio of each job
// with all that must be done before it.
func (ap *annealProblem) chainPriorities() [][]float64 {
	if !ap.ordered {
		return nil
	}
	work := make([]float64, len(ap.m.Jobs))
	for _, i := range ap.dependencies.Topological {
		j := &ap.m.Jobs[i]
		work[i] = float64(room.LeastTime(j)) * float64(j.Tasks*j.GPUs)
		for _, p := range j.After {
			work[i] += work[p.Job]
		}
	}
	rank := make([]float64, len(ap.jobs))
	for i := range ap.jobs {
		a := &ap.jobs[i]
		if rank[i] = math.Inf(1); a.Weight > 0 {
			rank[i] = work[a.Index] / a.Weight
		}
	}
	return [][]float64{rank}
}
