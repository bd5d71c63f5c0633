package verify

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// typeChoice is a GPU type that a job may use and that is in service at some time.
type typeChoice struct {
	kind    string
	p, s, d int64
	level   int         // the level of which one domain has a round
	count   int64       // the maximum of M_k over time, or of the tasks that find room
	units   int64       // what a round holds, in units of its price: K GPUs or one size
	curve   *priceCurve // the price of one unit; nil if the type is free
	setup   int64       // the setup of a GPU
	does    int64       // the units of the job that a round does; 0 means 1
	// A loose round (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf") takes d, and pays
	// the least price from back before until ahead. Back is 0 for other rounds.
	back, ahead int64
}

// errNever is returned for infeasible jobs, because no finite bound has a meaning then.
var errNever = errors.New("a job can never run on this cluster, so no finite bound is meant")

// leastRound returns τ, the least time of one round on an empty cluster.
func leastRound(job *hare.Job, cs []typeChoice) (int64, error) {
	tau := int64(math.MaxInt64)
	switch {
	case job.Sync == hare.Relaxed:
		// One GPU alone takes p·K + s, which is an upper end for the bisection.
		for _, c := range cs {
			if work, ok := mul(c.p, job.Tasks); ok {
				tau = min(tau, work+c.s)
			}
		}
		low := int64(0)
		for tau != math.MaxInt64 && low+1 < tau {
			if mid := low + (tau-low)/2; holdsRound(job.Tasks, cs, mid) {
				tau = mid
			} else {
				low = mid
			}
		}
	case job.Mix:
		byTime := slices.Clone(cs)
		slices.SortFunc(byTime, func(a, b typeChoice) int { return cmp.Compare(a.d, b.d) })
		need := job.Tasks
		for _, c := range byTime {
			if need -= c.count; need <= 0 {
				return c.d, nil
			}
		}
	default:
		for _, c := range cs {
			if c.count >= job.Tasks {
				tau = min(tau, c.d)
			}
		}
	}
	if tau == math.MaxInt64 {
		return 0, errNever
	}
	return tau, nil
}

// holdsRound reports whether all GPUs together do tasks tasks in t µs: Σ_k M_k ⌊(t −
// s)/p⌋ ≥ tasks.
func holdsRound(tasks int64, cs []typeChoice, t int64) bool {
	for _, c := range cs {
		if t < c.s+c.p {
			continue
		}
		each := (t - c.s) / c.p
		if each > tasks/c.count {
			return true
		}
		if tasks -= each * c.count; tasks <= 0 {
			return true
		}
	}
	return false
}

func errLong(job *hare.Job) error {
	return fmt.Errorf("job %.40q takes longer than 2^53 µs", job.ID)
}

// endsBy reports whether the units of a job can be done by a time, at the speed of the fastest mode.
func endsBy(job *hare.Job, cs []typeChoice, last int64) bool {
	return slices.ContainsFunc(cs, func(c typeChoice) bool {
		return times(job.Rounds, c.d).Cmp(times(last-job.ReleaseUs, c.unitsDone())) <= 0
	})
}

// unitsDone returns u, the units that a round does.
func (tc *typeChoice) unitsDone() int64 { return max(1, tc.does) }
