package greedy

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// maxSet is the largest number of types in the plan of one job.
const maxSet = 4

// These are the kinds of a jobPlan.
const (
	// contiguous runs all rounds back to back on types[0], from the earliest possible start.
	contiguous = uint8(iota)
	// split runs the first rounds on types[0] and the others on types[1], each part back to
	// back and as early as possible.
	split
	// roundByRound places each round on the type of the set on which the round ends first.
	// This gives the earliest completion that these types allow.
	roundByRound
)

// jobPlan says how one job is placed when its turn comes.
type jobPlan struct {
	rounds int64
	types  [maxSet]int16
	n      uint8 // the number of types in use; 1 where both parts of a split are on one type
	kind   uint8
	// shape is the shape of the rounds, and then that of the second part of a split, as indices in
	// annealJob.forms.
	shape, then uint8
}

// in returns the plan for rounds of one shape.
func (jp jobPlan) in(shape uint8) jobPlan {
	jp.shape, jp.then = shape, shape
	return jp
}

func (jp *jobPlan) uses() []int16 { return jp.types[:jp.n] }

func contiguousOn(k int16) jobPlan { return jobPlan{kind: contiguous, n: 1, types: [maxSet]int16{k}} }

func roundByRoundOver(types ...int16) jobPlan {
	p := jobPlan{kind: roundByRound}
	p.n = uint8(copy(p.types[:], types))
	return p
}

// segment is a run of consecutive rounds of one job on width GPUs of a pool. The search compares
// segments often, which is quick because no bytes between the fields are unused.
type segment struct {
	typ           int16
	shape         uint8 // the shape of the rounds, as in jobPlan
	stays         bool
	pool          int32
	width         int64
	round, rounds int64
	start, end    int64 // in µs
	lead          int64 // for how long before start the GPUs are held, see Block.LeadUs
}

// annealJob is what the search needs to know of a gang or rigid job.
type annealJob struct {
	index   int     // the index in Model.Jobs
	weight  float64 // in weight-seconds per microsecond
	release int64
	rounds  int64
	width   int64
	rigid   bool
	// Where nodes matter, the width is that of tasks tasks of gpus GPUs each, and each task
	// also takes cpus thousandths of CPUs and memory MiB of its node. set is the index in
	// Model.Sets, −1 for all nodes.
	tasks, gpus, cpus, memory int64
	distinct                  bool // at most one task on a node
	set                       int
	quotas                    []int32 // the indices in Model.Quotas
	// levels is nil unless the rounds must keep together or take longer where they are spread.
	levels *jobLevels
	// setups are the times by type for which a GPU is taken before a block; nil without setups.
	setups []int64
	runs   *runningPlace // where the job runs at time 0 and may stay without setups, or nil
	begin  int64         // nothing of the job starts before, setups included
	// late is what a microsecond after the deadline costs, in weight-seconds.
	late     float64
	deadline int64
	// before are the jobs for which the job waits, and behind those that wait for it.
	before, behind []annealEdge
	// dur is the time of a round by type; 0 means that the job cannot run there.
	dur []int64
	// contiguousTypes lists the types on which the whole job fits in one piece. roundTypes
	// lists the types on which a round of a gang job fits. Both are sorted by duration.
	contiguousTypes, roundTypes []int16
	// forms are the job in each of its shapes; nil for a job that keeps one.
	forms     []annealJob
	shape     uint8
	counts    int64 // the units that a round does
	units     int64
	reshape   bool
	reshapeUs int64
}

// annealProblem is an instance prepared for the search. It is read-only, and all chains
// share it.
type annealProblem struct {
	m     *model.Model
	jobs  []annealJob    // the jobs that the search moves
	pools [][]pool       // by type; nil with nodes
	empty []typeCapacity // by column: the capacity that the fixed jobs leave
	// nodes is the layout of the capacity by nodes; nil if only the sums of types count.
	nodes *nodeLayout
	last  lastRooms // what finds room at the end of time; where nodes matter
	// column is the index in empty by type: the type itself, unless nodes couple types.
	column []int16
	// fixed lists the jobs that stay: relaxed jobs, and gangs that fit on no single type.
	fixed []int
	// done lists the jobs that end with the work that runs at time 0.
	done []int
	// ordered says whether some jobs wait for others; dependencies is nil otherwise.
	ordered      bool
	dependencies *dependencies
	makespan     bool
	start        *Plan
	gridUs       []int64
	price        [][]float64 // in weight-seconds per GPU-microsecond, by type and cell; nil without prices
	sum          [][]float64 // the integral of price up to each grid point
	spread       bool        // whether releases differ
	gangs        bool        // whether some job is not rigid
}

