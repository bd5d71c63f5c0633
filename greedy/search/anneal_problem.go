package search

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// The instance as the annealing sees it: jobs with the types and shapes on which they fit, capacities that the jobs
// which stay leave, prices of the relaxation with their integrals over time, and the links between jobs that wait for
// others. Under makespan, prices are scaled so that all GPUs together cost one second of makespan a second on
// average, and weights only break ties.

// annealProblem is an instance prepared for the search. It is read-only, and all chains
// share it.
type annealProblem struct {
	m     *model.Model
	jobs  []room.Job      // the jobs that the search moves
	pools [][]room.Pool   // by type; nil with nodes
	empty []room.Capacity // by column: the capacity that the fixed jobs leave
	// nodes is the layout of the capacity by nodes; nil if only the sums of types count.
	nodes *room.Layout
	last  room.LastRooms // what finds room at the end of time; where nodes matter
	// column is the index in empty by type: the type itself, unless nodes couple types.
	column []int16
	// fixed lists the jobs that stay: relaxed jobs, and gangs that fit on no single type.
	fixed []int
	// done lists the jobs that end with the work that runs at time 0.
	done []int
	// ordered is whether some jobs wait for others; dependencies is nil otherwise.
	ordered      bool
	dependencies *room.Dependencies
	makespan     bool
	start        *place.Plan
	gridUs       []int64
	price        [][]float64 // in weight-seconds per GPU-microsecond, by type and cell; nil without prices
	sum          [][]float64 // the integral of price up to each grid point
	spread       bool        // whether releases differ
	gangs        bool        // whether some job is not rigid
}

// newAnnealProblem prepares m. It returns false if a job has no place that the search
// could give it and start has none either. Places are on single nodes if nodes is not nil;
// otherwise only the sums of free GPUs of each type count.
func newAnnealProblem(m *model.Model, rel *hare.Relaxation, start *place.Plan, nodes *room.Layout) (*annealProblem,
	bool) {
	return newShapedProblem(m, nil, rel, start, nodes)
}

// newShapedProblem is newAnnealProblem where jobs may get other shapes: m is the model in the shapes of
// start, and shaped the model with all shapes, or nil.
func newShapedProblem(m, shaped *model.Model, rel *hare.Relaxation, start *place.Plan,
	nodes *room.Layout) (*annealProblem,
	bool) {
	ap := &annealProblem{m: m, start: start, nodes: nodes, makespan: room.IsMakespan(m)}
	for k := range m.Types {
		if ap.column = append(ap.column, int16(k)); nodes != nil {
			ap.column[k] = nodes.Column[k]
			continue
		}
		pools, tr := room.PoolsOf(m, k)
		ap.pools = append(ap.pools, pools)
		ap.empty = append(ap.empty, tr)
	}
	if nodes != nil {
		ap.empty, ap.last = nodes.NewCapacities(), room.LastRooms{}
	}
	ap.setPrices(rel)
	if ap.makespan {
		ap.scalePrices()
	}
	if room.HasAfter(m) {
		ap.dependencies = room.DependenciesOf(m)
	}
	dur := make([]int64, len(m.Jobs)*len(m.Types))
	finder := ap.newFinder()
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if room.IsFixed(j) {
			ap.done = append(ap.done, i)
			continue
		}
		a := room.NewJob(m, i)
		if ap.dependencies != nil {
			a.Release = ap.dependencies.Head[i]
		}
		a.Dur = dur[i*len(m.Types) : (i+1)*len(m.Types)]
		fits := j.Sync != hare.Relaxed && ap.findTypes(&a, j, finder)
		if nodes != nil {
			nodes.AddRunningPlace(&a, j)
		}
		if shaped != nil && j.Sync != hare.Relaxed {
			fits = ap.addForms(&a, shaped, finder) || fits
		}
		if !fits {
			if start == nil {
				return nil, false
			}
			ap.fixed = append(ap.fixed, i)
			continue
		}
		if len(ap.jobs) > 0 && a.Release != ap.jobs[0].Release {
			ap.spread = true
		}
		ap.gangs = ap.gangs || !a.Rigid
		ap.jobs = append(ap.jobs, a)
	}
	ap.addDependencies()
	if ap.makespan {
		for i := range ap.jobs {
			ap.jobs[i].Weight, ap.jobs[i].Late = room.TieShare*1e-6/float64(len(ap.jobs)), 0
		}
	}
	for i := range ap.jobs {
		a := &ap.jobs[i]
		for s := range a.Forms {
			f := &a.Forms[s]
			f.Weight, f.Late, f.Before, f.Behind = a.Weight, a.Late, a.Before, a.Behind
			f.Release = max(f.Release, a.Release)
		}
	}
	ap.reserveFixed()
	return ap, true
}

