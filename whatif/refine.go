package whatif

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// relation says how a scenario's limits compare with the base's. Where one of
// the two is looser, the best plan of the other costs at least slack more.
type relation struct {
	looser, tighter bool // of the scenario; both where nothing that matters changes
	slack           hare.Amount
}

// relate compares a scenario with the base.
func (w *whatIf) relate(inst *hare.Instance) (r relation) {
	if w.limits == nil {
		w.limits = newLimits(w.base)
	}
	l := newLimits(inst)
	if r.looser = l.looserThan(w.limits); r.looser {
		r.slack = l.slackOver(w.limits)
	}
	if r.tighter = w.limits.looserThan(l); r.tighter && !r.looser {
		r.slack = w.limits.slackOver(l)
	}
	return r
}

// atMost is the lesser of two figures, nil being unknown.
func atMost(a, b *hare.Amount) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a) < 0 {
		return b
	}
	return a
}

// atLeast is the greater of two figures, nil being unknown.
func atLeast(a, b *hare.Amount) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a) > 0 {
		return b
	}
	return a
}

func plus(a *hare.Amount, b hare.Amount) *hare.Amount {
	if a == nil {
		return nil
	}
	sum := a.Add(b)
	return &sum
}

// between is the ends of the difference of two optima: the scenario's, which
// lies from low to high, less the base's, from baseLow to baseHigh. What is not
// known is nil.
func (r relation) between(low, high, baseLow, baseHigh *hare.Amount) []*hare.Amount {
	slack, saved := r.slack, r.slack.Neg()
	if r.looser && baseLow != nil { // without a bound the base may have no plan at all
		high, baseLow = atMost(high, plus(baseHigh, saved)), atLeast(baseLow, plus(low, slack))
	}
	if r.tighter {
		low, baseHigh = atLeast(low, plus(baseLow, slack)), atMost(baseHigh, plus(high, saved))
	}
	ends := make([]*hare.Amount, 2)
	if low != nil && baseHigh != nil {
		ends[0] = plus(low, baseHigh.Neg())
	}
	if high != nil && baseLow != nil {
		ends[1] = plus(high, baseLow.Neg())
	}
	if r.looser && baseHigh != nil {
		ends[1] = atMost(ends[1], &saved)
	}
	if r.tighter && baseHigh != nil {
		ends[0] = atLeast(ends[0], &slack)
	}
	return ends
}

// Refined is what all answers of a batch together prove about one scenario,
// where that is more than its own line says: a looser scenario's bound holds for
// a tighter one, and a tighter one's plan for a looser one.
type Refined struct {
	Index         int            `json:"index"`
	ID            string         `json:"id,omitempty"`
	Bound         *hare.Amount   `json:"bound,omitempty"`
	OptimumChange []*hare.Amount `json:"optimum_change"`
}

// mostCompared limits what comparing all pairs of scenarios may cost, in jobs
// and nodes looked at; larger batches have the relations to the base alone.
const mostCompared = 50_000_000

// refine carries bounds and plans between all scenarios, once they are
// answered. O(scenarios² · (jobs + nodes)).
func (w *whatIf) refine(ctx context.Context) (out []Refined) {
	n := len(w.final)
	size := len(w.base.Jobs) + len(w.base.Cluster.Nodes) + 1
	if (n+1)*(n+1) > mostCompared/size {
		return nil
	}
	// The base is the last of the compared instances.
	all := make([]*limits, n+1)
	low, high := make([]*hare.Amount, n+1), make([]*hare.Amount, n+1)
	low[n], high[n] = w.result.Bound, w.result.Value
	if w.result.Termination != hare.TerminationInfeasible {
		all[n] = w.limits
	}
	for i, l := range w.final {
		if ctx.Err() != nil {
			return nil
		}
		if l == nil || l.Err != nil || l.Termination == hare.TerminationInfeasible {
			continue
		}
		if inst, err := ScenarioInstance(w.req, i); err == nil {
			all[i], low[i], high[i] = newLimits(inst), l.Bound, l.Value
		}
	}
	type pair struct {
		loose, tight int
		slack        hare.Amount
	}
	var pairs []pair
	for i := range all {
		for k := range all {
			if i == k || all[i] == nil || all[k] == nil {
				continue
			}
			switch {
			case k == n && w.known[i].base.looser:
				pairs = append(pairs, pair{i, n, w.known[i].base.slack})
			case i == n && w.known[k].base.tighter:
				pairs = append(pairs, pair{n, k, w.known[k].base.slack})
			case i < n && k < n && all[i].looserThan(all[k]):
				pairs = append(pairs, pair{loose: i, tight: k})
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	for again := true; again; {
		again = false
		for _, p := range pairs {
			if b := atLeast(low[p.tight], plus(low[p.loose], p.slack)); b != low[p.tight] {
				low[p.tight], again = b, true
			}
			if v := atMost(high[p.loose], plus(high[p.tight], p.slack.Neg())); v != high[p.loose] {
				high[p.loose], again = v, true
			}
		}
	}
	for i, l := range w.final {
		if all[i] == nil || len(l.OptimumChange) != 2 {
			continue
		}
		ends := w.known[i].base.between(low[i], high[i], low[n], high[n])
		ends[0], ends[1] = atLeast(l.OptimumChange[0], ends[0]), atMost(l.OptimumChange[1], ends[1])
		if ends[0] != l.OptimumChange[0] || ends[1] != l.OptimumChange[1] {
			out = append(out, Refined{i, l.ID, low[i], ends})
		}
	}
	return out
}

// unused says which added GPUs no job of the scenario can use, and why.
func unused(sc *wire.Scenario, inst *hare.Instance) (notes []string) {
	counts := map[string]int64{}
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			counts[g.Type] += int64(g.Count)
		}
	}
	said := map[string]bool{}
	for _, added := range sc.AddGPUs {
		if said[added.Type] {
			continue
		}
		said[added.Type] = true
		wide, fits := false, false
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			for _, p := range j.On {
				if p.Type == added.Type {
					wide = true
					fits = fits || j.Sync == hare.Relaxed || j.Mix || j.Tasks <= counts[p.Type]
				}
			}
		}
		switch {
		case !wide:
			notes = append(notes, fmt.Sprintf("no job can use the added %s: none has times for that type in its \"on\"", added.Type))
		case !fits:
			notes = append(notes, fmt.Sprintf("no job can use the added %s: each that could needs more than %d of them at once", added.Type, counts[added.Type]))
		}
	}
	return notes
}
