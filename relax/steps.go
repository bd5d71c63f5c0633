package relax

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// stepTerms limits R · (H/δ) · transitions of a job that is bounded round by round, and
// lengthTerms the sum over as many jobs as there are where rounds have every length
// (docs/reference/certificate.md, "Evaluation"). stepChoices limits the transitions, which are
// stored as 16 bits.
const (
	stepTerms   = 1 << 22
	lengthTerms = 1 << 25
	stepChoices = math.MaxUint16
	stepTypes   = 255
)

// Bounding round by round is stated if it raises the bound by a share of 1/minStepGain.
// Prices are chosen for it if stepAscentWork starts tried by the recursions allow
// minStepIters steps of the ascent.
const (
	stepGuess      = 1.05 // factor of the fluid's cost where the search for φ begins
	minStepGain    = 5000
	stepAscentWork = 3.5e8
	firstStepWork  = 1.5e8 // the limit before it is known what is cut off
	stepWorkFactor = 4     // factor of a limited work
	minStepIters   = 12
	maxStepIters   = 300
	manyStepIters  = 150   // so many are made with every length of a round
	leastByLength  = 0.003 // the share by which every length must raise the bound for fewer steps
	maxStepCells   = 400   // of the finest grid
	stepDelta      = 0.003 // the ascent's delta when bounding round by round begins
)

// stepMode is a type that a job may use, with times in steps.
type stepMode struct {
	// rows are the rows of prices by class of nodes, of which a task pays the least; where
	// nodes do not matter, there is one. A task pays each of them times times.
	rows  []int
	times []int64
	p, s  int
	peak  int64 // m_k
	f     int   // s + p·⌈K/m⌉: K tasks on this type alone
}

// stepLevel is a length of a round in which some type has room for some of the tasks but not all.
// Otherwise all tasks may be on the cheapest type, and the transitions of one type are exact for this.
type stepLevel struct {
	length int
	until  int     // when slots end and have synchronised, from the start of the round
	counts []int64 // by mode: min(K, N_k)
}

// stepJob is a relaxed job with times in whole steps.
type stepJob struct {
	index        int
	w, late      int64 // 1e-9 weights
	due          int   // the deadline, rounded up
	a, path, tau int
	rounds       int
	tasks        int64
	gpus         int64 // of a task
	placed       bool  // whether nodes matter
	modes        []stepMode
	levels       []stepLevel // rising
	longest      int         // L_n
}

// chooseStep returns the step of time whose multiples hold the times of most relaxed
// jobs, and of these the longest; 0 if none is at least a millisecond.
func (pr *problem) chooseStep() int64 {
	relaxed := 0
	count := func(step int64) int {
		n := 0
		for i := range pr.specs {
			if onSteps(&pr.specs[i], step) {
				n++
			}
		}
		return n
	}
	all := int64(0)
	for i := range pr.specs {
		if mj := &pr.specs[i]; mj.Sync == hare.Relaxed {
			if mj.Shapes != nil {
				return 0
			}
			relaxed++
			for _, md := range mj.Modes {
				all = gcd(gcd(all, md.ComputeUs), md.SyncUs)
			}
		}
	}
	if relaxed == 0 {
		return 0
	}
	best, most := int64(0), 0
	for _, step := range []int64{all, 60_000_000, 10_000_000, 1_000_000, 500_000, 100_000, 50_000, 10_000, 5_000,
		1_000} {
		if n := count(step); step >= 1000 && n > most {
			best, most = step, n
		}
	}
	return best
}

// stepsPay reports whether nothing is lost on a grid of multiples of the step where nodes
// matter: the prices of sizes and pools go by the most GPUs that are free in a cell, and the
// recursions know neither deadlines nor weights that move.
func (pr *problem) stepsPay() bool {
	if pr.step == 0 || len(pr.edges) > 0 || slices.ContainsFunc(pr.jobs, func(j job) bool { return j.late > 0 }) {
		return false
	}
	off := func(s model.Step) bool { return s.FromUs%pr.step != 0 }
	for k, steps := range pr.caps {
		if (pr.sized(k) || len(pr.pools.list) > 0) && slices.ContainsFunc(steps, off) {
			return false
		}
	}
	return true
}