// nodePatience is the patience of the annealing on nodes.
const nodePatience = 0.05

// newFinder returns a finder of places for the jobs of the problem.
func (ap *annealProblem) newFinder() *room.Finder {
	if ap.nodes != nil {
		return room.NewNodeFinder(ap.nodes, nodePatience)
	}
	n := 1
	for _, pools := range ap.pools {
		n = max(n, len(pools))
	}
	return room.NewPoolFinder(n)
}

// addDependencies links the jobs that the search moves. Jobs that stay in between have ends
// that do not change.
func (ap *annealProblem) addDependencies() {
	if ap.dependencies == nil {
		return
	}
	at := make([]int32, len(ap.m.Jobs))
	for i := range at {
		at[i] = -1
	}
	for i := range ap.jobs {
		at[ap.jobs[i].Index] = int32(i)
	}
	for i := range ap.jobs {
		a := &ap.jobs[i]
		for _, p := range ap.m.Jobs[a.Index].After {
			switch before := at[p.Job]; {
			case before >= 0:
				ap.ordered = true
				a.Before = append(a.Before, room.Edge{Job: before, Lag: p.LagUs})
				ap.jobs[before].Behind = append(ap.jobs[before].Behind, room.Edge{Job: int32(i), Lag: p.LagUs})
			case room.IsFixed(&ap.m.Jobs[p.Job]):
				a.Release = max(a.Release, ap.m.Jobs[p.Job].RunsUntilUs+p.LagUs)
			case ap.start != nil:
				a.Release = max(a.Release, ap.start.EndUs[p.Job]+p.LagUs)
			}
		}
	}
}

// columns returns the columns in which a plan places its job. Where nodes couple types, no
// plan uses several types.
func (ap *annealProblem) columns(plan *room.JobPlan) []int16 {
	if ap.nodes != nil && ap.nodes.Coupled {
		k := plan.Types[0]
		return ap.column[k : k+1]
	}
	return plan.Uses()
}

// findTypes fills in the durations of job aj and the types on which the job fits.
func (ap *annealProblem) findTypes(aj *room.Job, j *model.Job, sc *room.Finder) bool {
	for _, md := range j.Modes {
		k, d := int16(md.Type), room.RoundUs(j, md)
		if ap.nodes == nil && aj.Levels != nil {
			if d = aj.LeastByLevel(ap.m, k); d == 0 {
				continue
			}
		}
		if ap.nodes != nil && ap.last.Fits(ap.nodes, aj, k) {
			aj.Dur[k] = d
			if !aj.Rigid {
				aj.RoundTypes = append(aj.RoundTypes, k)
			}
			aj.ContiguousTypes = append(aj.ContiguousTypes, k)
			continue
		}
		empty := ap.empty[ap.column[k]]
		if ap.nodes != nil && aj.Levels != nil {
			if start, _ := sc.EarliestByLevel(aj, k, empty, aj.Release, 1); start == room.Never {
				continue
			}
			aj.Dur[k] = d
			if !aj.Rigid {
				aj.RoundTypes = append(aj.RoundTypes, k)
			}
			if start, _ := sc.EarliestByLevel(aj, k, empty, aj.Release, aj.Rounds); start != room.Never {
				aj.ContiguousTypes = append(aj.ContiguousTypes, k)
			}
			continue
		}
		if sc.EarliestAfterSetup(aj, k, empty, aj.Release, d, 0) == room.Never {
			continue
		}
		aj.Dur[k] = d
		if !aj.Rigid {
			aj.RoundTypes = append(aj.RoundTypes, k)
		}
		if sc.EarliestAfterSetup(aj, k, empty, aj.Release, d*aj.Rounds, 0) != room.Never {
			aj.ContiguousTypes = append(aj.ContiguousTypes, k)
		}
	}
	byDuration := func(x, y int16) int { return cmp.Compare(aj.Dur[x], aj.Dur[y]) }
	slices.SortStableFunc(aj.ContiguousTypes, byDuration)
	slices.SortStableFunc(aj.RoundTypes, byDuration)
	return len(aj.ContiguousTypes)+len(aj.RoundTypes) > 0
}

