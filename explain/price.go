package explain

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Price is what a job costs at the certificate's prices, in weight-seconds.
type Price struct {
	Paid   float64      `json:"paid"`
	ByType []TypeCharge `json:"by_type"`
	// Least is the least sum of cost and price over all choices of the job, rounded down exactly.
	Least float64 `json:"least"`
	// Reduced is the reduced cost: cost and price less least. It is not negative, and is what the job adds to the gap
	// between value and bound.
	Reduced float64 `json:"reduced_cost"`
	// ReducedShare is the reduced cost divided by value less bound; 0 where value and bound are equal.
	ReducedShare float64 `json:"reduced_share"`
} //	@name	JobPrice

// TypeCharge is what a job pays for GPUs of a type.
type TypeCharge struct {
	Type string `json:"type"`
	// GPUs counts the GPU-seconds that the job holds.
	GPUs hare.Seconds `json:"gpu_s"`
	Paid float64      `json:"paid"`
} //	@name	TypeCharge

// TypeCost is what a job would cost if the job ran on one type alone and paid the
// certificate's prices.
type TypeCost struct {
	Type string `json:"type"`
	// Least is the least sum of cost and price on this type. It is left out where the job can never run on this type
	// alone.
	Least *float64 `json:"least,omitempty"`
	// More is how far least is above the least over all types.
	More *float64 `json:"more,omitempty"`
	// EndS is when the job would end on this type at the cost least.
	EndS   *hare.Seconds `json:"end_s,omitempty"`
	Detail string        `json:"detail,omitempty"`
} //	@name	TypeCost

// explainPrice fills in Price and Elsewhere. none is the bound of the instance
// without jobs, which is what all capacity costs: the bound of one job less none is
// the job's φ − w a. gap is value − bound.
func (a *Answer) explainPrice(v *laneView, at int, runs []roundRun, c *hare.Certificate, none *big.Rat, gap float64,
	prices *solver.Prices, pays func(*jobEntry, int64, int64) float64) {
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
		for k := range r.entries {
			q := &r.entries[k]
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
		return // impossible for a job of a schedule of the instance
	}
	reduced := max(0, a.Cost.Float()+p.Paid-phi)
	if gap > 0 {
		p.ReducedShare = sixDecimals(reduced / gap)
	}
	p.Paid, p.Least, p.Reduced = sixDecimals(p.Paid), sixDecimals(phi), sixDecimals(reduced)
	a.Price = p

	for _, on := range job.On {
		k, known := slices.BinarySearch(v.model.Types, on.Type)
		if !known {
			a.Elsewhere = append(a.Elsewhere, TypeCost{Type: on.Type, Detail: "the cluster has none"})
			continue
		}
		alone := job
		alone.On = []hare.Profile{on}
		end, fits := prices.End(at, k, peakOf(v.model, k))
		cost, ok := least(alone)
		if !fits || !ok {
			a.Elsewhere = append(a.Elsewhere,
				TypeCost{Type: on.Type, Detail: "never enough of them together for a round"})
			continue
		}
		e := hare.Seconds(end)
		costs, more := sixDecimals(cost), sixDecimals(max(0, cost-phi))
		a.Elsewhere = append(a.Elsewhere, TypeCost{Type: on.Type, Least: &costs, More: &more, EndS: &e})
	}
	slices.SortStableFunc(a.Elsewhere, func(a, b TypeCost) int {
		switch {
		case a.Least == nil || b.Least == nil:
			return cmp.Compare(boolToInt(a.Least == nil), boolToInt(b.Least == nil))
		}
		return cmp.Compare(*a.Least, *b.Least)
	})
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sixDecimals keeps six decimals of a figure for people.
func sixDecimals(x float64) float64 { return math.Round(x*1e6) / 1e6 }
