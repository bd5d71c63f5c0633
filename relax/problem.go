// Package relax bounds an instance from below and orders its jobs by
// relaxations: the critical path, one fast machine, the paper's relaxation
// repaired (and as printed, for comparison), and the price bound, which is the
// dual of the configuration LP (docs/design.md, section 2).
package relax

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// Floats in this package count microseconds, 1e-9 weights and 1e-9 prices, so
// that times and prices read from a certificate are exact; values then count
// 1e-15 weight-seconds.
const (
	nano = 1000  // 1e-9 weights in a micro-weight
	unit = 1e-15 // weight-seconds in one of value

	second = 1e6
)

// mode is one GPU type that a job may use.
type mode struct {
	kind int     // index of Model.Types
	row  int     // of the oracle's prices
	p, d float64 // compute and compute + sync of one task
	s    float64
	rate float64 // 1/d, rounds a microsecond
	// trail numbers what jobs of the same row, synchronisation and release see
	// of prices; −1 where no other job does.
	trail int
	held  float64 // GPUs paid for, on average: K·p/d relaxed, K gang and rigid
}

// job is a job in microseconds and 1e-9 weights.
type job struct {
	sync   hare.Sync
	w, a   float64
	path   float64 // no completion before this
	rounds float64
	tasks  float64
	modes  []mode // by rate, slowest first
	// perRate[(a+1)·n+b] is the time that moving from mode a (−1: idle) to b
	// takes for a round more, of n modes; 0 where b is no faster.
	perRate []float64
}

// problem is an instance compiled for the float oracles.
type problem struct {
	model   *hare.Model
	jobs    []job
	caps    [][]hare.Step // by type
	wa      float64       // Σ w a
	pathUs  []int64       // exact path, by job
	planned float64       // share of synchronisation charged as compute
	step    int64         // δ, or 0 without steps
	rows    []row         // of the oracle: types, then sizes
	packs   []pack        // rows of the ascent after those of types
}

// newProblem compiles m. The share beta of synchronisation is charged as
// compute: 0 for bounds, positive for plans only (docs/design.md, section 3). Jobs without a
// round time (hare would call them infeasible) make ok false.
func newProblem(m *hare.Model, beta float64) (pr *problem, ok bool) {
	pr = &problem{model: m, planned: beta}
	pr.caps = make([][]hare.Step, len(m.Types))
	peak := make([]int64, len(m.Types))
	for k := range m.Types {
		pr.caps[k] = m.Capacity(k)
		for _, s := range pr.caps[k] {
			peak[k] = max(peak[k], s.Count)
		}
	}
	pr.jobs = make([]job, len(m.Jobs))
	pr.pathUs = make([]int64, len(m.Jobs))
	for i := range m.Jobs {
		mj := &m.Jobs[i]
		tau, fits := roundTime(mj, peak)
		if !fits {
			return nil, false
		}
		pr.pathUs[i] = mj.ReleaseUs + mj.Rounds*tau
		j := job{
			sync: mj.Sync, w: float64(mj.WeightMicro) * nano, a: float64(mj.ReleaseUs),
			path: float64(pr.pathUs[i]), rounds: float64(mj.Rounds), tasks: float64(mj.Tasks),
		}
		for _, md := range mj.Modes {
			p, s := float64(md.ComputeUs), float64(md.SyncUs)
			if mj.Sync == hare.Relaxed {
				p, s = p+beta*s, (1-beta)*s
			}
			f := mode{kind: md.Type, row: md.Type, p: p, s: s, d: p + s, rate: 1 / (p + s), held: j.tasks}
			if mj.Sync == hare.Relaxed {
				f.held = j.tasks * p / f.d
			}
			j.modes = append(j.modes, f)
		}
		slices.SortStableFunc(j.modes, func(x, y mode) int {
			switch {
			case x.rate < y.rate:
				return -1
			case x.rate > y.rate:
				return 1
			}
			return 0
		})
		j.compare()
		pr.jobs[i] = j
		pr.wa += j.w * j.a
	}
	pr.addRows()
	pr.share()
	return pr, true
}

