package market

import (
	"context"
	"slices"
)

// improve changes a matching by local search: it gives a worker of one job to another, or
// exchanges a worker of each, as long as this lowers the Score and Config.Tries allow. Pairs of jobs
// are tried in turn, beginning with the first.
func (s *sampler) improve(ctx context.Context, best *Placement) error {
	n := len(s.p.Jobs)
	if s.tries <= 0 {
		return nil
	}
	cost := make([]float64, n)
	for i := range cost {
		cost[i] = s.p.Jobs[i].Weight * s.p.JCT(i, best.Counts[i])
	}
	// try makes a change where it lowers the sum of the costs of two jobs.
	try := func(i, k, from, to int) bool {
		a, b := best.Counts[i], best.Counts[k]
		a[from], b[from] = a[from]-1, b[from]+1
		if to >= 0 {
			a[to], b[to] = a[to]+1, b[to]-1
		}
		costI, costK := s.p.Jobs[i].Weight*s.p.JCT(i, a), s.p.Jobs[k].Weight*s.p.JCT(k, b)
		if old := cost[i] + cost[k]; costI+costK < old*(1-1e-12) {
			best.Changes++
			cost[i], cost[k] = costI, costK
			return true
		}
		a[from], b[from] = a[from]+1, b[from]-1
		if to >= 0 {
			a[to], b[to] = a[to]-1, b[to]+1
		}
		return false
	}
	category := slices.Clone(best.Category)
	for changed := true; changed && s.tries > 0; {
		changed = false
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			for k := range n {
				if i == k {
					continue
				}
				for from := range s.p.Classes {
					for to := -1; to < len(s.p.Classes) && s.tries > 0; to++ {
						if to == from || best.Counts[i][from] == 0 || to >= 0 && (to < from || best.Counts[k][to] == 0) ||
							to < 0 && (category[i] <= s.p.Jobs[i].least() || category[k] >= s.most[k]) {
							continue
						}
						s.tries--
						if try(i, k, from, to) {
							changed = true
							if to < 0 {
								category[i], category[k] = category[i]-1, category[k]+1
							}
						}
					}
				}
			}
		}
	}
	best.Category = category
	best.Score = s.p.Score(best.Counts)
	return nil
}
