package bench

import (
	"context"
	"errors"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/model"
)

// intervalCells is the number of the LP's intervals before the last, open one.
const intervalCells = 48

// IntervalLP bounds the weighted JCT from below by the interval-indexed linear
// program of Hall, Schulz, Shmoys and Wein ("Scheduling to minimize average
// completion time", 1997), written for GPU types in place of machines:
//
//	y_jkl  the share of the work of job j that is computed on type k in interval l
//	min    Σ_j w_j (C_j − a_j)
//	       Σ_kl y_jkl = 1                              all work is done
//	       Σ_j K_j R_j q_jk y_jkl ≤ ∫_l M_k            GPU time of a type
//	       Σ_k R_j q_jk y_jkl ≤ length of l after a_j  at most K_j tasks at a time
//	       C_j ≥ Σ_kl (left end of l, or a_j) y_jkl + h_j,  C_j ≥ a_j + R_j τ_j
//
// q is p for relaxed jobs and p + s for gang and rigid jobs, which hold their GPUs while they
// synchronise. τ is the least time of a round if nothing else runs. h is half of the least
// R q: work takes at least R q, so the mean time of the work lies at least half of that
// before its end (Schulz and Skutella, "Scheduling unrelated machines by randomized
// rounding", 2002). For a rigid job, which stays on one type, h is half of R q_k on type k.
// For a relaxed job, the least synchronisation time is added to h.
//
// Intervals start with the least length and grow by a tenth of their left end; the last
// interval is open. The rows with K_j are added only for the jobs that violate one of them.
// The optimum is in floats and not certified. If the context ends before all rows hold,
// IntervalLP returns the last optimum, which is a bound, too, with the context's error. A nil
// bound means that there is none.
func IntervalLP(ctx context.Context, engine lp.Solver, inst *hare.Instance) (bound *float64, err error) {
	if engine == nil {
		return nil, errors.New("no LP engine")
	}
	p, rates, constant := intervalProblem(model.New(inst))
	if p == nil {
		return nil, errors.New("a job can never run")
	}
	for {
		sol, err := engine.Solve(ctx, p)
		if err != nil {
			return bound, err
		}
		value := sol.Objective - constant
		bound = &value
		violated := map[int]bool{} // by job
		for _, r := range rates {
			sum := 0.0
			for i, y := range r.index {
				sum += r.value[i] * sol.X[y]
			}
			if sum > r.most*(1+1e-7) {
				violated[r.job] = true
			}
		}
		if len(violated) == 0 {
			return bound, nil
		}
		waiting := rates[:0]
		for _, r := range rates {
			if violated[r.job] {
				addRow(p, math.Inf(-1), r.most, r.entries)
			} else {
				waiting = append(waiting, r)
			}
		}
		rates = waiting
	}
}

// entries are the coefficients of a row.
type entries struct {
	index []int32
	value []float64
}

// rateRow is a row that is added when a row of its job is violated.
type rateRow struct {
	entries
	job  int
	most float64
}

func addRow(p *lp.Problem, lower, upper float64, e entries) {
	p.Index, p.Value = append(p.Index, e.index...), append(p.Value, e.value...)
	p.RowLower, p.RowUpper = append(p.RowLower, lower), append(p.RowUpper, upper)
	p.Start = append(p.Start, int32(len(p.Index)))
}

// intervalProblem returns the LP on Σ w C in seconds, the rows of K_j tasks at a time,
// which are not in the LP yet, and Σ w a. It returns nil if a job has no type. It takes
// O(jobs · types · intervals).
func intervalProblem(m *model.Model) (p *lp.Problem, rates []rateRow, constant float64) {
	caps := make([][]model.Step, len(m.Types))
	for k := range caps {
		caps[k] = m.Capacity(k)
	}
	ends := intervalEnds(m, caps)
	cells := len(ends) + 1 // the last interval is open
	left := func(l int) float64 {
		if l == 0 {
			return 0
		}
		return ends[l-1]
	}
	p = &lp.Problem{}
	inf := math.Inf(1)
	column := func(cost, lower float64) int32 {
		p.Cost, p.ColLower, p.ColUpper = append(p.Cost, cost), append(p.ColLower, lower), append(p.ColUpper, inf)
		return int32(len(p.Cost) - 1)
	}
	p.Start = []int32{0}
	load := make([]entries, len(caps)*cells)
	for j := range m.Jobs {
		job := &m.Jobs[j]
		if len(job.Modes) == 0 {
			return nil, nil, 0
		}
		weight, release := float64(job.WeightMicro)/1e6, seconds(job.ReleaseUs)
		constant += weight * release
		done := column(weight, release+float64(job.Rounds)*leastRound(job, caps))
		all, late := entries{}, entries{[]int32{done}, []float64{1}}
		half := 0.0
		if job.Sync != hare.Rigid {
			half = halfWork(job)
		}
		for l := range cells {
			length := inf
			if l < cells-1 {
				length = ends[l] - max(left(l), release)
			}
			if length <= 0 {
				continue
			}
			rate, most := entries{}, 0.0
			for _, mode := range job.Modes {
				q, at := work(job, mode), max(left(l), release)
				if job.Sync == hare.Rigid {
					at += q / 2
				}
				y := column(0, 0)
				all = entries{append(all.index, y), append(all.value, 1)}
				late = entries{append(late.index, y), append(late.value, -at)}
				use := &load[mode.Type*cells+l]
				*use = entries{append(use.index, y), append(use.value, float64(job.Tasks)*q)}
				rate = entries{append(rate.index, y), append(rate.value, q)}
				most = max(most, q)
			}
			if most > length { // else the shares alone ensure this
				rates = append(rates, rateRow{rate, j, length})
			}
		}
		addRow(p, 1, 1, all)
		addRow(p, half, inf, late)
	}
	for k := range caps {
		for l := range cells - 1 {
			if at := load[k*cells+l]; len(at.index) > 0 {
				addRow(p, -inf, gpuTime(caps[k], left(l), ends[l]), at)
			}
		}
	}
	return p, rates, constant
}

