// Package relax bounds an instance from below and orders its jobs by
// relaxations: the critical path, one fast machine, the paper's relaxation
// repaired (and as printed, for comparison), and the price bound, which is the
// dual of the configuration LP (docs/inside/design.md, section 2).
package relax

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

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
	// round more, of n modes; 0 if b is no faster.
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

// newProblem compiles m. The share beta of synchronisation is charged as compute: 0 for
// bounds, positive only for plans (docs/inside/design.md, section 3). It returns false if a job
// has no round time, since such a job is infeasible; pr.infeasible is then the error.
func newProblem(m *model.Model, beta float64) (pr *problem, ok bool) {
	return newPlanProblem(m, beta, 0)
}

// newPlanProblem is newProblem where each relaxed job pays for idle GPUs too, as Config.IdleCharge says.
func newPlanProblem(m *model.Model, beta, idle float64) (pr *problem, ok bool) {
	pr = &problem{model: m, syncAsCompute: beta, idleCharge: idle}
	return pr, pr.compile()
}

// compile fills in a problem of which model, written and syncAsCompute are given.
func (pr *problem) compile() (ok bool) {
	m, beta := pr.model, pr.syncAsCompute
	pr.caps = make([][]model.Step, len(m.Types))
	peak := make([]int64, len(m.Types))
	for k := range m.Types {
		pr.caps[k] = m.Capacity(k)
		for _, s := range pr.caps[k] {
			peak[k] = max(peak[k], s.Count)
		}
	}
	kept, ok := pr.addTimes(peak)
	if !ok {
		return false
	}
	pr.jobs = make([]job, len(pr.specs))
	for i := range pr.specs {
		mj, modes := &pr.specs[i], kept[i]
		j := job{
			sync: mj.Sync, w: float64(mj.WeightMicro) * nano, a: float64(mj.ReleaseUs),
			late: float64(mj.LateWeightMicro) * nano,
			path: float64(pr.pathUs[i]), rounds: float64(mj.Rounds), tasks: float64(mj.Tasks),
		}
		if j.late > 0 {
			j.due = float64(mj.DeadlineUs)
		}
		gpus, counts := j.tasks*float64(mj.GPUs), 1.0
		for _, md := range modes {
			if mj.Shapes != nil {
				s := &mj.Shapes[md.shape]
				gpus, counts = float64(s.Tasks*s.GPUs), float64(s.Counts)
			}
			p, s := float64(md.ComputeUs), float64(md.SyncUs)
			if mj.Sync == hare.Relaxed {
				p, s = p+beta*s, (1-beta)*s
			}
			f := mode{kind: md.Type, level: int16(md.level), shape: int16(md.shape), top: md.Type, row: md.Type}
			f.setTimes(mj.Sync, p, s, gpus, counts)
			if mj.Sync == hare.Relaxed {
				f.held *= 1 + pr.idleCharge
			}
			j.modes = append(j.modes, f)
		}
		sortModes(j.modes)
		j.setPerRate()
		pr.jobs[i] = j
		if j.w > 0 {
			pr.wa += j.w * float64(pr.releaseUs(i))
		}
	}
	if m.Instance.Objective != hare.ObjectiveMakespan {
		pr.addEdges()
	}
	pr.addRows()
	pr.shareTrailing()
	pr.setShapes()
	return true
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

// maxModes limits the modes of a job that are mixed, for each pair of which a number is kept.
const maxModes = 512

// setShapes splits the modes of jobs that keep their shape by shapes, and then by durations.
func (pr *problem) setShapes() {
	for i := range pr.jobs {
		pr.splitShapes(&pr.jobs[i], &pr.specs[i])
	}
	pr.setScenarios()
}

// splitShapes splits the modes of a job by shapes if it keeps its shape.
func (pr *problem) splitShapes(j *job, mj *model.Job) {
	j.shapes = nil
	if mj.Shapes == nil || mj.Reshape {
		return
	}
	var shapes []job
	for s := range mj.Shapes {
		one := *j
		one.modes, one.pathOnly, one.scenarios = nil, false, nil
		for _, md := range j.modes {
			if int(md.shape) == s {
				one.modes = append(one.modes, md)
			}
		}
		if len(one.modes) == 0 {
			continue
		}
		if one.sync == hare.Rigid {
			one.rounds = float64(mj.Shapes[s].RoundsFor(mj.Rounds))
		}
		one.setPerRate()
		shapes = append(shapes, one)
	}
	j.shapes = shapes
}

// inShape returns the job in its shape number s, with the weight and the end of the job now.
func (j *job) inShape(s int) *job {
	one := &j.shapes[s]
	one.w, one.until = j.w, j.until
	return one
}

// maxSharedTrailing limits the memory for shared trailing minima, which take some 2 KB
// each.
const maxSharedTrailing = 4096

// shareTrailing numbers the trailing minima that several jobs share.
func (pr *problem) shareTrailing() {
	type key struct {
		row         int
		s, ahead, a float64
	}
	of := func(j *job, md *mode) key {
		if j.sync != hare.Relaxed {
			return key{md.row, 0, 0, j.a}
		}
		return key{md.row, md.s, md.ahead, j.a}
	}
	seen := map[key]int{}
	each := func(f func(j *job, md *mode)) {
		for i := range pr.jobs {
			for m := range pr.jobs[i].modes {
				f(&pr.jobs[i], &pr.jobs[i].modes[m])
			}
		}
	}
	each(func(j *job, md *mode) { seen[of(j, md)]++ })
	ids := map[key]int{}
	each(func(j *job, md *mode) {
		k := of(j, md)
		if md.trailingID = -1; seen[k] > 1 && j.sync != hare.Rigid {
			id, ok := ids[k]
			if !ok && len(ids) < maxSharedTrailing {
				id, ok = len(ids), true
				ids[k] = id
			}
			if ok {
				md.trailingID = id
			}
		}
	})
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

// setPerRate computes perRate.
func (j *job) setPerRate() {
	n := len(j.modes)
	if j.pathOnly = n > maxModes; j.pathOnly {
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

// roundTime returns τ_j in microseconds: the least time of one round on an empty cluster
// with room for so many tasks of each mode at once. It returns false if no round can
// ever run. It takes O(modes · log) for relaxed jobs and O(modes log modes) otherwise.
func roundTime(j *model.Job, modes []roundMode) (tau int64, ok bool) {
	switch {
	case j.Sync == hare.Relaxed:
		return relaxedRound(j, modes)
	case j.Mix:
		return mixedRound(j, modes)
	}
	tau = math.MaxInt64
	for x := range modes {
		if md := &modes[x]; md.most >= j.Tasks {
			tau = min(tau, md.DurationUs())
		}
	}
	return tau, tau != math.MaxInt64
}

func relaxedRound(j *model.Job, modes []roundMode) (int64, bool) {
	enough := func(t int64) bool {
		var n int64
		for x := range modes {
			md := &modes[x]
			if t < md.DurationUs() {
				continue
			}
			each := (t - md.SyncUs) / md.ComputeUs
			if each >= j.Tasks && md.most > 0 {
				return true
			}
			n += md.most * each
			if n >= j.Tasks {
				return true
			}
		}
		return false
	}
	hi := int64(math.MaxInt64)
	for x := range modes {
		if md := &modes[x]; md.most > 0 {
			hi = min(hi, md.SyncUs+j.Tasks*md.ComputeUs)
		}
	}
	if hi == math.MaxInt64 {
		return 0, false
	}
	lo := int64(0) // lo is too short, hi is long enough
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, true
}

func mixedRound(j *model.Job, modes []roundMode) (int64, bool) {
	modes = slices.Clone(modes)
	slices.SortFunc(modes, func(a, b roundMode) int {
		switch {
		case a.DurationUs() < b.DurationUs():
			return -1
		case a.DurationUs() > b.DurationUs():
			return 1
		}
		return 0
	})
	var n int64
	for x := range modes {
		md := &modes[x]
		if n += md.most; n >= j.Tasks {
			return md.DurationUs(), true
		}
	}
	return 0, false
}

// capacity returns, for each row of the ascent and each cell of grid, what a unit of
// price charges for capacity, in GPU-microseconds: ∫ M_k, or max M_k of the cell times
// its length for a dual feasible function.
func (pr *problem) capacity(grid []float64) [][]float64 {
	out := make([][]float64, len(pr.caps), pr.ascentRows())
	for k, steps := range pr.caps {
		out[k] = make([]float64, len(grid)-1)
		i := 0
		for g := range out[k] {
			t, end := grid[g], grid[g+1]
			for t < end {
				for i+1 < len(steps) && float64(steps[i+1].FromUs) <= t {
					i++
				}
				next := end
				if i+1 < len(steps) {
					next = min(next, float64(steps[i+1].FromUs))
				}
				out[k][g] += (next - t) * float64(steps[i].Count)
				t = next
			}
		}
	}
	for _, p := range pr.dualFeasible {
		cells := make([]float64, len(grid)-1)
		for g, c := range maxCapacity(pr.caps[p.kind], grid) {
			cells[g] = float64(c) * (grid[g+1] - grid[g])
		}
		out = append(out, cells)
	}
	return append(out, pr.pools.capacity(grid)...)
}
