package greedy

import (
	"slices"

	"github.com/hare-sched/hare/model"
)

// maxForms is the number of shapes of a job among which the annealing chooses. A job with more keeps the
// shape that it has.
const maxForms = 200

// form returns the job in a shape.
func (aj *annealJob) form(shape uint8) *annealJob {
	if aj.forms == nil {
		return aj
	}
	return &aj.forms[shape]
}

// eachForm calls f with the job in each of its shapes.
func (aj *annealJob) eachForm(f func(*annealJob)) {
	if aj.forms == nil {
		f(aj)
		return
	}
	for s := range aj.forms {
		f(&aj.forms[s])
	}
}

// addForms fills in the shapes of a job, and says whether it fits in one of them.
func (ap *annealProblem) addForms(a *annealJob, shaped *model.Model, finder *slotFinder) (fits bool) {
	mj := &shaped.Jobs[a.index]
	if len(mj.Shapes) < 2 || len(mj.Shapes) > maxForms {
		return false
	}
	forms := make([]annealJob, len(mj.Shapes))
	m, shapes := *shaped, make([]int32, len(shaped.Jobs))
	m.Jobs = slices.Clone(shaped.Jobs)
	for s := range forms {
		shapes[a.index] = int32(s)
		m.Jobs[a.index] = inShape(mj, s)
		f := newAnnealJob(&m, a.index)
		f.shape, f.forms, f.counts, f.units = uint8(s), forms, mj.Shapes[s].Counts, mj.Rounds
		f.reshape, f.reshapeUs = mj.Reshape, mj.ReshapeUs
		f.release = max(f.release, a.release)
		f.dur = make([]int64, len(m.Types))
		fits = f.findTypes(&m.Jobs[a.index], finder, ap) || fits
		if ap.nodes != nil {
			ap.nodes.addRunningPlace(&f, &m.Jobs[a.index])
		}
		forms[s] = f
	}
	a.forms = forms
	return fits
}

// reshapedOn is a plan by which the first rounds run in one shape on a type, and the others in another
// shape.
func reshapedOn(k, l int16, shape, then uint8, rounds int64) jobPlan {
	p := jobPlan{kind: split, n: 2, types: [maxSet]int16{k, l}, rounds: rounds, shape: shape, then: then}
	if k == l {
		p.n = 1
	}
	return p
}

// roundsAfter returns how many rounds in this shape follow so many rounds in another one.
func (aj *annealJob) roundsAfter(first *annealJob, rounds int64) int64 {
	return (aj.units - rounds*first.counts + aj.counts - 1) / aj.counts
}

// placeReshaped places the second part of a plan of job j whose first part, in another shape, ends at end.
func (sf *slotFinder) placeReshaped(j *annealJob, plan *jobPlan, capacities []typeCapacity, ready, end int64) (int64,
	bool) {
	then := j.form(plan.then)
	return sf.placeAfter(then, plan.types[1], capacities, plan.rounds, then.roundsAfter(j, plan.rounds), ready,
		end+j.reshapeUs)
}

// reshaped sometimes returns a plan in which job j changes its shape, in place of plan.
func (w *walker) reshaped(j *annealJob, plan jobPlan) jobPlan {
	if w.r.IntN(3) > 0 {
		return plan
	}
	then := j.form(uint8(w.r.IntN(len(j.forms))))
	k := plan.types[0]
	if then.shape == j.shape || len(then.contiguousTypes) == 0 || !slices.Contains(j.contiguousTypes, k) ||
		j.rounds < 2 {
		return plan
	}
	l := then.contiguousTypes[w.r.IntN(len(then.contiguousTypes))]
	if l != k && w.decoder.p.nodes != nil && w.decoder.p.nodes.coupled {
		return plan
	}
	return reshapedOn(k, l, j.shape, then.shape, 1+w.r.Int64N(j.rounds-1))
}

// markShapes fills in the shapes of a plan.
func (dec *decoder) markShapes(out *Plan) {
	if !slices.ContainsFunc(dec.p.jobs, func(a annealJob) bool { return a.forms != nil }) {
		return
	}
	out.Shapes = slices.Clone(out.Shapes)
	changes, changed := make([]ShapeChange, len(dec.p.m.Jobs)), false
	for i := range dec.p.jobs {
		a, plan := &dec.p.jobs[i], &dec.plan[i]
		if a.forms == nil {
			continue
		}
		out.Shapes[a.index] = int32(plan.shape)
		if plan.then != plan.shape {
			changes[a.index], changed = ShapeChange{plan.rounds, int32(plan.then)}, true
		}
	}
	if out.Changes = nil; changed {
		out.Changes = changes
	}
}

// reservePlan takes the blocks of job i in a plan from the capacities by column. m is the model in the shapes
// of the plan, and shaped that with all shapes, or nil.
func (nl *nodeLayout) reservePlan(capacities []typeCapacity, m, shaped *model.Model, p *Plan, i int) {
	first := newAnnealJob(m, i)
	c := p.change(i)
	if shaped == nil || c.Round == 0 {
		nl.reserveBlocks(capacities, &first, p.Jobs[i])
		return
	}
	then := first
	then.gpus = shaped.Jobs[i].Shapes[c.Shape].GPUs
	for x := range p.Jobs[i] {
		j := &first
		if p.Jobs[i][x].Round >= c.Round {
			j = &then
		}
		nl.reserveBlocks(capacities, j, p.Jobs[i][x:x+1])
	}
}

// typesOf lists the types on which a job may run in some shape.
func typesOf(j *model.Job) (types []int) {
	for _, md := range j.Modes {
		types = append(types, md.Type)
	}
	for s := range j.Shapes {
		for _, md := range j.Shapes[s].Modes {
			types = append(types, md.Type)
		}
	}
	return types
}