// work returns R q, the seconds that all rounds take on one type.
func work(job *model.Job, mode model.Mode) float64 {
	if job.Sync == hare.Relaxed {
		return float64(job.Rounds) * seconds(mode.ComputeUs)
	}
	return float64(job.Rounds) * seconds(mode.DurationUs())
}

// halfWork returns the least time from the mean of a job's work to its end.
func halfWork(job *model.Job) float64 {
	least, sync := math.Inf(1), math.Inf(1)
	for _, mode := range job.Modes {
		least, sync = min(least, work(job, mode)), min(sync, seconds(mode.SyncUs))
	}
	if job.Sync == hare.Relaxed {
		return least/2 + sync
	}
	return least / 2
}

// intervalEnds returns ends up to about where the jobs end: the last arrival, the
// longest job alone, and twice the work on its fastest types over all GPUs.
func intervalEnds(m *model.Model, caps [][]model.Step) []float64 {
	var gpus, all, longest, last float64
	for _, steps := range caps {
		var most int64
		for _, s := range steps {
			most = max(most, s.Count)
		}
		gpus += float64(most)
	}
	for j := range m.Jobs {
		job := &m.Jobs[j]
		least := math.Inf(1)
		for _, mode := range job.Modes {
			least = min(least, work(job, mode))
		}
		all += float64(job.Tasks) * least
		longest = max(longest, float64(job.Rounds)*leastRound(job, caps))
		last = max(last, seconds(job.ReleaseUs))
	}
	horizon := last + longest + 2*all/gpus
	// The ends grow by x, then by a tenth of the left end.
	reach := func(x float64) (ends []float64) {
		t := 0.0
		for range intervalCells {
			t += max(x, t/10)
			ends = append(ends, t)
		}
		return ends
	}
	low, high := 0.0, horizon
	for range 60 {
		mid := (low + high) / 2
		if ends := reach(mid); ends[len(ends)-1] < horizon {
			low = mid
		} else {
			high = mid
		}
	}
	return reach(high)
}

// leastRound returns τ, the least time of one round in seconds on an empty cluster with
// all GPUs in service: for gang and rigid jobs over the types that are wide enough, or
// over all types if the job may mix them.
func leastRound(job *model.Job, caps [][]model.Step) float64 {
	widest := func(k int) (n int64) {
		for _, s := range caps[k] {
			n = max(n, s.Count)
		}
		return n
	}
	if job.Sync != hare.Relaxed {
		least := math.Inf(1)
		for _, mode := range job.Modes {
			if job.Mix || widest(mode.Type) >= job.Tasks {
				least = min(least, seconds(mode.DurationUs()))
			}
		}
		if math.IsInf(least, 1) {
			return 0
		}
		return least
	}
	fits := func(t int64) bool {
		var done int64
		for _, mode := range job.Modes {
			if t > mode.SyncUs {
				done += min(job.Tasks, widest(mode.Type)*min(job.Tasks, (t-mode.SyncUs)/mode.ComputeUs))
			}
		}
		return done >= job.Tasks
	}
	var high int64
	for _, mode := range job.Modes {
		high = max(high, mode.SyncUs+mode.ComputeUs*job.Tasks)
	}
	var low int64
	for low < high {
		if mid := low + (high-low)/2; fits(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return seconds(low)
}

// gpuTime returns ∫ M from a to b, in GPU-seconds.
func gpuTime(steps []model.Step, a, b float64) (sum float64) {
	for i, s := range steps {
		end := math.Inf(1)
		if i+1 < len(steps) {
			end = seconds(steps[i+1].FromUs)
		}
		if from, to := max(a, seconds(s.FromUs)), min(b, end); to > from {
			sum += float64(s.Count) * (to - from)
		}
	}
	return sum
}

func seconds(us int64) float64 { return float64(us) / 1e6 }