// onSteps reports whether the times of a relaxed job's tasks are multiples of step.
func onSteps(mj *model.Job, step int64) bool {
	if mj.Sync != hare.Relaxed || mj.Shapes != nil || step <= 0 {
		return false
	}
	for _, md := range mj.Modes {
		if md.ComputeUs%step != 0 || md.SyncUs%step != 0 {
			return false
		}
	}
	return true
}

// stepJobs compiles the jobs that may be bounded round by round with prices up to end;
// the entries of other jobs are nil.
func (pr *problem) stepJobs(step, end int64) []*stepJob {
	out := make([]*stepJob, len(pr.jobs))
	for i := range pr.jobs {
		out[i] = pr.stepJob(i, step, end/step)
	}
	return out
}

func (pr *problem) stepJob(i int, step, cells int64) *stepJob {
	mj := &pr.specs[i]
	if !onSteps(mj, step) || len(mj.Modes) == 0 || pr.pathUs[i]/step > math.MaxInt32 {
		return nil
	}
	// A job that is released between two steps is bounded as if released at the earlier one.
	j := &stepJob{index: i, a: int(mj.ReleaseUs / step), rounds: int(mj.Rounds), tasks: mj.Tasks,
		gpus: mj.GPUs, placed: pr.model.Placed}
	j.tau = int(pr.leastUs[i] / mj.Rounds / step)
	j.path = j.a + j.rounds*j.tau
	var lengths []int64
	for _, md := range mj.Modes {
		m := stepMode{p: int(md.ComputeUs / step), s: int(md.SyncUs / step)}
		if !pr.addStepRows(&m, i, md.Type) {
			return nil
		}
		if m.peak == 0 {
			continue // no node ever has room for a task
		}
		turns := (mj.Tasks + m.peak - 1) / m.peak
		if turns > stepTypes || int64(m.p)*turns > math.MaxInt32 {
			return nil
		}
		m.f = m.s + m.p*int(turns)
		j.longest = max(j.longest, m.f)
		j.modes = append(j.modes, m)
		for n := range turns {
			lengths = append(lengths, int64(m.s)+int64(m.p)*(n+1))
		}
	}
	if len(j.modes) == 0 || len(j.modes) > stepTypes || mj.Rounds > stepTerms || cells > stepTerms ||
		mj.Rounds*cells > stepTerms {
		return nil
	}
	terms := int64(j.longest-j.tau) + int64(len(j.modes))
	if all := mj.Rounds * cells * int64(len(pr.model.Instance.Jobs)); !pr.fewLengths &&
		terms <= min(stepChoices, lengthTerms/max(1, all)) {
		for l := j.tau; l < j.longest; l++ {
			j.addLevel(l, l)
		}
	} else if !j.addLevels(lengths, stepTerms/max(1, mj.Rounds*cells)) {
		return nil
	}
	// Every cost must fit, even the weight times the latest end.
	latest := float64(j.path) + float64(cells) + float64(j.longest)*float64(j.rounds+1)
	if float64(mj.WeightMicro+mj.LateWeightMicro)*nano*latest > unreachable/4 {
		return nil
	}
	j.w = mj.WeightMicro * nano
	if mj.LateWeightMicro > 0 {
		if mj.DeadlineUs/step >= math.MaxInt32 {
			return nil
		}
		j.late, j.due = mj.LateWeightMicro*nano, int((mj.DeadlineUs+step-1)/step)
	}
	return j
}

