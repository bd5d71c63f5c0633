package relax

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// compositeKey names what decides which prices a mode pays.
type compositeKey struct {
	top, class, level         int
	tasks, gpus, cpus, memory int64
	quotas                    string // the pools of quotas
}

// splitModes replaces each mode of a job by one for each class of nodes on which there is room
// for a task.
func (pr *problem) splitModes() {
	m, ps := pr.model, &pr.pools
	// classes[k] are the classes of type k by the pools that they are in.
	type class struct {
		kinds []int
		pools []int
	}
	classes := make([][]class, len(pr.caps))
	for k := range classes {
		at := map[string]int{}
		for n := range m.Kinds {
			if gpusOfKind(&m.Kinds[n], k) == nil {
				continue
			}
			var in []int
			for p := range ps.list {
				if x := &ps.list[p]; x.in[n] && (x.resource != hare.PoolGPUs || x.kind == k) {
					in = append(in, p)
				}
			}
			key := fmt.Sprint(in)
			c, ok := at[key]
			if !ok {
				c = len(classes[k])
				at[key] = c
				classes[k] = append(classes[k], class{pools: in})
			}
			classes[k][c].kinds = append(classes[k][c].kinds, n)
		}
	}
	cpus, memory := pr.prices(hare.PoolCPUs), pr.prices(hare.PoolMemory)
	usable := map[roomKey][]int{}
	rows := map[compositeKey]int{}
	var flat []mode // of all jobs, as the oracle goes through them
	for i := range pr.jobs {
		mj, j := &pr.specs[i], &pr.jobs[i]
		var quotas [][]int
		if len(mj.Quotas) > 0 {
			quotas = pr.quotaPools(i)
		}
		first := len(flat)
		for _, md := range j.modes {
			in := mj
			if mj.Shapes != nil {
				shaped := mj.InShape(int(md.shape))
				in = &shaped
			}
			times := int64(1)
			if mj.Sync != hare.Relaxed && !mj.Mix {
				times = in.Tasks
			}
			key := roomKeyOf(in, md.kind)
			where, ok := usable[key]
			if !ok {
				for c := range classes[md.kind] {
					if slices.ContainsFunc(classes[md.kind][c].kinds, func(n int) bool {
						return model.MostRoom(m.KindRoom(&m.Kinds[n], in, md.kind)) > 0
					}) {
						where = append(where, c)
					}
				}
				usable[key] = where
			}
			for _, c := range where {
				key := compositeKey{top: md.top, class: c, level: int(md.level), tasks: times, gpus: in.GPUs}
				if cpus {
					key.cpus = mj.CPUMilli
				}
				if memory {
					key.memory = mj.MemoryMiB
				}
				if quotas != nil {
					key.quotas = quotaKey(quotas[md.kind])
				}
				at, ok := rows[key]
				if !ok {
					at = len(ps.composites)
					rows[key] = at
					composite := pr.newComposite(i, &md, times, classes[md.kind][c].pools)
					if quotas != nil {
						pr.addQuotaTerms(&composite, i, &md, quotas[md.kind])
					}
					ps.composites = append(ps.composites, composite)
				}
				md.row = at
				flat = append(flat, md)
			}
		}
		j.modes = flat[first:len(flat):len(flat)]
		j.setPerRate()
	}
	ps.flatten()
}

// prices reports whether some pool prices the resource.
func (pr *problem) prices(resource hare.PoolResource) bool {
	return slices.ContainsFunc(pr.pools.list, func(p pool) bool { return p.resource == resource })
}

// newComposite returns what job i pays for times tasks in a mode in the given pools.
func (pr *problem) newComposite(i int, md *mode, times int64, in []int) composite {
	c := composite{top: md.top, gpus: times * pr.need(i, md, hare.PoolGPUs)}
	for _, at := range in {
		p := &pr.pools.list[at]
		need := pr.need(i, md, p.resource)
		if p.resource == hare.PoolGPUs && len(p.sizes) > 0 {
			if unit := pr.unitIn(p, i, md); unit != need {
				s, _ := slices.BinarySearch(p.sizes, unit)
				c.terms = append(c.terms, poolTerm{p.firstRow + 1 + s, 1})
				continue
			}
		}
		if s, ok := slices.BinarySearch(p.sizes, need); ok && p.resource == hare.PoolGPUs {
			c.terms = append(c.terms, poolTerm{p.firstRow + 1 + s, times})
		} else if need > 0 {
			c.terms = append(c.terms, poolTerm{p.firstRow, times * need})
		}
	}
	return c
}

// flatten prepares the prices of composites as sums over functions.
func (ps *pools) flatten() {
	ps.flat = make([][]flatTerm, len(ps.composites))
	for c := range ps.composites {
		x := &ps.composites[c]
		for f := range ps.functions {
			fn := &ps.functions[f]
			first, sum := ps.list[fn.pool].firstRow, 0.0
			for _, t := range x.terms {
				if s := t.row - first; s >= 0 && s < len(fn.share) {
					sum += fn.share[s] * float64(t.times)
				}
			}
			if sum > 0 {
				ps.flat[c] = append(ps.flat[c], flatTerm{f, sum / float64(x.gpus)})
			}
		}
	}
}

// composeInto writes the oracle's prices for the ascent's prices pi and those of types and
// sizes, top. prohibited is by composite.
func (ps *pools) composeInto(full, top, pi *prices, prohibited [][]float64) {
	first := len(pi.at) - len(ps.functions)
	for c := range ps.composites {
		row := full.at[c]
		copy(row, top.at[ps.composites[c].top])
		for _, t := range ps.flat[c] {
			for g, x := range pi.at[first+t.function] {
				row[g] += t.perGPU * x
			}
		}
		for g, x := range prohibited[c] {
			row[g] = max(row[g], x)
		}
	}
}
