package relax

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// A problem is an instance compiled for the bounds, as data: newProblem makes it, and the bounds are functions over
// it. Its symbols are those of docs/inside/design.md, section 2. Times are microseconds, and weights 1e-9 of those of
// the instance.
//
//	j       a job that a plan can still change      jobs[i], and specs[i] in whole numbers
//	R, K, g its rounds, tasks and GPUs of a task     job.rounds, job.tasks, model.Job.GPUs
//	w, a    its weight and earliest start            job.w, job.a
//	v, due  its weight after its deadline            job.late, job.due
//	τ, R τ  its shortest round, and all of these     job.path is a + R τ
//	k       a type of GPUs                           an index in caps and model.Types
//	M_k(t)  GPUs of type k that are available        caps[k], as steps over time
//	m       a way to run: type, level and shape      job.modes[m]
//	p, s, d compute, synchronisation and their sum   mode.p, mode.s, mode.d of a round
//	π(t)    prices of a GPU-second, in 1e-9          prices.at[row][cell], by mode.row
//	φ_j(π)  the least cost of a job at prices        answer.phi, in units of 1e-15 weight-seconds
//	δ       the step of bounding round by round      step
//	σ, ℓ    the least setup, the least time left     setupUs[j], leastUs[i]
//
// A row of prices is a type, then a size of a type (rows); the ascent has a row for each type, dual feasible function
// and function of a pool (ascentRows), and the oracle one for each type, size and composite of pools (oracleRows). A
// cell is an interval of the grid of an ascent.

// Floats in this package count microseconds, 1e-9 weights and 1e-9 prices. Times and
// prices that are read from a certificate are therefore exact, and values count 1e-15
// weight-seconds.
const (
	nano = 1000  // 1e-9 weights in a micro-weight
	unit = 1e-15 // weight-seconds in one unit of value

	second = 1e6
)

// mode is one GPU type that a job may use.
type mode struct {
	kind int // the index in Model.Types
	// level is that of which one domain holds a round; anyLevel if levels do not matter.
	level int16
	shape int16   // the index in model.Job.Shapes
	each  float64 // the time of one unit: d, or d/u where a round does u units
	top   int     // the row of the prices of types and sizes
	row   int     // the row of the oracle's prices, which is top without pools
	p, d  float64 // the compute time of a task, and the time of a round: compute + sync, or more if it is loose
	// A relaxed job pays at t the least price from t − s to t + ahead: s is the synchronisation and ahead is 0, or both
	// are longer for loose rounds (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf").
	s, ahead float64
	// trailingID numbers the trailing minima that jobs with the same row, synchronisation
	// and release share; −1 means that no other job shares it.
	trailingID int
	held       float64 // the GPUs paid for, on average: K·g·p/d if relaxed, K·g if gang or rigid
}

// job is a job in microseconds and 1e-9 weights.
type job struct {
	sync   hare.Sync
	w      float64
	late   float64 // the weight of each second after the deadline
	due    float64 // the deadline; 0 where late is 0
	until  float64 // all work ends by this time; 0 means that it may end later
	a      float64 // nothing of the rounds that are left starts before this time
	path   float64 // the job cannot complete before this time
	rounds float64 // that are left
	tasks  float64
	modes  []mode // sorted by rate, slowest first
	// shapes are the job in each of its shapes, if all rounds must have the same; its modes are
	// then those of all shapes. pathOnly says that the job is bounded by its path alone.
	shapes   []job
	pathOnly bool
	// scenarios are the job at each of its durations, of which φ is the mean; micro is how likely
	// the job is as one of these.
	scenarios []job
	micro     int64
	// perRate[(a+1)·n+b] is the time in mode b instead of mode a (−1: idle) that does one
	// round more, of n modes; 0 if b is no faster. Rigid jobs do not change their mode, and have none.
	perRate []float64
}

