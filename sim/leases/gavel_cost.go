package leases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare/internal/lp"
)

// GavelPrices are the prices of an hour of a GPU in dollars that Gavel's code (at
// commit c4fa400) has as constants, those of Google's preemptible GPUs. Its
// histories of Amazon's and Azure's spot prices are not public.
func GavelPrices() map[string]float64 {
	return map[string]float64{"V100": 0.74, "P100": 0.43, "K80": 0.135}
}

// gavelCost maximises Σ_i Σ_k r_ik x_ik / price_k, the steps for a dollar of all
// jobs together. As in gavelThroughput, jobs with short steps win; a job whose
// rate is 0 where others are cheap still gets no time there.
//
// With slos, each job shall end by its deadline if it keeps its shares:
//
//	Σ_k r_ik x_ik ≥ steps left / (deadline − now)
//
// where the deadline is SLO × the job's time alone on the reference type (as
// many as it needs; see reference) after the job arrived. If not all deadlines can be kept,
// none of these rows counts. A deadline that has passed has no row.
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400. [I] Jobs without an SLO
// have no row, where Gavel needs one of each.
type gavelCost struct {
	slos   bool
	prices map[string]float64 // by type; nil means GavelPrices
	solver lp.Solver
}

var _ SharePolicy = (*gavelCost)(nil)

func (gc *gavelCost) LeaseTraits() Traits { return Traits{} }

// Shares solves a program with a column for each job and type; two where
// deadlines cannot be met.
func (gc *gavelCost) Shares(ctx context.Context, s *State, out *Shares) error {
	price, err := pricesOf(s.Types, gc.prices)
	if err != nil {
		return err
	}
	n := len(s.Types)
	for _, slos := range []bool{gc.slos, false} {
		b := shareProgram(s)
		for i := range s.Jobs {
			for k, r := range s.Jobs[i].Rate {
				b.prob.Cost[i*n+k] = -r / price[k]
			}
		}
		if slos && !deadlines(b, s) {
			continue
		}
		if err = b.solve(ctx, gc.solver, out.Share); !slos || !errors.Is(err, lp.ErrInfeasible) {
			return err
		}
	}
	return err
}

// deadlines adds a row a job that has one, and reports whether none is due at once.
func deadlines(b *programBuilder, s *State) bool {
	n, ref := len(s.Types), reference(s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.SLO == 0 {
			continue
		}
		rate := j.Rate[ref]
		if rate == 0 {
			rate = slices.Max(j.Rate)
		}
		leftS := j.EnteredS + j.SLO*(float64(j.Steps)/rate) - s.NowS
		if leftS == 0 {
			return false
		}
		for k, r := range j.Rate {
			b.entry(i*n+k, -r)
		}
		b.row(-inf, -float64(j.StepsLeft)/leftS)
	}
	return true
}

// CheckPrices says which of the GPU types lacks a price for the policies of cost.
func CheckPrices(types []string, prices map[string]float64) error {
	_, err := pricesOf(types, prices)
	return err
}

func pricesOf(types []string, prices map[string]float64) ([]float64, error) {
	if prices == nil {
		prices = GavelPrices()
	}
	out := make([]float64, len(types))
	for k, name := range types {
		price, ok := prices[name]
		if !ok {
			price, ok = prices[strings.ToUpper(name)]
		}
		if !ok || !(price > 0 && price <= math.MaxFloat64) { // also NaN
			return nil, fmt.Errorf("GPU type %.60q has no price above 0 for an hour; those with one are %s", name,
				priced(prices))
		}
		out[k] = price
	}
	return out, nil
}

// priced lists the types that have a price, the first ten, for messages.
func priced(prices map[string]float64) string {
	const most = 10
	names := slices.Sorted(maps.Keys(prices))
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%.60s", name)
	}
	return strings.Join(names, ", ") + more
}
