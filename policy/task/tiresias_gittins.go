package task

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// NewTiresiasGittins is Tiresias' discretised 2D-Gittins index (NSDI 2019): queues
// by attained GPUs × time, as in NewTiresias, and inside a queue the jobs that are
// most likely to end for the service that they will get. It knows how sizes are
// distributed, but not which job has which.
//
//	G(a) = P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a]
//
// [V] The index, for attained service a; queues before the index; in the authors'
// simulator (SymbioticLab/Tiresias 959f9b0) Δ is the first queue's threshold
// throughout, and a job that has outlived all sizes has index 0. Its code sums S
// where the paper has S − a; this is the paper's. [I] S is drawn from the jobs of
// the instance themselves, rounds × tasks × the time of a round on the fastest
// type; ties go by arrival. The rest is as in NewTiresias.
func NewTiresiasGittins(inst *hare.Instance, cfg TiresiasConfig) (online.Policy, error) {
	r, err := tiresiasRule(&cfg)
	if err != nil {
		return nil, err
	}
	sizes := newSizes(inst, float64(cfg.ThresholdsUs[0]))
	r.key = func(_ *desk, s *seat) float64 {
		// From 0 to 1, falling with the index, which is in units of 1/Δ.
		return float64(s.queue) + 1/(1+sizes.gittins(float64(s.spec.Tasks)*float64(s.executedUs)))
	}
	return newDesk(inst, r), nil
}

// sizes is the distribution of jobs' sizes, in GPU-microseconds.
type sizes struct {
	size    []float64 // ascending
	sum     []float64 // of the first i
	quantum float64   // Δ
}

func newSizes(inst *hare.Instance, quantum float64) *sizes {
	d := &sizes{quantum: quantum}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		least := int64(0)
		for _, p := range j.On {
			if long := p.ComputeUs + p.SyncUs; least == 0 || long < least {
				least = long
			}
		}
		d.size = append(d.size, float64(j.Rounds)*float64(j.Tasks)*float64(least))
	}
	slices.Sort(d.size)
	d.sum = make([]float64, len(d.size)+1)
	for i, v := range d.size {
		d.sum[i+1] = d.sum[i] + v
	}
	return d
}

// gittins is Δ × the index of attained service a, in O(log jobs).
func (d *sizes) gittins(a float64) float64 {
	above := func(v float64) int { // sizes up to v
		i, _ := slices.BinarySearchFunc(d.size, v, func(s, v float64) int {
			if s <= v {
				return -1
			}
			return 1
		})
		return i
	}
	from, to := above(a), above(a+d.quantum)
	if from == len(d.size) || from == to {
		return 0
	}
	spent := d.sum[to] - d.sum[from] - a*float64(to-from) + d.quantum*float64(len(d.size)-to)
	return d.quantum * float64(to-from) / spent
}
