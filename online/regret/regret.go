package regret

import (
	"cmp"
	"context"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

// Report compares what a session achieved with the best that hindsight allows.
type Report struct {
	Seq  int64 // the number of the last event that was read
	AtUs int64 // the end of the interval, or the time of the last event
	Last bool  // whether all of the log was read
	// Counted is the number of jobs that ended; only these jobs are compared.
	// Running, Cancelled and Empty count the other jobs. An Empty job ended without
	// a whole round, or with a task that took no time at all, which no plan of the
	// model has.
	Counted, Running, Cancelled, Empty int
	// Objective is what Achieved and Bound are of.
	Objective string
	// Achieved is Σ w (C − a), where C is the end of the last task of the last whole
	// round, or under the objective makespan the latest C, also of jobs that ended with the work that ran at the
	// start. Without counted jobs Achieved is 0. Sessions have no deadlines, so that jct_and_tardiness is the same as
	// weighted_jct.
	Achieved hare.Amount
	// Bound is a lower bound on Achieved for every plan that Holds describes.
	Bound       hare.Amount
	Method      string
	Certificate *hare.Certificate // proves Bound for Instance
	Instance    *hare.Instance    // the jobs and GPUs as they turned out; nil where no job is counted
	Holds       string
	Notes       []string // what was left out or assumed
	Replay      *Replay  // of another policy; nil without Against
}

// holds is the value of Report.Holds: the plans for which the bound is true.
const holds = "every plan for the jobs that ended, with their arrivals as releases, the whole rounds that they " +
	"turned out to have, and the GPUs as they joined and left, in which a task of a job takes on a GPU type at " +
	"least the least compute and the least synchronisation that were measured there (where none was: those of its " +
	"profile), and runs only on types of which either is known"

// Ratio is Achieved/Bound. Rounding up at six decimals keeps the ratio from being
// better than proved. ok is false where the bound says nothing; equal amounts give
// 1.
func (r *Report) Ratio() (ratio *big.Rat, ok bool) { return r.ratio(r.Achieved) }

// ratio is a weighted completion time of the counted jobs over the bound.
func (r *Report) ratio(value hare.Amount) (ratio *big.Rat, ok bool) {
	switch {
	case r.Counted == 0:
		return nil, false
	case value.Cmp(r.Bound) == 0:
		return big.NewRat(1, 1), true
	case r.Bound.Sign() <= 0:
		return nil, false
	}
	a, b := value.Big(), r.Bound.Big()
	a.Mul(a, big.NewInt(1e6)).Add(a, b).Sub(a, big.NewInt(1))
	return new(big.Rat).SetFrac(a.Div(a, b), big.NewInt(1e6)), true
}

// BoundFunc computes a lower bound of an instance by a method, as solver.Bound
// does.
type BoundFunc func(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error)

// Of compares what the session of h achieved with a lower bound on every plan in
// hindsight.
func Of(ctx context.Context, h *Hindsight, bound BoundFunc) (*Report, error) {
	r, err := h.report()
	if err != nil {
		return nil, err
	}
	r.Last = true
	if r.Instance == nil {
		return r, nil
	}
	rel, err := bound(ctx, r.Instance, hare.MethodPrice)
	if err != nil {
		return nil, fmt.Errorf("regret: %w", err)
	}
	r.Bound, r.Method, r.Certificate = rel.Bound.RoundDown(), rel.Method, rel.Certificate
	return r, nil
}

// report returns a Report without its bound.
func (h *Hindsight) report() (*Report, error) {
	r := &Report{Seq: h.seq, AtUs: h.atUs, Objective: cmp.Or(h.Objective, hare.ObjectiveWeightedJCT), Holds: holds}
	v, err := h.build(r)
	if err != nil {
		return nil, err
	}
	v.instance.Objective = r.Objective
	last := int64(0)
	for _, j := range v.jobs {
		if last = max(last, j.endUs); j.fixed {
			continue
		}
		r.Achieved = r.Achieved.Add(hare.Product(j.job.WeightMicro, j.endUs-j.job.ReleaseUs))
	}
	if r.Objective == hare.ObjectiveMakespan {
		r.Achieved = hare.Amount{}
		if r.Counted > 0 {
			r.Achieved = hare.Product(1e6, last)
		}
	}
	if r.Counted > 0 {
		r.Instance = v.instance
	}
	return r, nil
}
