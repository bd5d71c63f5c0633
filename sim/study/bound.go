package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

const (
	// boundWork and workPerJob limit the work of a bound, in units of the option work_limit:
	// some seconds on one core. The ascent of the prices goes through all jobs in each step,
	// and with too few steps the bound is far from what the method can prove: with 3,000
	// units it is 30 % lower than with 20,000 on an overloaded cluster of 1,000 jobs.
	boundWork  = 3000
	workPerJob = 20
	// boundJobs is the most jobs that simulatedoc.BoundAuto bounds; the work grows with them.
	boundJobs = 2000
)

// bound bounds the weighted JCT of what policies of tasks played from below; nil where
// that was not asked for, or cannot be said: where repeats draw other jobs, only some of
// the jobs count, or no run is in the model.
func (s *series) bound(ctx context.Context, in *jobsInput, runs []Run) (*simulatedoc.Bound, error) {
	r := s.req
	verified := slices.ContainsFunc(runs, func(x Run) bool { return x.Verified })
	switch {
	case r.Bound == "" || r.Bound == simulatedoc.BoundNever || in.tasks == nil || !verified || r.First > 0 ||
		r.Last > 0 || r.Generate != nil && r.repeats() > 1:
		return nil, nil
	case r.Bound == simulatedoc.BoundAuto && len(in.tasks.Jobs) > boundJobs:
		return nil, nil
	}
	cfg := s.cfg.Solver
	cfg.BoundWork = max(boundWork, workPerJob*int64(len(in.tasks.Jobs)))
	cfg.LP = nil // the same bound whether an LP engine runs or not
	rel, err := solver.Bound(ctx, in.tasks, hare.MethodPrice, cfg)
	switch {
	case errors.Is(err, solver.ErrInfeasible):
		return nil, nil // by faults and windows alone; the runs have said so
	case err != nil:
		return nil, err
	case !rel.Certified:
		return nil, nil
	}
	constant, least := sim.Constant(in.tasks), floatBelow(rel.Bound.RoundDown())
	b := &simulatedoc.Bound{WeightedJCTS: floatBelow(rel.Bound.RoundDown().Add(constant)), Method: rel.Method,
		Above: map[string]float64{}}
	for i := range runs {
		if x := &runs[i]; x.Verified && least > 0 {
			b.Above[x.Policy] = max(b.Above[x.Policy], (x.WeightedJCTS-constant.Float())/least-1)
		}
	}
	return b, nil
}

// floatBelow is the greatest float that is at most a.
func floatBelow(a hare.Amount) float64 {
	f := a.Float()
	exact, ok := new(big.Rat).SetString(a.String())
	if x := new(big.Rat).SetFloat64(f); ok && x != nil && x.Cmp(exact) > 0 {
		return math.Nextafter(f, math.Inf(-1))
	}
	return f
}

// boundNote tells people of the bound; policies are in the order of the runs.
func (r *Report) boundNote() []string {
	if r.Bound == nil {
		return nil
	}
	var above []string
	for i := range r.Runs {
		name := r.Runs[i].Policy
		if v, ok := r.Bound.Above[name]; ok && (i == 0 || r.Runs[i-1].Policy != name) {
			above = append(above, fmt.Sprintf("%s %.1f %%", name, math.Abs(math.Ceil(v*1000-1e-9))/10))
		}
	}
	note := fmt.Sprintf("bound: no plan of these jobs has a sum of weight × JCT below %.3f s (certified)",
		math.Floor(r.Bound.WeightedJCTS*1000)/1000)
	if len(above) > 0 {
		note += "; above it at most: " + strings.Join(above, ", ")
	}
	return []string{note}
}
