package relax

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// These constants limit the pools of quotas that are tried, and the times at which running work
// of a quota ends that are points of the grid.
const (
	maxQuotaPools = 16
	maxMarks      = 16
)

// addQuotaPools adds pools of quotas that their own jobs load about as much as all jobs load
// the types that count, or of which running work holds a part, the most loaded first.
func (pr *problem) addQuotaPools() {
	m := pr.model
	if len(m.Quotas) == 0 {
		return
	}
	type choice struct {
		quota int
		load  float64
		sizes []int64
	}
	choices := make([]choice, len(m.Quotas))
	all := make([]float64, len(pr.caps)) // the GPU-time that jobs want, by type
	for i := range pr.jobs {
		j, spec := &pr.jobs[i], &pr.specs[i]
		for _, md := range j.modes {
			want := md.held * md.each * j.rounds / float64(len(j.modes))
			all[md.kind] += want
			for _, q := range spec.Quotas {
				if m.Quotas[q].Types[md.kind] {
					choices[q].load += want
					choices[q].sizes = append(choices[q].sizes, pr.unitGPUs(i, &md))
				}
			}
		}
	}
	var found []choice
	for q := range choices {
		c, quota := &choices[q], &m.Quotas[q]
		want, gpus := 0.0, int64(0)
		for k, counts := range quota.Types {
			if counts {
				want += all[k]
				gpus += model.MostRoom(pr.caps[k])
			}
		}
		if c.load == 0 || quota.GPUs == 0 || quota.GPUs >= gpus && quota.Running == nil {
			continue
		}
		c.load /= float64(quota.GPUs)
		if quota.Running != nil || c.load > minPoolLoad*want/float64(gpus) {
			c.quota = q
			found = append(found, *c)
		}
	}
	slices.SortStableFunc(found, func(a, b choice) int { return cmp.Compare(b.load, a.load) })
	for _, c := range found[:min(len(found), maxQuotaPools)] {
		pr.addQuotaPool(c.quota, c.sizes)
	}
}

// addQuotaPool adds a pool of a quota, whose functions are the price of each GPU and, where
// units of the given sizes leave GPUs of the quota idle, dual feasible functions.
func (pr *problem) addQuotaPool(q int, sizes []int64) {
	quota := &pr.model.Quotas[q]
	slices.Sort(sizes)
	p := pool{resource: hare.PoolQuota, quota: q, kind: slices.Index(quota.Types, true),
		in: make([]bool, len(pr.model.Kinds)), sizes: slices.Compact(sizes)}
	steps := []model.Step{{Count: quota.GPUs}}
	if quota.Running != nil {
		steps = steps[:0]
		for _, s := range quota.Running {
			steps = append(steps, model.Step{FromUs: s.FromUs, Count: max(0, quota.GPUs-s.Count)})
		}
	}
	p.domains = []domain{{steps, 1}}
	shares := [][]float64{nil}
	for _, n := range p.sizes {
		shares[0] = append(shares[0], float64(n))
	}
	if model.MostRoom(steps)*int64(len(p.sizes)) <= maxKnapsack {
		shares = append(shares, undominated(nodeFunctions(p.sizes, model.MostRoom(steps)))...)
	} else {
		p.sizes, shares[0] = nil, nil
	}
	at := len(pr.pools.list)
	pr.pools.list = append(pr.pools.list, p)
	for f, share := range shares[:min(len(shares), 1+maxNodeFunctions)] {
		fn := poolFunction{pool: at, share: append([]float64{0}, share...), cost: patternCost(p.domains, p.sizes, share)}
		if f == 0 {
			fn.share[0], fn.cost = 1, linearCost(steps, 1)
		}
		pr.pools.functions = append(pr.pools.functions, fn)
	}
}

// quotaPools returns, for each type, the pools of the quotas that count job i there.
func (pr *problem) quotaPools(i int) [][]int {
	of := make([][]int, len(pr.caps))
	for p := range pr.pools.list {
		x := &pr.pools.list[p]
		if x.resource != hare.PoolQuota || !slices.Contains(pr.specs[i].Quotas, int32(x.quota)) {
			continue
		}
		for k := range of {
			if pr.model.Quotas[x.quota].Types[k] {
				of[k] = append(of[k], p)
			}
		}
	}
	return of
}

