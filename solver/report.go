package solver

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// report explains the gap (docs/inside/design.md, section 2.2). At the certificate's prices,
//
//	value − bound = Σ_j (w C + price of its use − φ_j) + Σ_k (∫ F_k − price of what is used)
//
// and no term is negative. report takes O(blocks · cells); a run of rounds is one block.
func (s *solve) report() *hare.GapReport {
	rel := s.best.rel
	if rel == nil || len(rel.Phi) != len(s.model.Jobs) || len(rel.Capacity) != len(s.model.Types) {
		return nil // trees and bounds without prices have no such parts
	}
	m, p := s.model, s.incumbent
	if m.Placed || p.Shapes != nil || s.inst.FirstRule(hare.RuleProgress|hare.RuleDurations) != "" ||
		len(rel.Certificate.Pools) > 0 {
		return nil // jobs also pay in pools, and gangs by the sum of their GPUs
	}
	rep := &hare.GapReport{}
	tariffs := newJobCurves(m, rel.Certificate)
	used := make([]float64, len(m.Types))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		cost := float64(j.WeightMicro) * 1e-12 * float64(p.EndUs[i]-j.ReleaseUs)
		for x := range p.Jobs[i] {
			b := &p.Jobs[i][x]
			k := m.Classes[b.Class].Type
			paid := float64(b.Width) * tariffs.of(k, i).ofRuns(b.StartUs, b.PeriodUs, b.Rounds, b.HoldUs)
			used[k] += paid
			cost += paid
		}
		over := max(0, cost-rel.Phi[i])
		rep.ReducedCost += over
		rep.Jobs = append(rep.Jobs, hare.JobExcess{ID: s.inst.Jobs[i].ID, ReducedCost: over})
	}
	for k, name := range m.Types {
		idle := max(0, rel.Capacity[k]-used[k])
		rep.IdleCapacity += idle
		rep.IdleByType = append(rep.IdleByType, hare.TypeIdle{Type: name, Idle: round6(idle)})
	}
	slices.SortStableFunc(rep.Jobs, func(a, b hare.JobExcess) int { return cmp.Compare(b.ReducedCost, a.ReducedCost) })
	rep.Jobs = slices.Clone(rep.Jobs[:min(len(rep.Jobs), hare.MaxReportedJobs)])
	for i := range rep.Jobs {
		rep.Jobs[i].ReducedCost = round6(rep.Jobs[i].ReducedCost)
	}
	rep.Excess = round6(rep.ReducedCost + rep.IdleCapacity)
	rep.ReducedCost, rep.IdleCapacity = round6(rep.ReducedCost), round6(rep.IdleCapacity)
	return rep
}
