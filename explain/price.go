package explain

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain/explanation"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// explainPrice fills in Price and Elsewhere. none is the bound of the instance
// without jobs, which is what all capacity costs: the bound of one job less none is
// the job's φ − w a. gap is value − bound.
func explainPrice(a *explanation.Answer, v *laneView, at int, runs []roundRun, c *hare.Certificate, none *big.Rat,
	gap float64,
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
	p := &explanation.Price{}
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
			p.ByType = append(p.ByType, explanation.TypeCharge{Type: name, GPUs: hare.Seconds(held[k]),
				Paid: sixDecimals(paid[k])})
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
			a.Elsewhere = append(a.Elsewhere, explanation.TypeCost{Type: on.Type, Detail: "the cluster has none"})
			continue
		}
		alone := job
		alone.On = []hare.Profile{on}
		end, fits := prices.End(at, k, peakOf(v.model, k))
		cost, ok := least(alone)
		if !fits || !ok {
			a.Elsewhere = append(a.Elsewhere,
				explanation.TypeCost{Type: on.Type, Detail: "never enough of them together for a round"})
			continue
		}
		e := hare.Seconds(end)
		costs, more := sixDecimals(cost), sixDecimals(max(0, cost-phi))
		a.Elsewhere = append(a.Elsewhere, explanation.TypeCost{Type: on.Type, Least: &costs, More: &more, EndS: &e})
	}
	slices.SortStableFunc(a.Elsewhere, func(a, b explanation.TypeCost) int {
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
