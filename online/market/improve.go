package market

import (
	"context"
	"slices"
)

// improve changes a matching by local search: it gives a worker of one job to another, or
// exchanges a worker of each, as long as this lowers the Score and Config.Tries allow. Pairs of jobs
// are tried in turn, beginning with the first. Where one of two jobs exchanges parameters, up to two
// nodes of workers are given at once, too: a job that leaves its second node becomes faster only when
// the last worker has left, so that no worker alone is worth giving away.
func (s *sampler) improve(ctx context.Context, best *Placement) error {
	n := len(s.p.Jobs)
	if s.tries <= 0 {
		return nil
	}
	cost := make([]float64, n)
	for i := range cost {
		cost[i] = s.p.Jobs[i].Weight * s.p.JCT(i, best.Counts[i])
	}
	category := slices.Clone(best.Category)
	// move gives m workers of class from of job i to job k, and n of class to of job k to job i, where
	// this lowers the sum of the costs of the jobs.
	move := func(i, k, from, m, to, n int) bool {
		a, b := best.Counts[i], best.Counts[k]
		a[from], b[from] = a[from]-m, b[from]+m
		a[to], b[to] = a[to]+n, b[to]-n
		costI, costK := s.p.Jobs[i].Weight*s.p.JCT(i, a), s.p.Jobs[k].Weight*s.p.JCT(k, b)
		if old := cost[i] + cost[k]; costI+costK < old*(1-1e-12) {
			best.Changes++
			cost[i], cost[k] = costI, costK
			category[i], category[k] = category[i]-m+n, category[k]+m-n
			return true
		}
		a[from], b[from] = a[from]+m, b[from]-m
		a[to], b[to] = a[to]-n, b[to]+n
		return false
	}
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
				for from, class := range s.p.Classes {
					most := 1
					if s.p.Jobs[i].Bytes > 0 || s.p.Jobs[k].Bytes > 0 {
						most = 2 * max(1, class.PerNode)
					}
					most = min(most, best.Counts[i][from], category[i]-s.p.Jobs[i].least(), s.most[k]-category[k])
					for m := 1; m <= most && s.tries > 0; m++ {
						s.tries--
						if move(i, k, from, m, from, 0) {
							changed = true
							break
						}
					}
					for to := from + 1; to < len(s.p.Classes) && s.tries > 0; to++ {
						if best.Counts[i][from] == 0 || best.Counts[k][to] == 0 {
							continue
						}
						s.tries--
						if move(i, k, from, 1, to, 1) {
							changed = true
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
