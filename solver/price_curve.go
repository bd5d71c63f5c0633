package solver

import (
	"sort"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// priceCurve is the price of one GPU over time, in weight-seconds, from one row of
// prices.
type priceCurve struct {
	grid       []int64
	rate       []float64 // the price per µs by cell
	cumulative []float64 // the price from 0 to each grid point
}

// priceCurves are the price curves of a GPU by type, and of one of several GPUs that are
// held together by type and number.
type priceCurves struct {
	types []priceCurve
	sizes map[size]priceCurve
}

type size struct {
	kind  int
	tasks int64
}

func newPriceCurves(m *model.Model, c *hare.Certificate) *priceCurves {
	t := &priceCurves{sizes: map[size]priceCurve{}}
	kinds := map[string]int{}
	for k, name := range m.Types {
		kinds[name] = k
		t.types = append(t.types, newPriceCurve(c.GridUs, nil, 1))
	}
	for _, p := range c.Prices {
		t.types[kinds[p.Type]] = newPriceCurve(c.GridUs, p.Nanos, 1)
	}
	for _, p := range c.Sizes {
		t.sizes[size{kinds[p.Type], p.Tasks}] = newPriceCurve(c.GridUs, p.Nanos, p.Tasks)
	}
	return t
}

func newPriceCurve(grid, nanos []int64, tasks int64) priceCurve {
	t := priceCurve{grid: grid, rate: make([]float64, len(grid)), cumulative: make([]float64, len(grid))}
	for g := range len(grid) - 1 {
		if nanos != nil {
			t.rate[g] = float64(nanos[g]) / float64(tasks) * 1e-15
		}
		t.cumulative[g+1] = t.cumulative[g] + t.rate[g]*float64(grid[g+1]-grid[g])
	}
	return t
}

// ofJob returns the price curve that job j pays on type k.
func (pcs *priceCurves) ofJob(k int, j *model.Job) *priceCurve {
	if j.Sync != hare.Relaxed && !j.Mix {
		if x, ok := pcs.sizes[size{k, j.Tasks}]; ok {
			return &x
		}
	}
	return &pcs.types[k]
}

// jobCurves are the price curves of jobs, some of which have prices of their own.
type jobCurves struct {
	m     *model.Model
	rest  *priceCurves
	ofOwn map[[2]int]*priceCurve // by type and job
}

// newJobCurves reads the prices of a certificate, or those of its only leaf.
func newJobCurves(m *model.Model, c *hare.Certificate) *jobCurves {
	jc := &jobCurves{m: m, ofOwn: map[[2]int]*priceCurve{}}
	if len(c.Tree) != 1 || c.Tree[0].Prices == 0 {
		jc.rest = newPriceCurves(m, c)
		return jc
	}
	set := &c.PriceSets[c.Tree[0].Prices-1]
	jc.rest = newPriceCurves(m, &hare.Certificate{GridUs: set.GridUs, Prices: set.Prices, Sizes: set.Sizes})
	rows := map[[2]string]*hare.JobPrices{}
	for x := range set.Jobs {
		rows[[2]string{set.Jobs[x].Type, set.Jobs[x].Job}] = &set.Jobs[x]
	}
	for i := range m.Jobs {
		for k, name := range m.Types {
			if p := rows[[2]string{name, m.Instance.Jobs[i].ID}]; p != nil {
				curve := newPriceCurve(set.GridUs, p.Nanos, m.Jobs[i].Tasks)
				jc.ofOwn[[2]int{k, i}] = &curve
			}
		}
	}
	return jc
}

// of returns the price curve of a GPU of type k that job i pays.
func (jc *jobCurves) of(k, i int) *priceCurve {
	if own := jc.ofOwn[[2]int{k, i}]; own != nil {
		return own
	}
	return jc.rest.ofJob(k, &jc.m.Jobs[i])
}

// cell returns the cell of t; the last cell is endless and free.
func (pc *priceCurve) cell(at int64) int {
	return sort.Search(len(pc.grid), func(i int) bool { return pc.grid[i] > at }) - 1
}

// cumulativeAt returns the price of one GPU from 0 to at.
func (pc *priceCurve) cumulativeAt(at int64) float64 {
	g := pc.cell(at)
	return pc.cumulative[g] + pc.rate[g]*float64(at-pc.grid[g])
}

// ofRuns returns the price of one GPU that is held rounds times for holdUs, first at
// startUs and then every periodUs. Rounds within one cell are counted together.
func (pc *priceCurve) ofRuns(startUs, periodUs, rounds, holdUs int64) float64 {
	if holdUs == periodUs { // the rounds are back to back
		return pc.cumulativeAt(startUs+rounds*periodUs) - pc.cumulativeAt(startUs)
	}
	sum := 0.0
	for i := int64(0); i < rounds; {
		start := startUs + i*periodUs
		g := pc.cell(start)
		if g == len(pc.grid)-1 {
			break
		}
		n := int64(1)
		if room := pc.grid[g+1] - holdUs - start; room >= 0 && periodUs > 0 {
			n = min(rounds-i, room/periodUs+1)
			sum += float64(n) * float64(holdUs) * pc.rate[g]
		} else {
			sum += pc.cumulativeAt(start+holdUs) - pc.cumulativeAt(start)
		}
		i += n
	}
	return sum
}