// newAnnealProblem prepares m. It returns false if a job has no place that the search
// could give it and start has none either. Places are on single nodes if nodes is not nil;
// otherwise only the sums of free GPUs of each type count.
func newAnnealProblem(m *model.Model, rel *hare.Relaxation, start *Plan, nodes *nodeLayout) (*annealProblem, bool) {
	return newShapedProblem(m, nil, rel, start, nodes)
}

// newShapedProblem is newAnnealProblem where jobs may get other shapes: m is the model in the shapes of
// start, and shaped the model with all shapes, or nil.
func newShapedProblem(m, shaped *model.Model, rel *hare.Relaxation, start *Plan, nodes *nodeLayout) (*annealProblem,
	bool) {
	ap := &annealProblem{m: m, start: start, nodes: nodes, makespan: isMakespan(m)}
	for k := range m.Types {
		if ap.column = append(ap.column, int16(k)); nodes != nil {
			ap.column[k] = nodes.column[k]
			continue
		}
		pools, tr := poolsOf(m, k)
		ap.pools = append(ap.pools, pools)
		ap.empty = append(ap.empty, tr)
	}
	if nodes != nil {
		ap.empty, ap.last = nodes.newCapacities(), lastRooms{}
	}
	ap.setPrices(rel)
	if ap.makespan {
		ap.scalePrices()
	}
	if hasAfter(m) {
		ap.dependencies = dependenciesOf(m)
	}
	dur := make([]int64, len(m.Jobs)*len(m.Types))
	finder := newSlotFinder(ap)
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if isFixed(j) {
			ap.done = append(ap.done, i)
			continue
		}
		a := newAnnealJob(m, i)
		if ap.dependencies != nil {
			a.release = ap.dependencies.head[i]
		}
		a.dur = dur[i*len(m.Types) : (i+1)*len(m.Types)]
		fits := j.Sync != hare.Relaxed && a.findTypes(j, finder, ap)
		if nodes != nil {
			nodes.addRunningPlace(&a, j)
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
		if len(ap.jobs) > 0 && a.release != ap.jobs[0].release {
			ap.spread = true
		}
		ap.gangs = ap.gangs || !a.rigid
		ap.jobs = append(ap.jobs, a)
	}
	ap.addDependencies()
	if ap.makespan {
		for i := range ap.jobs {
			ap.jobs[i].weight, ap.jobs[i].late = tieShare*1e-6/float64(len(ap.jobs)), 0
		}
	}
	for i := range ap.jobs {
		a := &ap.jobs[i]
		for s := range a.forms {
			f := &a.forms[s]
			f.weight, f.late, f.before, f.behind = a.weight, a.late, a.before, a.behind
			f.release = max(f.release, a.release)
		}
	}
	ap.reserveFixed()
	return ap, true
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
		at[ap.jobs[i].index] = int32(i)
	}
	for i := range ap.jobs {
		a := &ap.jobs[i]
		for _, p := range ap.m.Jobs[a.index].After {
			switch before := at[p.Job]; {
			case before >= 0:
				ap.ordered = true
				a.before = append(a.before, annealEdge{before, p.LagUs})
				ap.jobs[before].behind = append(ap.jobs[before].behind, annealEdge{int32(i), p.LagUs})
			case isFixed(&ap.m.Jobs[p.Job]):
				a.release = max(a.release, ap.m.Jobs[p.Job].RunsUntilUs+p.LagUs)
			case ap.start != nil:
				a.release = max(a.release, ap.start.EndUs[p.Job]+p.LagUs)
			}
		}
	}
}

// cost returns what a job that ends at end adds to the value, in weight-seconds. Under
// makespan this is its part of the mean end alone.
func (aj *annealJob) cost(end int64) float64 {
	c := aj.weight * float64(end-aj.release)
	if aj.late > 0 && end > aj.deadline {
		c += aj.late * float64(end-aj.deadline)
	}
	return c
}