// addLevels adds the levels among lengths, if there are at most so many terms.
func (sj *stepJob) addLevels(lengths []int64, most int64) bool {
	slices.Sort(lengths)
	lengths = slices.DeleteFunc(slices.Compact(lengths), func(l int64) bool { return l < int64(sj.tau) })
	if int64(len(lengths)-1+len(sj.modes)) > min(most, stepChoices) {
		return false
	}
	for x := range len(lengths) - 1 {
		sj.addLevel(int(lengths[x]), int(lengths[x+1])-1)
	}
	return true
}

// addLevel adds a length of rounds unless all of its tasks may be on one type.
func (sj *stepJob) addLevel(length, until int) {
	level := stepLevel{length: length, until: until, counts: make([]int64, len(sj.modes))}
	partial := false
	for i, m := range sj.modes {
		if length >= m.s+m.p {
			level.counts[i] = min(sj.tasks, m.peak*int64((length-m.s)/m.p))
		}
		partial = partial || 0 < level.counts[i] && level.counts[i] < sj.tasks
	}
	if partial {
		sj.levels = append(sj.levels, level)
	}
}

// addStepRows fills in which prices a task of job i pays on type k, and how many of its tasks
// can run there at once. It returns false if the prices are not multiples of a row.
func (pr *problem) addStepRows(m *stepMode, i, k int) bool {
	if !pr.model.Placed {
		m.rows, m.times = []int{k}, []int64{1}
		for _, s := range pr.caps[k] {
			m.peak = max(m.peak, s.Count)
		}
		return true
	}
	mj, rows := &pr.specs[i], pr.oracleRows()
	for _, md := range pr.jobs[i].modes {
		if md.kind != k {
			continue
		}
		gpus := rows[md.row].gpus
		if mj.GPUs%gpus != 0 {
			return false
		}
		m.rows, m.times = append(m.rows, md.row), append(m.times, mj.GPUs/gpus)
	}
	if len(m.rows) > 0 {
		for _, md := range pr.rooms.modes(pr.model, mj) {
			if md.Type == k {
				m.peak = md.most
			}
		}
	}
	return true
}

// stepPrices are the prices of the rows of the oracle summed up to each step. Costs count 1e-9
// weights times steps.
type stepPrices struct {
	step  int64
	cells int // H in steps
	cum   [][]int64
	tops  []float64 // the largest sum of each row
	top   float64   // the largest sum of all
}

// topOf returns the most that a task of job j can pay.
func (sp *stepPrices) topOf(j *stepJob) float64 {
	if !j.placed {
		return sp.top
	}
	top := 0.0
	for i := range j.modes {
		for x, r := range j.modes[i].rows {
			top = max(top, sp.tops[r]*float64(j.modes[i].times[x]))
		}
	}
	return top
}

// load sums nanos, on a grid of multiples of step, over the rows of types.
func (sp *stepPrices) load(step int64, grid []int64, nanos [][]int64) {
	sp.step, sp.cells, sp.top = step, int(grid[len(grid)-1]/step), 0
	for len(sp.cum) < len(nanos) {
		sp.cum = append(sp.cum, nil)
	}
	sp.tops = append(sp.tops[:0], make([]float64, len(nanos))...)
	for k, row := range nanos {
		cum := append(sp.cum[k][:0], 0)
		for g, x := range row {
			// Prices that do not fit make top too large for any job.
			each := x
			if float64(x)*float64(sp.cells) > unreachable {
				each = 0
				sp.top, sp.tops[k] = math.Inf(1), math.Inf(1)
			}
			last := cum[len(cum)-1]
			for range (grid[g+1] - grid[g]) / step {
				last += each
				cum = append(cum, last)
			}
		}
		sp.cum[k] = cum
		sp.tops[k] = max(sp.tops[k], float64(cum[len(cum)-1]))
		sp.top = max(sp.top, sp.tops[k])
	}
}

// unreachable is more than any cost of a job that is bounded round by round; two such
// costs add up in 64 bits.
const unreachable = math.MaxInt64 / 4