// problem is an instance compiled for the float oracles.
type problem struct {
	model *model.Model
	// specs are the jobs of the model that a plan can still change, with the earliest start a'
	// as their release, and index holds their places in the model.
	specs  []model.Job
	index  []int
	jobs   []job          // of specs
	caps   [][]model.Step // by type
	wa     float64        // Σ w a
	pathUs []int64        // the exact path by job
	// leastUs is the least time of what is left of a job, setups and waits left out, by job.
	leastUs []int64
	// written is the model of the times as they are written, where the mean over durations is
	// bounded and model has the shortest ones. writtenModes are its modes by job of specs that has
	// durations.
	written       *model.Model
	writtenModes  [][]roundMode
	syncAsCompute float64        // the share of synchronisation that is charged as compute
	idleCharge    float64        // see Config.IdleCharge
	step          int64          // δ, or 0 without bounding round by round
	fewLengths    bool           // rounds have the lengths of levels alone, which takes less work
	rows          []row          // of the oracle: types, then sizes
	dualFeasible  []dualFeasible // the rows of the ascent behind those of types
	pools         pools          // the rows of the ascent behind those
	marks         []float64      // times that are points of each grid
	edges         []edge         // along which weight may move
	ownWeight     []int64        // of specs in the instance, where there are edges
	setupUs       []int64        // σ by job of the model; nil where all are 0
	rooms         roomCache      // where nodes matter
	infeasible    error          // says which job can never run
}

// setTimes sets the times of a task and of a unit, and the GPUs that a round pays, which holds
// gpus and does counts units.
func (md *mode) setTimes(sync hare.Sync, p, s, gpus, counts float64) {
	md.p, md.s, md.d, md.held = p, s, p+s, gpus
	md.each = md.d / counts
	if sync == hare.Relaxed {
		md.held = gpus * p / md.d
	}
}

// sortModes sorts modes by rate, the slowest first.
func sortModes(modes []mode) {
	slices.SortStableFunc(modes, func(x, y mode) int { return cmp.Compare(1/x.each, 1/y.each) })
}

// shapeOf returns the tasks K of a round of job i in a mode, their GPUs g and the units u that the
// round does.
func (pr *problem) shapeOf(i int, md *mode) (tasks, gpus, counts int64) {
	mj := &pr.specs[i]
	if mj.Shapes == nil {
		return mj.Tasks, mj.GPUs, 1
	}
	s := &mj.Shapes[md.shape]
	return s.Tasks, s.GPUs, s.Counts
}

// inShape returns the job in its shape number s, with the weight and the end of the job now.
func (j *job) inShape(s int) *job {
	one := &j.shapes[s]
	one.w, one.until = j.w, j.until
	return one
}

// cost returns w C + v max(0, C − d), what an end at C costs beside the price.
func (j *job) cost(end float64) float64 {
	if j.late > 0 && end > j.due {
		return j.w*end + j.late*(end-j.due)
	}
	return j.w * end
}

// weightFrom returns what each second after t costs, up to the deadline if that is later.
func (j *job) weightFrom(t float64) float64 {
	if t >= j.due {
		return j.w + j.late
	}
	return j.w
}

// maxModes limits the modes of a job that are mixed, for each pair of which a number is kept.
const maxModes = 512

// setPerRate computes perRate.
func (j *job) setPerRate() {
	n := len(j.modes)
	if j.pathOnly = n > maxModes; j.pathOnly || j.sync == hare.Rigid {
		return
	}
	j.perRate = make([]float64, (n+1)*n)
	for b := range j.modes {
		j.perRate[b] = j.modes[b].each
		for a := range b {
			if more := 1/j.modes[b].each - 1/j.modes[a].each; more > 0 {
				j.perRate[(a+1)*n+b] = 1 / more
			}
		}
	}
}

// row says what a row of the oracle's prices charges for: single GPUs of a type (gpus 1),
// or so many GPUs that a task, a gang or a rigid job holds together (docs/inside/bounds.md,
// "Sizes"). Floats are prices per GPU, certificates hold prices of the whole size.
type row struct {
	kind int
	gpus int64
	job  int // of whose own price it is, counted from 1; 0 for a price of all jobs
}

