package solver

import (
	"cmp"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// report explains the gap (DESIGN 2.2): at the certificate's prices
//
//	value − bound = Σ_j (w C + price of its use − φ_j) + Σ_k (∫ F_k − price of what is used)
//
// and no term is negative. O(blocks · cells); runs of rounds count as one.
func (s *solve) report() *hare.GapReport {
	rel := s.bound
	if rel == nil || rel.Certificate == nil || rel.Certificate.Method != hare.MethodPrice || len(rel.Phi) != len(s.model.Jobs) {
		return nil
	}
	m, p := s.model, s.incumbent
	rep := &hare.GapReport{}
	tariffs := newTariffs(m, rel.Certificate)
	used := make([]float64, len(m.Types))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		cost := float64(j.WeightMicro) * 1e-12 * float64(p.EndUs[i]-j.ReleaseUs)
		for x := range p.Jobs[i] {
			b := &p.Jobs[i][x]
			k := m.Classes[b.Class].Type
			paid := tariffs.of(int(k), j).block(b)
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

// tariff is what one GPU of a row of prices costs over time, in weight-seconds.
type tariff struct {
	grid []int64
	rate []float64 // by cell, per µs
	cum  []float64 // from 0 to each grid point
}

// tariffs are those of types, and of sizes of types.
type tariffs struct {
	types []tariff
	sizes map[size]tariff
}

type size struct {
	kind  int
	tasks int64
}

func newTariffs(m *hare.Model, c *hare.Certificate) *tariffs {
	t := &tariffs{sizes: map[size]tariff{}}
	kinds := map[string]int{}
	for k, name := range m.Types {
		kinds[name] = k
		t.types = append(t.types, newTariff(c.GridUs, nil, 1))
	}
	for _, p := range c.Prices {
		t.types[kinds[p.Type]] = newTariff(c.GridUs, p.Nanos, 1)
	}
	for _, p := range c.Sizes {
		t.sizes[size{kinds[p.Type], p.Tasks}] = newTariff(c.GridUs, p.Nanos, p.Tasks)
	}
	return t
}

func newTariff(grid, nanos []int64, tasks int64) tariff {
	t := tariff{grid: grid, rate: make([]float64, len(grid)), cum: make([]float64, len(grid))}
	for g := range len(grid) - 1 {
		if nanos != nil {
			t.rate[g] = float64(nanos[g]) / float64(tasks) * 1e-15
		}
		t.cum[g+1] = t.cum[g] + t.rate[g]*float64(grid[g+1]-grid[g])
	}
	return t
}

// of is what job j pays for one GPU of type k.
func (t *tariffs) of(k int, j *hare.ModelJob) *tariff {
	if j.Sync != hare.Relaxed && !j.Mix {
		if x, ok := t.sizes[size{k, j.Tasks}]; ok {
			return &x
		}
	}
	return &t.types[k]
}

// cell is the cell of t: the last one is endless and free.
func (t *tariff) cell(at int64) int {
	return sort.Search(len(t.grid), func(i int) bool { return t.grid[i] > at }) - 1
}

// to is the price of one GPU from 0 to at.
func (t *tariff) to(at int64) float64 {
	g := t.cell(at)
	return t.cum[g] + t.rate[g]*float64(at-t.grid[g])
}

// block is the price of a block. Rounds within one cell are counted together.
func (t *tariff) block(b *greedy.Block) float64 {
	sum := 0.0
	for i := int64(0); i < b.Rounds; {
		start := b.StartUs + i*b.PeriodUs
		if b.HoldUs == b.PeriodUs { // back to back
			end := b.StartUs + b.Rounds*b.PeriodUs
			sum += t.to(end) - t.to(start)
			break
		}
		g := t.cell(start)
		if g == len(t.grid)-1 {
			break
		}
		n := int64(1)
		if room := t.grid[g+1] - b.HoldUs - start; room >= 0 && b.PeriodUs > 0 {
			n = min(b.Rounds-i, room/b.PeriodUs+1)
			sum += float64(n) * float64(b.HoldUs) * t.rate[g]
		} else {
			sum += t.to(start+b.HoldUs) - t.to(start)
		}
		i += n
	}
	return sum * float64(b.Width)
}
