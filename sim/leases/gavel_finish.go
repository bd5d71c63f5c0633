package leases

import (
	"context"
	"errors"
)

// gavelFinish minimises the worst finish-time fairness ρ (Themis, NSDI 2020): a
// job's time since it came plus that of its steps left at the shares given, over
// the same with 1/m of the cluster all along. It knows sizes.
//
//	min ρ:  Σ_k r_ik x_ik ≥ steps left / (ρ isolated_i − time since arrival_i)
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400. Time with 1/m is summed
// from call to call: steps done since the last one over the rate of 1/m then.
// Gavel leaves the convex program to ECOS, which ends in the middle of the optimal
// shares; so does analyticCenter, with the weights that ECOS' cones give to a job's two
// logarithms: of 1/throughput as Gavel's cvxpy writes it, a cone of second order
// between throughput and time, and a row between time and ρ, the time eliminated.
// Where the method does not converge, all are due equal shares, as there. Without
// perf, rates are as in gavelDuration. Weights play no part.
type gavelFinish struct {
	perf bool
	past map[int]isolated // by number of the job
}

// isolated is what is known of a job's time with an equal share.
type isolated struct {
	timeS, rate float64
	stepsLeft   int64
}

var _ SharePolicy = (*gavelFinish)(nil)

func (fin *gavelFinish) LeaseTraits() Traits {
	return Traits{ShuffleTypes: !fin.perf}
}

// Shares is O(jobs × types³) a step of analyticCenter, of which there are some tens.
func (fin *gavelFinish) Shares(ctx context.Context, s *State, out *Shares) error {
	rates := ratesOf(s, fin.perf)
	now := make(map[int]isolated, len(s.Jobs))
	alone := make([]float64, len(s.Jobs)) // isolated_i
	share := make([]float64, len(s.Types))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		was := fin.past[j.Number]
		is := isolated{timeS: was.timeS, stepsLeft: j.StepsLeft}
		if was.rate > 0 {
			is.timeS += float64(was.stepsLeft-j.StepsLeft) / was.rate
		}
		equalShare(s, len(s.Jobs), j.GPUs, share)
		for k, x := range share {
			is.rate += rates[i][k] * x
		}
		now[j.Number] = is
		alone[i] = is.timeS + float64(j.StepsLeft)/is.rate
	}
	fin.past = now
	c := shareProgramCenter(s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		c.rows = append(c.rows,
			constraint{job: i, a: rates[i], z: 1, d: -(s.NowS - j.ArrivalS) / alone[i],
				curve: float64(j.StepsLeft) / alone[i], weight: 1.5},
			constraint{job: i, a: rates[i], weight: 0.5})
	}
	err := c.solve(ctx, out.Share)
	if errors.Is(err, errNotConverged) {
		for i, n := 0, len(s.Types); i < len(s.Jobs); i++ {
			equalShare(s, len(s.Jobs), s.Jobs[i].GPUs, out.Share[i*n:(i+1)*n])
		}
		return nil
	}
	return err
}

// shareProgramCenter has what every division of time keeps.
func shareProgramCenter(s *State) *analyticCenter {
	c := &analyticCenter{}
	for _, w := range s.GPUs {
		c.gpus = append(c.gpus, max(float64(w), almostNoGPU))
	}
	for i := range s.Jobs {
		c.width = append(c.width, float64(s.Jobs[i].GPUs))
	}
	return c
}