// newAnnealJob describes job i without its durations and types.
func newAnnealJob(m *model.Model, i int) annealJob {
	j := &m.Jobs[i]
	return annealJob{index: i, weight: float64(j.WeightMicro) * 1e-12, release: earliestStart(j), rounds: j.Rounds,
		width: j.Tasks * j.GPUs, rigid: j.Sync == hare.Rigid, tasks: j.Tasks, gpus: j.GPUs, cpus: j.CPUMilli,
		memory: j.MemoryMiB, distinct: j.Distinct, set: j.Set, quotas: j.Quotas, levels: levelsOf(m, i),
		setups: setupsOf(m, j),
		late:   float64(j.LateWeightMicro) * 1e-12, deadline: j.DeadlineUs}
}

// columns returns the columns in which a plan places its job. Where nodes couple types, no
// plan uses several types.
func (ap *annealProblem) columns(plan *jobPlan) []int16 {
	if ap.nodes != nil && ap.nodes.coupled {
		k := plan.types[0]
		return ap.column[k : k+1]
	}
	return plan.uses()
}

// findTypes fills in the durations and the types on which the job fits.
func (aj *annealJob) findTypes(j *model.Job, sc *slotFinder, ap *annealProblem) bool {
	for _, md := range j.Modes {
		k, d := int16(md.Type), roundUs(j, md)
		if ap.nodes == nil && aj.levels != nil {
			if d = aj.leastByLevel(ap.m, k); d == 0 {
				continue
			}
		}
		if ap.nodes != nil && ap.last.fits(ap.nodes, aj, k) {
			aj.dur[k] = d
			if !aj.rigid {
				aj.roundTypes = append(aj.roundTypes, k)
			}
			aj.contiguousTypes = append(aj.contiguousTypes, k)
			continue
		}
		empty := ap.empty[ap.column[k]]
		if ap.nodes != nil && aj.levels != nil {
			if start, _ := sc.earliestByLevel(aj, k, empty, aj.release, 1); start == never {
				continue
			}
			aj.dur[k] = d
			if !aj.rigid {
				aj.roundTypes = append(aj.roundTypes, k)
			}
			if start, _ := sc.earliestByLevel(aj, k, empty, aj.release, aj.rounds); start != never {
				aj.contiguousTypes = append(aj.contiguousTypes, k)
			}
			continue
		}
		if sc.earliestAfterSetup(aj, k, empty, aj.release, d, 0) == never {
			continue
		}
		aj.dur[k] = d
		if !aj.rigid {
			aj.roundTypes = append(aj.roundTypes, k)
		}
		if sc.earliestAfterSetup(aj, k, empty, aj.release, d*aj.rounds, 0) != never {
			aj.contiguousTypes = append(aj.contiguousTypes, k)
		}
	}
	byDuration := func(x, y int16) int { return cmp.Compare(aj.dur[x], aj.dur[y]) }
	slices.SortStableFunc(aj.contiguousTypes, byDuration)
	slices.SortStableFunc(aj.roundTypes, byDuration)
	return len(aj.contiguousTypes)+len(aj.roundTypes) > 0
}

// reserveFixed takes the GPUs of the fixed jobs.
func (ap *annealProblem) reserveFixed() {
	if ap.nodes != nil {
		for _, i := range ap.fixed {
			a := newAnnealJob(ap.m, i)
			ap.nodes.reserveBlocks(ap.empty, &a, ap.start.Jobs[i])
		}
		return
	}
	at := make([][2]int16, len(ap.m.Classes)) // type and pool of each class
	for k, pools := range ap.pools {
		for i, pl := range pools {
			for _, c := range pl.classes {
				at[c] = [2]int16{int16(k), int16(i)}
			}
		}
	}
	for _, i := range ap.fixed {
		for _, b := range ap.start.Jobs[i] {
			x := at[b.Class]
			s := &ap.empty[x[0]][x[1]]
			s.reserve(s.index(b.StartUs), b.StartUs, b.endUs(), int64(b.Width))
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
func (ap *annealProblem) reducedCost(j *annealJob, k int16) float64 {
	d := j.dur[k]
	if d == 0 {
		return math.Inf(1)
	}
	long := d * j.rounds
	width := float64(j.width)
	best := math.Inf(1)
	try := func(start int64, held float64) {
		best = min(best, j.cost(start+long)+width*held)
	}
	try(j.release, ap.cumulativePrice(k, j.release+long)-ap.cumulativePrice(k, j.release))
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
		if t >= j.release {
			try(t, at(&end, t+long)-ap.sum[k][g])
		}
		if t-long >= j.release {
			try(t-long, ap.sum[k][g]-at(&begin, t-long))
		}
	}
	return best
}