// reserveFixed takes the GPUs of the fixed jobs.
func (ap *annealProblem) reserveFixed() {
	if ap.nodes != nil {
		for _, i := range ap.fixed {
			a := room.NewJob(ap.m, i)
			ap.nodes.ReserveBlocks(ap.empty, &a, ap.start.Jobs[i])
		}
		return
	}
	at := make([][2]int16, len(ap.m.Classes)) // type and pool of each class
	for k, pools := range ap.pools {
		for i, pl := range pools {
			for _, c := range pl.Classes {
				at[c] = [2]int16{int16(k), int16(i)}
			}
		}
	}
	for _, i := range ap.fixed {
		for _, b := range ap.start.Jobs[i] {
			x := at[b.Class]
			s := &ap.empty[x[0]][x[1]]
			s.Reserve(s.Index(b.StartUs), b.StartUs, b.EndUs(), int64(b.Width))
		}
	}
}

func (ap *annealProblem) setPrices(rel *hare.Relaxation) {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(ap.m.Types) {
		return
	}
	ap.gridUs = rel.GridUs
	for _, row := range rel.Prices {
		price, sum := make([]float64, len(ap.gridUs)-1), make([]float64, len(ap.gridUs))
		for g := range price {
			if g < len(row) {
				price[g] = row[g] * 1e-6
			}
			sum[g+1] = sum[g] + price[g]*float64(ap.gridUs[g+1]-ap.gridUs[g])
		}
		ap.price, ap.sum = append(ap.price, price), append(ap.sum, sum)
	}
}

// scalePrices makes all GPUs together cost one second of makespan a second on average.
func (ap *annealProblem) scalePrices() {
	if ap.price == nil {
		return
	}
	end, all := ap.gridUs[len(ap.gridUs)-1], 0.0
	for k := range ap.price {
		all += ap.sum[k][len(ap.gridUs)-1] * float64(model.MostRoom(ap.m.Capacity(k)))
	}
	if all <= 0 {
		return
	}
	scale := 1e-6 * float64(end) / all
	for k := range ap.price {
		for g := range ap.price[k] {
			ap.price[k][g] *= scale
		}
		for g := range ap.sum[k] {
			ap.sum[k][g] *= scale
		}
	}
	// Time after the bound costs more, so that jobs end before where they can.
	ap.gridUs = append(slices.Clone(ap.gridUs), 8*end)
	for k, row := range ap.price {
		mean := ap.sum[k][len(row)] / float64(end)
		ap.price[k] = append(row, 10*mean)
		ap.sum[k] = append(ap.sum[k], ap.sum[k][len(row)]+10*mean*7*float64(end))
	}
}

// cumulativePrice returns the price of one GPU of type k within [0, t).
func (ap *annealProblem) cumulativePrice(k int16, t int64) float64 {
	if ap.price == nil {
		return 0
	}
	g := sort.Search(len(ap.gridUs), func(i int) bool { return ap.gridUs[i] > t }) - 1
	if g < 0 {
		return 0
	}
	if g >= len(ap.gridUs)-1 {
		return ap.sum[k][len(ap.gridUs)-1]
	}
	return ap.sum[k][g] + ap.price[k][g]*float64(t-ap.gridUs[g])
}