// maxShared limits the memory for shared trails: some 2 KB each.
const maxShared = 4096

// share numbers the trails that several jobs see.
func (pr *problem) share() {
	type key struct {
		row  int
		s, a float64
	}
	of := func(j *job, md *mode) key {
		if j.sync != hare.Relaxed {
			return key{md.row, 0, j.a}
		}
		return key{md.row, md.s, j.a}
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
		if md.trail = -1; seen[k] > 1 && j.sync != hare.Rigid {
			id, ok := ids[k]
			if !ok && len(ids) < maxShared {
				id, ok = len(ids), true
				ids[k] = id
			}
			if ok {
				md.trail = id
			}
		}
	})
}

// compare fills in perRate.
func (j *job) compare() {
	n := len(j.modes)
	j.perRate = make([]float64, (n+1)*n)
	for b := range j.modes {
		j.perRate[b] = j.modes[b].d
		for a := range b {
			if more := j.modes[b].rate - j.modes[a].rate; more > 0 {
				j.perRate[(a+1)*n+b] = 1 / more
			}
		}
	}
}

// roundTime is τ_j in microseconds: the least time of one round on an empty
// cluster with peak[k] GPUs of type k. ok is false when no round can ever run.
// O(types · log) for relaxed jobs, O(types log types) otherwise.
func roundTime(j *hare.ModelJob, peak []int64) (tau int64, ok bool) {
	switch {
	case j.Sync == hare.Relaxed:
		return relaxedRound(j, peak)
	case j.Mix:
		return mixedRound(j, peak)
	}
	tau = math.MaxInt64
	for _, md := range j.Modes {
		if peak[md.Type] >= j.Tasks {
			tau = min(tau, md.DurationUs())
		}
	}
	return tau, tau != math.MaxInt64
}

func relaxedRound(j *hare.ModelJob, peak []int64) (int64, bool) {
	enough := func(t int64) bool {
		var n int64
		for _, md := range j.Modes {
			if t < md.DurationUs() {
				continue
			}
			each := (t - md.SyncUs) / md.ComputeUs
			if each >= j.Tasks && peak[md.Type] > 0 {
				return true
			}
			n += peak[md.Type] * each
			if n >= j.Tasks {
				return true
			}
		}
		return false
	}
	hi := int64(math.MaxInt64)
	for _, md := range j.Modes {
		if peak[md.Type] > 0 {
			hi = min(hi, md.SyncUs+j.Tasks*md.ComputeUs)
		}
	}
	if hi == math.MaxInt64 {
		return 0, false
	}
	lo := int64(0) // not enough
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

func mixedRound(j *hare.ModelJob, peak []int64) (int64, bool) {
	modes := slices.Clone(j.Modes)
	slices.SortFunc(modes, func(a, b hare.Mode) int {
		switch {
		case a.DurationUs() < b.DurationUs():
			return -1
		case a.DurationUs() > b.DurationUs():
			return 1
		}
		return 0
	})
	var n int64
	for _, md := range modes {
		if n += peak[md.Type]; n >= j.Tasks {
			return md.DurationUs(), true
		}
	}
	return 0, false
}

// capacity returns what a unit of price of each row of the ascent charges for
// capacity in each cell of grid, in GPU-microseconds: ∫ M_k, or max M_k of the
// cell times its length for a pack.
func (pr *problem) capacity(grid []float64) [][]float64 {
	out := make([][]float64, len(pr.caps), pr.width())
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
	for _, p := range pr.packs {
		cells := make([]float64, len(grid)-1)
		for g, c := range tallest(pr.caps[p.kind], grid) {
			cells[g] = float64(c) * (grid[g+1] - grid[g])
		}
		out = append(out, cells)
	}
	return out
}