// addQuotaTerms adds to a composite what job i pays in pools of quotas: for its whole gang, or
// for one task.
func (pr *problem) addQuotaTerms(c *composite, i int, md *mode, in []int) {
	unit := pr.unitGPUs(i, md)
	for _, at := range in {
		p := &pr.pools.list[at]
		if s, ok := slices.BinarySearch(p.sizes, unit); ok {
			c.terms = append(c.terms, poolTerm{p.firstRow + 1 + s, 1})
			c.quotas = append(c.quotas, quotaUnit{at, unit})
		} else {
			c.terms = append(c.terms, poolTerm{p.firstRow, unit})
		}
	}
}

// prohibited returns, for each composite, prices of a GPU at which no round pays in the cells
// of the grid in which a quota has no room for it, and 0 in others; nil means no such cell.
// Such units are in no pattern, so that their price charges nothing for capacity.
func (pr *problem) prohibited(grid []float64) [][]float64 {
	out := make([][]float64, len(pr.pools.composites))
	tops := map[int][]int64{}
	for c := range out {
		for _, q := range pr.pools.composites[c].quotas {
			top, ok := tops[q.pool]
			if !ok {
				top = maxCapacity(pr.pools.list[q.pool].domains[0].steps, grid)
				tops[q.pool] = top
			}
			for g, m := range top {
				if m >= q.gpus {
					continue
				}
				if out[c] == nil {
					out[c] = make([]float64, len(grid)-1)
				}
				out[c][g] = -1 // priced below
			}
		}
	}
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for _, md := range j.modes {
			for g, x := range out[md.row] {
				if x != 0 {
					price := (j.w + j.late) * (grid[len(grid)-1] + j.a + j.rounds*j.modes[0].each) / (md.held * md.each)
					out[md.row][g] = max(x, price)
				}
			}
		}
	}
	return out
}

// prohibit raises the integer prices of the units that the quotas of a certificate have no room
// for.
func (pr *problem) prohibit(nanos [][]int64, grid []float64, limits []int64) {
	for c, row := range pr.prohibited(grid) {
		for _, q := range pr.pools.composites[c].quotas {
			p := &pr.pools.list[q.pool]
			s, _ := slices.BinarySearch(p.sizes, q.gpus)
			at := p.firstRow + 1 + s
			top := maxCapacity(p.domains[0].steps, grid)
			for g, x := range row {
				if x > 0 && top[g] < q.gpus {
					nanos[at][g] = max(nanos[at][g], int64(min(x*float64(q.gpus), float64(limits[at]))))
				}
			}
		}
	}
}

// quotaKey is equal for lists of pools that are equal.
func quotaKey(in []int) string {
	if len(in) == 0 {
		return ""
	}
	return fmt.Sprint(in)
}

// addMarks notes when running work first leaves room in quotas for units, and returns the
// last time that a job needs to run after that.
func (pr *problem) addMarks() float64 {
	last := 0.0
	if len(pr.pools.composites) == 0 {
		return 0
	}
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for _, md := range j.modes {
			for _, q := range pr.pools.composites[md.row].quotas {
				steps := pr.pools.list[q.pool].domains[0].steps
				fits := slices.IndexFunc(steps, func(s model.Step) bool { return s.Count >= q.gpus })
				if fits < 0 || float64(steps[fits].FromUs) <= j.a {
					continue
				}
				from := float64(steps[fits].FromUs)
				last = max(last, from+j.path-j.a)
				if !slices.Contains(pr.marks, from) && len(pr.marks) < maxMarks {
					pr.marks = append(pr.marks, from)
				}
			}
		}
	}
	slices.Sort(pr.marks)
	return last
}

// withMarks adds the marks before its end to a grid of multiples of step.
func (pr *problem) withMarks(grid []float64, step float64) []float64 {
	if len(pr.marks) == 0 {
		return grid
	}
	end := grid[len(grid)-1]
	for _, t := range pr.marks {
		if t = math.Round(t/step) * step; t < end {
			grid = append(grid, t)
		}
	}
	slices.Sort(grid)
	return slices.Compact(grid)
}
