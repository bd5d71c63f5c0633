package whatif

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// relate compares a scenario with the base.
func (w *whatIf) relate(inst *hare.Instance) (rel relation) {
	if w.constraints == nil {
		w.constraints = newConstraints(w.base)
	}
	c := newConstraints(inst)
	if rel.looser = c.relaxes(w.constraints); rel.looser {
		rel.slack = c.slackOver(w.constraints)
	}
	if rel.tighter = w.constraints.relaxes(c); rel.tighter && !rel.looser {
		rel.slack = w.constraints.slackOver(c)
	}
	return rel
}

// maxComparisons limits the cost of comparing all pairs of scenarios, in jobs and
// nodes. In larger batches each scenario is compared with the base alone.
const maxComparisons = 50_000_000

// refine propagates bounds and plans between all scenarios, once all are answered.
// O(scenarios² · (jobs + nodes)).
func (w *whatIf) refine(ctx context.Context) (out []whatifdoc.Refined) {
	n := len(w.final)
	size := len(w.base.Jobs) + len(w.base.Cluster.Nodes) + 1
	if (n+1)*(n+1) > maxComparisons/size {
		return nil
	}
	// The base is the last of the compared instances.
	all := make([]*constraints, n+1)
	low, high := make([]*hare.Amount, n+1), make([]*hare.Amount, n+1)
	low[n], high[n] = w.result.Bound, w.result.Value
	if w.result.Termination != hare.TerminationInfeasible {
		all[n] = w.constraints
	}
	for i, l := range w.final {
		if ctx.Err() != nil {
			return nil
		}
		if l == nil || l.Err != nil || l.Termination == hare.TerminationInfeasible {
			continue
		}
		if inst, err := ScenarioInstance(w.req, i); err == nil {
			all[i], low[i], high[i] = newConstraints(inst), l.Bound, l.Value
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
			case i < n && k < n && all[i].relaxes(all[k]):
				pairs = append(pairs, pair{loose: i, tight: k})
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	for changed := true; changed; {
		changed = false
		for _, p := range pairs {
			if b := greater(low[p.tight], plus(low[p.loose], p.slack)); b != low[p.tight] {
				low[p.tight], changed = b, true
			}
			if v := lesser(high[p.loose], plus(high[p.tight], p.slack.Neg())); v != high[p.loose] {
				high[p.loose], changed = v, true
			}
		}
	}
	for i, l := range w.final {
		if all[i] == nil || len(l.OptimumChange) != 2 {
			continue
		}
		ends := w.known[i].base.differenceOfOptima(low[i], high[i], low[n], high[n])
		ends[0], ends[1] = greater(l.OptimumChange[0], ends[0]), lesser(l.OptimumChange[1], ends[1])
		if ends[0] != l.OptimumChange[0] || ends[1] != l.OptimumChange[1] {
			out = append(out, whatifdoc.Refined{Index: i, ID: l.ID, Bound: low[i], OptimumChange: ends})
		}
	}
	return out
}

// unusedGPUs says how many jobs of the scenario cannot use added GPUs, and why. O(added types × jobs).
func unusedGPUs(sc *whatifdoc.Scenario, inst *hare.Instance) (notes []string) {
	counts := map[string]int64{}
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			counts[g.Type] += int64(g.Count)
		}
	}
	var added []string
	for _, g := range sc.AddGPUs {
		added = append(added, g.Type)
	}
	for _, n := range sc.AddNodes {
		for _, g := range n.GPUs {
			added = append(added, g.Type)
		}
	}
	said := map[string]bool{}
	for _, kind := range added {
		if said[kind] {
			continue
		}
		said[kind] = true
		without, narrow := 0, 0 // jobs without times for the type, and jobs too wide for it
		for i := range inst.Jobs {
			switch has, fits := canUse(&inst.Jobs[i], kind, counts[kind]); {
			case !has:
				without++
			case !fits:
				narrow++
			}
		}
		switch all := len(inst.Jobs); {
		case without == all:
			notes = append(notes, fmt.Sprintf("no job can use the added %s: none has times for that type in its \"on\"", kind))
		case without+narrow == all:
			notes = append(notes, fmt.Sprintf("no job can use the added %s: each that could needs more than %d of them at once",
				kind, counts[kind]))
		default:
			if without > 0 {
				notes = append(notes, fmt.Sprintf("%d of %d jobs cannot use the added %s: they have no times for that type in "+
					"their \"on\"", without, all, kind))
			}
			if narrow > 0 {
				notes = append(notes, fmt.Sprintf("%d of %d jobs cannot use the added %s: they need more than %d of them at once",
					narrow, all, kind, counts[kind]))
			}
		}
	}
	return notes
}

// canUse reports whether a job has times for a type, and whether count GPUs of the type suffice for one of its shapes.
func canUse(j *hare.Job, kind string, count int64) (has, fits bool) {
	for s := range j.ShapeCount() {
		shape := j.Shape(s)
		for _, p := range shape.On {
			if p.Type == kind {
				has = true
				fits = fits || j.Sync == hare.Relaxed || j.Mix || shape.Tasks <= count
			}
		}
	}
	return has, fits
}