// dualFeasible is the dual feasible function u_m on a type: u_m(x) = x if (m+1)x is an
// integer, else ⌊(m+1)x⌋/m (Fekete and Schepers 2001). A price q of the function charges
// q·M·u_m(K/M) for K of M GPUs, and at most q·M for all of them.
type dualFeasible struct {
	kind int
	m    int64
}

// unitGPUs returns how many GPUs of one type job i holds together in a mode: those of a task if
// its tasks are independent or may mix types, else those of all tasks.
func (pr *problem) unitGPUs(i int, md *mode) int64 {
	mj := &pr.specs[i]
	tasks, gpus, _ := pr.shapeOf(i, md)
	if mj.Sync == hare.Relaxed || mj.Mix {
		return gpus
	}
	return tasks * gpus
}

// ascentRows returns the number of rows of the ascent: prices of single GPUs, then those
// of dual feasible functions, then those of the functions of pools.
func (pr *problem) ascentRows() int {
	return len(pr.caps) + len(pr.dualFeasible) + len(pr.pools.functions)
}

// kindOf returns the type whose GPUs a row of the ascent prices.
func (pr *problem) kindOf(r int) int {
	if r < len(pr.caps) {
		return r
	}
	if r -= len(pr.caps); r < len(pr.dualFeasible) {
		return pr.dualFeasible[r].kind
	}
	return pr.pools.list[pr.pools.functions[r-len(pr.dualFeasible)].pool].kind
}

func (pr *problem) sized(kind int) bool {
	return slices.ContainsFunc(pr.rows[len(pr.caps):], func(r row) bool { return r.kind == kind })
}

// edge is a dependency along which weight may move from a job to one for whose end it waits
// (docs/reference/model.md, "Weight along dependencies"). Each unit of weight that moves adds gain.
type edge struct {
	job, before int // the indices in specs; before is topologically earlier
	gain        float64
	gainUs      int64 // lag + σ + ℓ
	scale       float64
}

// pool is a pool of prices (docs/reference/model.md, "Pools"). Its rows are the price of one unit,
// which is a GPU, a thousandth of a CPU or a MiB, and the prices of its sizes.
type pool struct {
	resource hare.PoolResource
	kind     int // of quotas, the first type that counts
	quota    int // the index in Model.Quotas
	per      string
	only     []hare.LabelValues
	in       []bool // by Model.Kinds
	level    int    // of per, where there is no selector
	domains  []domain
	sizes    []int64
	firstRow int // in the rows of pools
}

// domain stands for count domains with the same capacity.
type domain struct {
	steps []model.Step
	count int64
}

// poolFunction is a row of the ascent: a unit of its price charges share for each row of its
// pool, and cost a microsecond for the capacity over time.
type poolFunction struct {
	pool  int
	share []float64
	cost  []costStep
}

type costStep struct {
	from  float64
	price float64
}

// composite is a row of the oracle's prices: what a round of a gang, or a task, pays in all
// pools of a class of nodes.
type composite struct {
	top   int // the row of Prices and Sizes
	gpus  int64
	terms []poolTerm
	// quotas are the units that pay in pools of quotas, of the sizes listed there.
	quotas []quotaUnit
}

// quotaUnit says that a unit of so many GPUs pays in a pool of a quota.
type quotaUnit struct {
	pool int
	gpus int64
}

// poolTerm charges times the price of a row of a pool.
type poolTerm struct {
	row   int
	times int64
}

// pools are the pools beside the prices and sizes of types.
type pools struct {
	list       []pool
	functions  []poolFunction
	composites []composite
	rows       int
	// flat holds, for each composite, the functions that it pays, per GPU.
	flat [][]flatTerm
}

type flatTerm struct {
	function int
	perGPU   float64
}

// oracleRows returns the rows of the oracle's prices.
func (pr *problem) oracleRows() []row {
	if len(pr.pools.composites) == 0 {
		return pr.rows
	}
	rows := make([]row, len(pr.pools.composites))
	for c := range rows {
		x := &pr.pools.composites[c]
		rows[c] = row{kind: pr.rows[x.top].kind, gpus: x.gpus}
	}
	return rows
}
