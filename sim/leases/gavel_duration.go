package leases

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/hare-sched/hare/internal/lp"
)

// gavelDuration minimises the time T in which all jobs that are there could
// end: Σ_k r_ik x_ik ≥ steps left / T. It knows sizes.
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400: a bisection from 100 to
// 10^6 s (ten times further while nothing is feasible) that ends when the bounds
// are within 5 %, and takes any shares that the last feasible T allows. This
// finds the least T by one program and so knows how the bisection goes; only the
// program of its last feasible T is then solved. Without perf the rate of every
// type counts as that of the reference type (see reference).
type gavelDuration struct {
	perf   bool
	solver lp.Solver
}

var _ SharePolicy = (*gavelDuration)(nil)

func (gd *gavelDuration) LeaseTraits() Traits {
	return Traits{ShuffleTypes: !gd.perf}
}

// Shares solves two programs, each with a column for each job and type.
func (gd *gavelDuration) Shares(ctx context.Context, s *State, out *Shares) error {
	rates := ratesOf(s, gd.perf)
	least, err := gd.least(ctx, s, rates)
	if err != nil {
		return err
	}
	feasible := lastFeasible(least)
	for {
		b := shareProgram(s)
		demands(b, s, rates, func(i int) float64 { return float64(s.Jobs[i].StepsLeft) / feasible })
		err := b.solve(ctx, gd.solver, out.Share)
		// An engine may call infeasible what misses by its tolerance.
		if !errors.Is(err, lp.ErrInfeasible) {
			return err
		}
		if feasible *= 1.001; math.IsInf(feasible, 0) {
			return err
		}
	}
}

// demands adds a row a job: Σ_k r_ik x_ik ≥ the demand.
func demands(b *programBuilder, s *State, rates [][]float64, demand func(i int) float64) {
	n := len(s.Types)
	for i := range s.Jobs {
		for k, r := range rates[i] {
			b.entry(i*n+k, -r)
		}
		b.row(-inf, -demand(i))
	}
}

// least is the least T, by the greatest 1/T; rows are divided by the steps left.
func (gd *gavelDuration) least(ctx context.Context, s *State, rates [][]float64) (float64, error) {
	n := len(s.Types)
	var b programBuilder
	for range n * len(s.Jobs) {
		b.column(0)
	}
	speed := b.column(-1) // in 1e-6 / s
	for i := range s.Jobs {
		for k := range n {
			b.entry(i*n+k, 1)
		}
		b.row(-inf, 1)
		for k, r := range rates[i] {
			b.entry(i*n+k, -r/float64(s.Jobs[i].StepsLeft)*1e6)
		}
		b.entry(speed, 1)
		b.row(-inf, 0)
	}
	for k, w := range s.GPUs {
		for i := range s.Jobs {
			b.entry(i*n+k, float64(s.Jobs[i].GPUs))
		}
		b.row(-inf, float64(w))
	}
	sol, err := gd.solver.Solve(ctx, &b.prob)
	if err != nil {
		return 0, err
	}
	if !(sol.X[speed] > 0) {
		return 0, errors.New("a job can run on no type")
	}
	return 1e6 / sol.X[speed], nil
}

// lastFeasible follows the bisection where T is feasible from least on.
func lastFeasible(least float64) float64 {
	low, high, top := 100.0, 1e6, 1e6
	for {
		found := 0.0
		for 1.05*low < high {
			t := (low + high) / 2
			if t >= least {
				found, high = t, t
			} else {
				low = t
			}
		}
		if found > 0 {
			return found
		}
		low, high = top, top*10
		top *= 10
	}
}

// reference is the type whose rate stands for all in policies that know no
// others: v100 where it is one, as in Gavel, else the last by name.
func reference(s *State) int {
	for k, name := range s.Types {
		if name == "V100" || name == "v100" {
			return k
		}
	}
	return len(s.Types) - 1
}

// ratesOf are the rates that a policy counts with: without perf, for all types
// that of the reference type, or the job's greatest where it has none there.
func ratesOf(s *State, perf bool) [][]float64 {
	rates, ref := make([][]float64, len(s.Jobs)), reference(s)
	for i := range s.Jobs {
		rates[i] = s.Jobs[i].Rate
		if perf {
			continue
		}
		rate := rates[i][ref]
		if rate == 0 {
			rate = slices.Max(rates[i])
		}
		rates[i] = slices.Repeat([]float64{rate}, len(s.Types))
	}
	return rates
}
