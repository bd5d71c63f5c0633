package greedy

import (
	"context"
	"slices"

	"github.com/hare-sched/hare"
)

// lister schedules jobs one after another, each where w (C − a) + λ · price of
// its GPU-time is least.
type lister struct {
	p      *annealProblem
	sc     *scout
	tracks []track
	work   int64 // places tried so far
}

func newLister(p *annealProblem) *lister {
	l := &lister{p: p, sc: newScout(p)}
	for k := range p.empty {
		l.tracks = append(l.tracks, newTrack(p.empty[k]))
	}
	return l
}

// schedule decodes order and leaves each job's plan in plan. It reports false
// when a job has no place or ctx has ended. Chains are tried for gang jobs
// where wide.
func (l *lister) schedule(ctx context.Context, order []int32, lambda float64, wide bool, plan []jobPlan) (value float64, ok bool) {
	for k := range l.tracks {
		l.tracks[k].copyFrom(l.p.empty[k])
	}
	var kept []seg
	for n, i := range order {
		if n%64 == 0 && ctx.Err() != nil {
			return 0, false
		}
		j := &l.p.jobs[i]
		best := never
		var bestCost float64
		try := func(p jobPlan) {
			l.work++
			end, ok := l.sc.place(j, &p, l.tracks)
			if !ok {
				return
			}
			cost := j.weight * float64(end-j.release)
			if lambda > 0 {
				for x := range l.sc.segs {
					s := &l.sc.segs[x]
					cost += lambda * float64(s.width) * (l.p.paid(s.typ, s.end) - l.p.paid(s.typ, s.start))
				}
			}
			if best == never || cost < bestCost || cost == bestCost && end < best {
				best, bestCost, plan[i] = end, cost, p
				kept = append(kept[:0], l.sc.segs...)
			}
		}
		for _, k := range j.whole {
			try(wholeOn(k))
		}
		if wide || len(j.whole) == 0 {
			l.chains(j, try)
		}
		if best == never {
			return 0, false
		}
		trim(&plan[i], kept)
		for x := range kept {
			s := &l.tracks[kept[x].typ][kept[x].pool]
			s.take(s.index(kept[x].start), kept[x].start, kept[x].end, int64(kept[x].width))
		}
		value += j.weight * float64(best-j.release)
	}
	return value, true
}

// trim leaves out of a chain the types that segs does not use.
func trim(p *jobPlan, segs []seg) {
	if p.kind != chain {
		return
	}
	n := uint8(0)
	for _, k := range p.uses() {
		if slices.ContainsFunc(segs, func(s seg) bool { return s.typ == k }) {
			p.types[n] = k
			n++
		}
	}
	p.n = n
	clear(p.types[n:])
}

// chains tries the chains of a gang job over one type, two, and the fastest few.
func (l *lister) chains(j *annealJob, try func(jobPlan)) {
	few := j.chain[:min(len(j.chain), maxSet)]
	for n, k := range few {
		try(chainOver(k))
		for _, o := range few[:n] {
			try(chainOver(min(k, o), max(k, o)))
		}
	}
	if len(few) > 2 {
		try(chainOver(few...))
	}
}

// ranks are orders of the jobs to start from, the most promising first: the
// fractional schedule's α-points, and least work over weight.
func (p *annealProblem) ranks(rel *hare.Relaxation) [][]float64 {
	least, release := make([]float64, len(p.jobs)), make([]float64, len(p.jobs))
	for i := range p.jobs {
		j := &p.m.Jobs[p.jobs[i].index]
		least[i], release[i] = smith(j), float64(j.ReleaseUs)
	}
	all := [][]float64{least}
	if p.spread {
		all = append(all, release)
	}
	if rel == nil || len(rel.Progress) != len(p.m.Jobs) {
		return all
	}
	for n, alpha := range []float64{0.5, 0.75, 0.25, 0.95, 0.05} {
		rank := make([]float64, len(p.jobs))
		for i := range p.jobs {
			rank[i] = timeOf(rel.Progress[p.jobs[i].index], alpha*float64(p.jobs[i].rounds))
		}
		if n == 0 {
			all = slices.Insert(all, 0, rank)
		} else {
			all = append(all, rank)
		}
	}
	return all
}
