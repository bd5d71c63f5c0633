package regret

import (
	"context"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

// Report compares what a session achieved with the best that hindsight allows.
type Report struct {
	Seq  int64 // of the last event that was looked at
	AtUs int64 // the moment that this speaks of: the interval's, or the time of that event
	Last bool  // all of the log was looked at
	// Counted are the jobs that ended; only these are compared. Running,
	// Cancelled and Empty ones are not; Empty ended without a whole round, or
	// with a task that took no time at all, which no plan of the model does.
	Counted, Running, Cancelled, Empty int
	// Achieved is Σ w (C − a), C the end of the last task of the last whole
	// round; nothing counted gives 0.
	Achieved hare.Amount
	// Bound is at most the Achieved of every plan that Holds speaks of.
	Bound       hare.Amount
	Method      string
	Certificate *hare.Certificate // proves Bound for Instance
	Instance    *hare.Instance    // as it turned out; nil where nothing is counted
	Holds       string
	Notes       []string // what was left out or assumed
}

// holds is what the bound is true for.
const holds = "every plan for the jobs that ended, with their arrivals as releases, the whole rounds that they turned out to have, and the GPUs as they joined and left, in which a task of a job takes on a GPU type at least the least compute and the least synchronisation that were measured there (where none was: those of its profile), and runs only on types of which either is known"

// Ratio is Achieved/Bound, rounded up at six decimals, so that it is never
// better than proved. ok is false where the bound says nothing; equal amounts
// give 1.
func (r *Report) Ratio() (ratio *big.Rat, ok bool) {
	switch {
	case r.Counted == 0:
		return nil, false
	case r.Achieved.Cmp(r.Bound) == 0:
		return big.NewRat(1, 1), true
	case r.Bound.Sign() <= 0:
		return nil, false
	}
	a, b := r.Achieved.Big(), r.Bound.Big()
	a.Mul(a, big.NewInt(1e6)).Add(a, b).Sub(a, big.NewInt(1))
	return new(big.Rat).SetFrac(a.Div(a, b), big.NewInt(1e6)), true
}

// BoundFunc bounds an instance from below by a method, as solver.Bound does.
type BoundFunc func(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error)

// Of compares what h has seen with a bound of hindsight.
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

// report is everything of a Report but its bound.
func (h *Hindsight) report() (*Report, error) {
	r := &Report{Seq: h.seq, AtUs: h.atUs, Holds: holds}
	v, err := h.view(r)
	if err != nil {
		return nil, err
	}
	for _, j := range v.jobs {
		r.Achieved = r.Achieved.Add(hare.Product(j.job.WeightMicro, j.endUs-j.job.ReleaseUs))
	}
	if r.Counted > 0 {
		r.Instance = v.instance
	}
	return r, nil
}