// reducedCost returns the least sum of w (C − a) and the price of the GPUs over all
// starts of job j in one piece on type k; it is +Inf if the job cannot run there. It
// takes O(grid).
func (ap *annealProblem) reducedCost(j *room.Job, k int16) float64 {
	d := j.Dur[k]
	if d == 0 {
		return math.Inf(1)
	}
	long := d * j.Rounds
	width := float64(j.Width)
	best := math.Inf(1)
	try := func(start int64, held float64) {
		best = min(best, j.Cost(start+long)+width*held)
	}
	try(j.Release, ap.cumulativePrice(k, j.Release+long)-ap.cumulativePrice(k, j.Release))
	if ap.price == nil {
		return best
	}
	// The cost is piecewise linear: the minimum has the start or the end of the block at a
	// grid point.
	end, begin := 0, 0
	at := func(g *int, t int64) float64 {
		for *g+1 < len(ap.gridUs) && ap.gridUs[*g+1] <= t {
			*g++
		}
		if *g+1 == len(ap.gridUs) {
			return ap.sum[k][*g]
		}
		return ap.sum[k][*g] + ap.price[k][*g]*float64(t-ap.gridUs[*g])
	}
	for g, t := range ap.gridUs {
		if t >= j.Release {
			try(t, at(&end, t+long)-ap.sum[k][g])
		}
		if t-long >= j.Release {
			try(t-long, ap.sum[k][g]-at(&begin, t-long))
		}
	}
	return best
}

// encodeStart reads a state from start: the jobs sorted by first start, then end, and a
// plan for each. It returns false if a job runs where the search would not put it.
func (ap *annealProblem) encodeStart() (order []int32, plan []room.JobPlan, ok bool) {
	plan = make([]room.JobPlan, len(ap.jobs))
	first := make([]int64, len(ap.jobs))
	for i := range ap.jobs {
		j := &ap.jobs[i]
		blocks := ap.start.Jobs[j.Index]
		if len(blocks) == 0 {
			return nil, nil, false
		}
		first[i] = blocks[0].StartUs
		plan[i] = ap.planOf(j, blocks)
		for _, k := range plan[i].Uses() {
			if plan[i].Then == plan[i].Shape && j.Form(plan[i].Shape).Dur[k] == 0 {
				return nil, nil, false
			}
		}
		if p := &plan[i]; p.Then != p.Shape {
			if j.Form(p.Shape).Dur[p.Types[0]] == 0 || j.Form(p.Then).Dur[p.Types[1]] == 0 {
				return nil, nil, false
			}
		}
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(first[a], first[b]),
			cmp.Compare(ap.start.EndUs[ap.jobs[a].Index], ap.start.EndUs[ap.jobs[b].Index]))
	})
	return order, plan, true
}

// planOf returns a plan that comes close to blocks.
func (ap *annealProblem) planOf(j *room.Job, blocks []room.Block) room.JobPlan {
	if j.Forms != nil {
		shape := uint8(ap.start.Shapes[j.Index])
		if c := ap.start.Change(j.Index); c.Round > 0 {
			first, last := ap.m.Classes[blocks[0].Class].Type, ap.m.Classes[blocks[len(blocks)-1].Class].Type
			return room.ReshapedOn(int16(first), int16(last), shape, uint8(c.Shape), c.Round)
		}
		return ap.planOfShape(j.Form(shape), blocks).In(shape)
	}
	return ap.planOfShape(j, blocks)
}

