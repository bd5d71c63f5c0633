package solver

import (
	"sort"

	"github.com/hare-sched/hare"
)

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

// runs is the price of one GPU that is held rounds times for holdUs, first at
// startUs and then every periodUs. Rounds within one cell are counted together.
func (t *tariff) runs(startUs, periodUs, rounds, holdUs int64) float64 {
	if holdUs == periodUs { // back to back
		return t.to(startUs+rounds*periodUs) - t.to(startUs)
	}
	sum := 0.0
	for i := int64(0); i < rounds; {
		start := startUs + i*periodUs
		g := t.cell(start)
		if g == len(t.grid)-1 {
			break
		}
		n := int64(1)
		if room := t.grid[g+1] - holdUs - start; room >= 0 && periodUs > 0 {
			n = min(rounds-i, room/periodUs+1)
			sum += float64(n) * float64(holdUs) * t.rate[g]
		} else {
			sum += t.to(start+holdUs) - t.to(start)
		}
		i += n
	}
	return sum
}
