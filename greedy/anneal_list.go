package greedy

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// listScheduler schedules jobs one after another, each at the place with the least w (C
// − a) + λ · price of its GPU-time.
type listScheduler struct {
	p          *annealProblem
	finder     *slotFinder
	capacities []typeCapacity
	work       int64   // the number of places tried so far
	ends       []int64 // by job of the order that is placed; nil where no job waits for others
}

func newListScheduler(ap *annealProblem) *listScheduler {
	ls := &listScheduler{p: ap, finder: ap.newFinder()}
	if ap.nodes == nil {
		ls.finder.floors = make([]searchFloor, len(ap.empty))
	}
	for k := range ap.empty {
		ls.capacities = append(ls.capacities, newTypeCapacity(ap.empty[k]))
	}
	return ls
}

// schedule places the jobs in order and stores each job's plan in plan. It returns false
// if a job has no place or ctx has ended. Plans lists the plans to try for a job; a call
// of try says whether the plan is the best so far.
func (ls *listScheduler) schedule(ctx context.Context, order []int32, lambda float64,
	plans func(i int32, try func(jobPlan) bool), plan []jobPlan) (value float64, ok bool) {
	for k := range ls.capacities {
		ls.capacities[k].copyFrom(ls.p.empty[k])
		ls.finder.forget(int16(k))
	}
	for k := range ls.finder.floors {
		ls.finder.floors[k].reset()
	}
	var kept []segment
	if ls.p.ordered && ls.ends == nil {
		ls.ends = make([]int64, len(ls.p.jobs))
	}
	last := int64(0)
	for n, i := range order {
		if n%64 == 0 && ctx.Err() != nil {
			return 0, false
		}
		j := &ls.p.jobs[i]
		ready := j.release
		for _, e := range j.before {
			ready = max(ready, ls.ends[e.job]+e.lag)
		}
		best := never
		var bestCost float64
		try := func(p jobPlan) bool {
			ls.work++
			form := j.form(p.shape)
			end, ok := ls.finder.placeFrom(form, max(ready, form.release), &p, ls.capacities)
			if !ok {
				return false
			}
			cost := j.cost(end)
			if lambda > 0 {
				for x := range ls.finder.segments {
					s := &ls.finder.segments[x]
					cost += lambda * float64(s.width) * (ls.p.cumulativePrice(s.typ,
						s.end) - ls.p.cumulativePrice(s.typ, s.start))
				}
			}
			if best == never || cost < bestCost || cost == bestCost && end < best {
				best, bestCost, plan[i] = end, cost, p
				kept = append(kept[:0], ls.finder.segments...)
				return true
			}
			return false
		}
		plans(i, try)
		if best == never {
			return 0, false
		}
		trim(&plan[i], kept)
		for x := range kept {
			if nl := ls.p.nodes; nl != nil {
				nl.reserve(ls.capacities[nl.column[kept[x].typ]], j.form(kept[x].shape), kept[x].typ, kept[x].pool,
					int64(kept[x].width),
					kept[x].start, kept[x].end, kept[x].lead)
				continue
			}
			s := &ls.capacities[kept[x].typ][kept[x].pool]
			s.reserve(s.index(kept[x].start), kept[x].start, kept[x].end, int64(kept[x].width))
		}
		value += j.cost(best)
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
func trim(p *jobPlan, segments []segment) {
	if p.kind != roundByRound {
		return
	}
	n := uint8(0)
	for _, k := range p.uses() {
		if slices.ContainsFunc(segments, func(s segment) bool { return s.typ == k }) {
			p.types[n] = k
			n++
		}
	}
	p.n = n
	clear(p.types[n:])
}

// inOnePiece tries a job in one piece on each type, and round by round where the job fits
// on no type in one piece.
func (ls *listScheduler) inOnePiece(i int32, try func(jobPlan) bool) {
	ls.p.jobs[i].eachForm(func(j *annealJob) {
		for _, k := range j.contiguousTypes {
			try(contiguousOn(k).in(j.shape))
		}
		if len(j.contiguousTypes) == 0 {
			ls.tryRoundByRound(j, try)
		}
	})
}

// everyPlan tries a job in one piece on each type and, if it is a gang, round by round.
func (ls *listScheduler) everyPlan(i int32, try func(jobPlan) bool) {
	ls.p.jobs[i].eachForm(func(j *annealJob) {
		for _, k := range j.contiguousTypes {
			try(contiguousOn(k).in(j.shape))
		}
		ls.tryRoundByRound(j, try)
	})
}

// tryRoundByRound tries round-by-round plans of a gang job over one type, over two
// types, and over the few fastest types.
func (ls *listScheduler) tryRoundByRound(j *annealJob, try func(jobPlan) bool) {
	few := j.roundTypes[:min(len(j.roundTypes), maxSet)]
	for n, k := range few {
		try(roundByRoundOver(k).in(j.shape))
		if ls.p.nodes != nil && ls.p.nodes.coupled {
			continue
		}
		for _, o := range few[:n] {
			try(roundByRoundOver(min(k, o), max(k, o)).in(j.shape))
		}
	}
	if len(few) > 2 && (ls.p.nodes == nil || !ls.p.nodes.coupled) {
		try(roundByRoundOver(few...).in(j.shape))
	}
}

// priorities returns several orders of the jobs to start from, the most promising first:
// by α-points of the fractional schedule, by Smith's ratio, by deadlines and chains where there
// are some, and by release if releases differ.
func (ap *annealProblem) priorities(rel *hare.Relaxation) [][]float64 {
	least, release := make([]float64, len(ap.jobs)), make([]float64, len(ap.jobs))
	for i := range ap.jobs {
		j := &ap.m.Jobs[ap.jobs[i].index]
		least[i], release[i] = smithRatio(j), float64(j.ReleaseUs)
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
			rank[i] = timeOf(rel.Progress[ap.jobs[i].index], alpha*float64(ap.jobs[i].rounds))
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
		j := &ap.m.Jobs[ap.jobs[i].index]
		tail := float64(leastTime(j))
		if ap.dependencies != nil {
			tail = float64(ap.dependencies.tail[ap.jobs[i].index])
		}
		width := float64(ap.jobs[i].width)
		tails[i], areas[i] = -tail, -float64(leastTime(j))*width
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
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].index]
		area := float64(leastTime(j)) * float64(a.width)
		if smith[i] = math.Inf(1); a.weight+a.late > 0 {
			smith[i] = area / (a.weight + a.late)
		}
		work += area
		weight += a.weight
		if a.late > 0 {
			late++
		}
	}
	if late == 0 {
		return nil
	}
	for i := range ap.jobs {
		a, j := &ap.jobs[i], &ap.m.Jobs[ap.jobs[i].index]
		last := 0.0
		if ap.gridUs != nil {
			last = float64(ap.gridUs[len(ap.gridUs)-1])
		}
		starts[i] = float64(a.deadline - leastTime(j))
		if a.late == 0 {
			// The share of the horizon at which jobs of this ratio begin is about that of the ratio.
			starts[i] = last
			if a.weight > 0 && work > 0 {
				starts[i] = last * min(1, float64(leastTime(j))*float64(a.width)*weight/(a.weight*work)/2)
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
	for _, i := range ap.dependencies.topological {
		j := &ap.m.Jobs[i]
		work[i] = float64(leastTime(j)) * float64(j.Tasks*j.GPUs)
		for _, p := range j.After {
			work[i] += work[p.Job]
		}
	}
	rank := make([]float64, len(ap.jobs))
	for i := range ap.jobs {
		a := &ap.jobs[i]
		if rank[i] = math.Inf(1); a.weight > 0 {
			rank[i] = work[a.index] / a.weight
		}
	}
	return [][]float64{rank}
}