// planOfShape is planOf for a job that keeps its shape.
func (ap *annealProblem) planOfShape(j *room.Job, blocks []room.Block) room.JobPlan {
	var types []int16
	moves, gaps := 0, false
	until := blocks[0].StartUs
	for i := range blocks {
		b := &blocks[i]
		k := int16(ap.m.Classes[b.Class].Type)
		if i > 0 && b.StartUs != blocks[i-1].StartUs {
			if last := ap.m.Classes[blocks[i-1].Class].Type; int(k) != last {
				moves++
			} else {
				gaps = gaps || b.StartUs > until
			}
		}
		until = b.EndUs()
		if !slices.Contains(types, k) {
			types = append(types, k)
		}
	}
	switch {
	case (len(types) == 1 || ap.nodes != nil && ap.nodes.Coupled) && (!gaps || j.Rigid):
		return room.ContiguousOn(types[0])
	case len(types) == 2 && moves == 1 && !gaps:
		s := room.JobPlan{Kind: room.Split, N: 2, Types: [room.MaxTypes]int16{types[0], types[1]}}
		for i := range blocks {
			if ap.m.Classes[blocks[i].Class].Type == int(types[0]) {
				continue
			}
			if s.Rounds = blocks[i].Round; s.Rounds > blocks[0].Round {
				return s
			}
			break // the first round mixes both types
		}
	}
	if ap.nodes != nil && ap.nodes.Coupled {
		types = types[:1]
	}
	return room.RoundByRoundOver(types...)
}

// orderBy sorts the jobs by rank and puts predecessors first; ties go by index. It may lower
// ranks.
func (ap *annealProblem) orderBy(rank []float64) []int32 {
	if !ap.ordered {
		return orderBy(rank)
	}
	byJob := slices.Repeat([]float64{math.Inf(1)}, len(ap.m.Jobs))
	for i := range ap.jobs {
		byJob[ap.jobs[i].Index] = rank[i]
	}
	ap.dependencies.Inherit(byJob)
	order := make([]int32, len(rank))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := ap.jobs[a].Index, ap.jobs[b].Index
		return cmp.Or(cmp.Compare(byJob[x], byJob[y]),
			cmp.Compare(ap.dependencies.Position[x], ap.dependencies.Position[y]))
	})
	return order
}

// orderBy sorts the jobs by rank; ties go by index.
func orderBy(rank []float64) []int32 {
	order := make([]int32, len(rank))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}

// splitJobs returns the jobs that annealing cannot place, and the others.
func splitJobs(m *model.Model) (filler, annealed []int) {
	n := len(m.Jobs)
	p, _ := newAnnealProblem(m, nil, &place.Plan{Jobs: make([][]room.Block, n), EndUs: make([]int64, n)}, nil)
	for i := range p.jobs {
		annealed = append(annealed, p.jobs[i].Index)
	}
	return p.fixed, annealed
}

// maxForms is the number of shapes of a job among which the annealing chooses. A job with more keeps the
// shape that it has.
const maxForms = 200

// addForms fills in the shapes of a job, and reports whether it fits in one of them.
func (ap *annealProblem) addForms(a *room.Job, shaped *model.Model, finder *room.Finder) (fits bool) {
	mj := &shaped.Jobs[a.Index]
	if len(mj.Shapes) < 2 || len(mj.Shapes) > maxForms {
		return false
	}
	forms := make([]room.Job, len(mj.Shapes))
	m, shapes := *shaped, make([]int32, len(shaped.Jobs))
	m.Jobs = slices.Clone(shaped.Jobs)
	for s := range forms {
		shapes[a.Index] = int32(s)
		m.Jobs[a.Index] = place.InShape(mj, s)
		f := room.NewJob(&m, a.Index)
		f.Shape, f.Forms, f.Counts, f.Units = uint8(s), forms, mj.Shapes[s].Counts, mj.Rounds
		f.Reshape, f.ReshapeUs = mj.Reshape, mj.ReshapeUs
		f.Release = max(f.Release, a.Release)
		f.Dur = make([]int64, len(m.Types))
		fits = ap.findTypes(&f, &m.Jobs[a.Index], finder) || fits
		if ap.nodes != nil {
			ap.nodes.AddRunningPlace(&f, &m.Jobs[a.Index])
		}
		forms[s] = f
	}
	a.Forms = forms
	return fits
}
