package explain

import (
	"math"

	"cmp"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Price is what a job costs at the certificate's prices, in weight-seconds.
// Reduced is Cost + Paid − Least, which is not negative: what the job adds to
// the gap of value and bound.
type Price struct {
	Paid   float64      `json:"paid"`
	ByType []TypeCharge `json:"by_type"`
	// Least is that of w (C − a) + price over the job's own choices, exactly
	// rounded down: φ − w a of the bound.
	Least   float64 `json:"least"`
	Reduced float64 `json:"reduced_cost"`
	// ReducedShare is that of value − bound; 0 where these are equal.
	ReducedShare float64 `json:"reduced_share"`
}

// TypeCharge is what a job pays for GPUs of a type.
type TypeCharge struct {
	Type string       `json:"type"`
	GPUs hare.Seconds `json:"gpu_s"` // GPU-seconds that it holds
	Paid float64      `json:"paid"`
}

// TypeCost is what a job would cost that ran on one type alone and bought its
// time at the certificate's prices.
type TypeCost struct {
	Type string `json:"type"`
	// Least is that of w (C − a) + price there, and More how much that is above
	// the least over all types; nil where it can never run there alone.
	Least *float64 `json:"least,omitempty"`
	More  *float64 `json:"more,omitempty"`
	// EndS is when it would end there for that.
	EndS   *hare.Seconds `json:"end_s,omitempty"`
	Detail string        `json:"detail,omitempty"`
}

// explainPrice fills in prices. None is the bound of the instance without jobs:
// what all capacity costs, so that the bound of one job less that is its φ − w a. Gap is value − bound.
func (x *Answer) explainPrice(v *laneView, at int, runs []runOf, c *hare.Certificate, none *big.Rat, gap float64, prices *solver.Prices, pays func(*jobPiece, int64, int64) float64) {
	job := v.inst.Jobs[at]
	least := func(j hare.Job) (float64, bool) {
		one, err := verify.Bound(withJobs(v.inst, j), c)
		if err != nil {
			return 0, false
		}
		f, _ := one.Sub(one, none).Float64()
		return f, true
	}
	p := &Price{}
	held, paid := make([]int64, len(v.model.Types)), make([]float64, len(v.model.Types))
	for i := range runs {
		r := &runs[i]
		for k := range r.pieces {
			q := &r.pieces[k]
			held[q.kind] += r.rounds * q.hold
			paid[q.kind] += pays(q, r.round, r.rounds)
		}
	}
	for k, name := range v.model.Types {
		if held[k] > 0 {
			p.ByType = append(p.ByType, TypeCharge{name, hare.Seconds(held[k]), sixDecimals(paid[k])})
			p.Paid += paid[k]
		}
	}
	phi, ok := least(job)
	if !ok {
		return // not in a schedule of the instance
	}
	reduced := max(0, x.Cost.Float()+p.Paid-phi)
	if gap > 0 {
		p.ReducedShare = sixDecimals(reduced / gap)
	}
	p.Paid, p.Least, p.Reduced = sixDecimals(p.Paid), sixDecimals(phi), sixDecimals(reduced)
	x.Price = p

	for _, on := range job.On {
		k, known := slices.BinarySearch(v.model.Types, on.Type)
		if !known {
			x.Elsewhere = append(x.Elsewhere, TypeCost{Type: on.Type, Detail: "the cluster has none"})
			continue
		}
		alone := job
		alone.On = []hare.Profile{on}
		end, fits := prices.End(at, k, peakOf(v.model, k))
		cost, ok := least(alone)
		if !fits || !ok {
			x.Elsewhere = append(x.Elsewhere, TypeCost{Type: on.Type, Detail: "never enough of them together for a round"})
			continue
		}
		e := hare.Seconds(end)
		most, more := sixDecimals(cost), sixDecimals(max(0, cost-phi))
		x.Elsewhere = append(x.Elsewhere, TypeCost{Type: on.Type, Least: &most, More: &more, EndS: &e})
	}
	slices.SortStableFunc(x.Elsewhere, func(a, b TypeCost) int {
		switch {
		case a.Least == nil || b.Least == nil:
			return cmp.Compare(b2i(a.Least == nil), b2i(b.Least == nil))
		}
		return cmp.Compare(*a.Least, *b.Least)
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sixDecimals keeps six decimals of a figure for people.
func sixDecimals(x float64) float64 { return math.Round(x*1e6) / 1e6 }
