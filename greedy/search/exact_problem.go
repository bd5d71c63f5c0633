package search

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// These limits say which instances are searched case by case: jobs, GPUs, types, and tasks, where a round of a gang
// job and a whole rigid job count as one. exactCells limits the cells of time, exactTable the entries of the tables of
// all jobs, and exactValue the greatest value, so that sums of floats are right to far less than one.
const (
	exactJobs  = 16
	exactGPUs  = 32
	exactTypes = 4
	exactTasks = 128
	exactCells = 2048
	exactTable = 1 << 22
	exactValue = 1 << 40
)

// exactProblem is a small instance in whole units of time. Costs count 1e-6 weights times units. Single jobs are
// priced on cells of several units, with times rounded down to cells.
type exactProblem struct {
	m       *model.Model
	unit    int64 // µs
	cell    int   // units
	cells   int   // up to which GPUs have prices
	horizon int   // the same in units
	gpus    []int // by type
	first   []int // the number of the first GPU of each type
	jobs    []exactJob
	price   [][]float64 // of a GPU for a cell, by type
	paid    [][]float64 // price summed up to each cell
	work    float64     // elementary steps so far
}

// exactJob is a job of an exactProblem. A gang starts all tasks of a round at once; a rigid job is a gang of one
// round.
type exactJob struct {
	w               float64
	release         int
	rounds, tasks   int
	gang            bool
	compute, sync   []int // in units, by type; compute 0 where the job cannot run
	p, s            []int // in cells
	shortest        int   // τ of a round, in cells
	longest, reach  int   // the longest round that counts, and that with a part of its tasks done, in cells
	least           int   // the shortest time of one task, in cells
	value           [][]float64
	part            [][]float64 // by round and tasks left
	lengths         [][]float64 // the cost of all tasks of a round, by length and start
	slots, cheapest [][]float64 // scratch by type
	choice          [][]int16   // the length that was best, 0 for waiting, by rounds left and start
}

// newExactProblem returns nil where the instance is not one of those that are searched case by case.
func newExactProblem(m *model.Model, end int64) *exactProblem {
	ep := &exactProblem{m: m}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		ep.unit = gcd(ep.unit, j.ReleaseUs)
		for _, md := range j.Modes {
			ep.unit = gcd(gcd(ep.unit, md.ComputeUs), md.SyncUs)
		}
	}
	units := end / ep.unit
	if units > math.MaxInt32/8 {
		return nil
	}
	ep.gpus = make([]int, len(m.Types))
	for c := range m.Classes {
		ep.gpus[m.Classes[c].Type] += len(m.Classes[c].GPUs)
	}
	n := 0
	for _, g := range ep.gpus {
		ep.first = append(ep.first, n)
		n += g
	}
	ep.first = append(ep.first, n)
	ep.horizon = int(units + units/4 + 2)
	for cell := max(1, ep.horizon/exactCells); ; cell *= 2 {
		if !ep.divide(cell) {
			return nil
		}
		if ep.table() <= exactTable {
			break
		}
	}
	total := 0.0
	for i := range ep.jobs {
		total += ep.jobs[i].w * float64(ep.horizon)
	}
	if total > exactValue {
		return nil
	}
	return ep
}

// divide makes cells of so many units; it returns false where a task is shorter than a cell.
func (ep *exactProblem) divide(cell int) bool {
	ep.cell, ep.cells = cell, ep.horizon/cell+1
	ep.price, ep.paid = make([][]float64, len(ep.gpus)), make([][]float64, len(ep.gpus))
	for k := range ep.price {
		ep.price[k], ep.paid[k] = make([]float64, ep.cells), make([]float64, ep.cells+1)
	}
	return ep.compileJobs()
}

// gcd is the greatest common divisor.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// compileJobs fills in jobs for the cell; it returns false where a task is shorter than a cell.
func (ep *exactProblem) compileJobs() bool {
	ep.jobs = make([]exactJob, len(ep.m.Jobs))
	types := len(ep.gpus)
	for i := range ep.jobs {
		mj, j := &ep.m.Jobs[i], &ep.jobs[i]
		*j = exactJob{w: float64(mj.WeightMicro), release: int(mj.ReleaseUs / ep.unit), rounds: int(mj.Rounds),
			tasks: int(mj.Tasks), gang: mj.Sync != hare.Relaxed, compute: make([]int, types), sync: make([]int, types),
			p: make([]int, types), s: make([]int, types), shortest: math.MaxInt, least: math.MaxInt}
		if mj.Sync == hare.Rigid {
			j.rounds = 1
		}
		for _, md := range mj.Modes {
			k, compute, sync := md.Type, int(md.ComputeUs/ep.unit), int(md.SyncUs/ep.unit)
			if j.gang {
				if ep.gpus[k] < j.tasks {
					continue
				}
				compute, sync = compute+sync, 0
				if mj.Sync == hare.Rigid {
					compute *= int(mj.Rounds)
				}
			}
			if compute < ep.cell {
				return false
			}
			j.compute[k], j.sync[k], j.p[k], j.s[k] = compute, sync, compute/ep.cell, sync/ep.cell
			j.least = min(j.least, j.p[k]+j.s[k])
			j.longest = max(j.longest, j.s[k]+j.p[k]*((j.tasks+ep.gpus[k]-1)/ep.gpus[k]))
			if j.gang {
				j.longest = max(j.longest, j.p[k])
			}
		}
		if j.longest == 0 {
			return false
		}
		j.shortest = j.least
		for !j.gang && ep.room(j, j.shortest) < j.tasks {
			j.shortest++
		}
		if j.gang {
			j.longest = slices.Max(j.p)
		} else {
			j.reach = 2 * j.longest
		}
	}
	return true
}

// room returns how many tasks a round of so many cells has room for.
func (ep *exactProblem) room(j *exactJob, length int) (n int) {
	for k := range ep.gpus {
		n += ep.holds(j, k, length)
	}
	return n
}

// holds returns how many tasks a round of so many cells has on a type at most.
func (ep *exactProblem) holds(j *exactJob, k, length int) int {
	if j.p[k] == 0 || length < j.p[k]+j.s[k] {
		return 0
	}
	return min(j.tasks, ep.gpus[k]*((length-j.s[k])/j.p[k]))
}

// table returns the number of entries of all tables.
func (ep *exactProblem) table() (n int) {
	for i := range ep.jobs {
		j := &ep.jobs[i]
		n += ep.cells * (2*j.rounds + j.longest + j.rounds*(j.tasks-1)*(j.reach+1))
	}
	return n
}

// load computes the least costs of all jobs alone at the prices.
func (ep *exactProblem) load() {
	for k, row := range ep.price {
		sum := 0.0
		for x, p := range row {
			sum += p
			ep.paid[k][x+1] = sum
		}
	}
	for i := range ep.jobs {
		ep.solve(&ep.jobs[i])
	}
}

// slot returns the price of a task on type k from a cell on.
func (ep *exactProblem) slot(k, from, p int) float64 {
	if from >= ep.cells {
		return 0
	}
	return ep.paid[k][min(from+p, ep.cells)] - ep.paid[k][from]
}

// after returns the least cost of so many rounds from cell x on, behind the last price.
func (ep *exactProblem) after(j *exactJob, left, x int) float64 {
	return j.w * float64(ep.cell) * float64(x+left*j.shortest)
}

// from returns the least cost of the last rounds from cell x on.
func (ep *exactProblem) from(j *exactJob, left, x int) float64 {
	if x >= ep.cells {
		return ep.after(j, left, x)
	}
	return j.value[left][x]
}

// solve computes the least cost of a job by rounds left and start: the recursion of docs/inside/bounds.md, "Steps",
// with rounds of every length. It takes O(cells · lengths · (rounds + types)).
func (ep *exactProblem) solve(j *exactJob) {
	H := ep.cells
	if j.value == nil {
		j.value, j.choice = make([][]float64, j.rounds+1), make([][]int16, j.rounds+1)
		for r := range j.value {
			j.value[r], j.choice[r] = make([]float64, H), make([]int16, H)
		}
		j.slots, j.cheapest = make([][]float64, len(ep.gpus)), make([][]float64, len(ep.gpus))
		for k := range j.slots {
			j.slots[k], j.cheapest[k] = make([]float64, H), make([]float64, H)
		}
		j.lengths = make([][]float64, j.longest+1)
	}
	for x := range H {
		j.value[0][x] = j.w * float64(x*ep.cell)
	}
	ep.priceLengths(j)
	for r := 1; r <= j.rounds; r++ {
		now, before, choice := j.value[r], j.value[r-1], j.choice[r]
		for x := range now {
			now[x] = math.Inf(1)
		}
		for d := j.shortest; d <= j.longest; d++ {
			cost := j.lengths[d]
			if cost == nil {
				continue
			}
			ep.work += float64(H)
			inside := max(0, H-d)
			for x, c := range cost[:inside] {
				if v := c + before[x+d]; v < now[x] {
					now[x], choice[x] = v, int16(d)
				}
			}
			for x := inside; x < H; x++ {
				if v := cost[x] + ep.after(j, r-1, x+d); v < now[x] {
					now[x], choice[x] = v, int16(d)
				}
			}
		}
		next := ep.after(j, r, H)
		for x := H - 1; x >= 0; x-- {
			if next <= now[x] {
				now[x], choice[x] = next, 0
			}
			next = now[x]
		}
	}
}

// priceLengths prices the tasks of a round by its length and start.
func (ep *exactProblem) priceLengths(j *exactJob) {
	H := ep.cells
	for k := range ep.gpus {
		for x := range H {
			if j.p[k] > 0 {
				j.slots[k][x] = ep.slot(k, x, j.p[k])
			}
			j.cheapest[k][x] = math.Inf(1)
		}
	}
	if j.gang {
		for _, d := range j.p {
			if d == 0 {
				continue
			}
			if j.lengths[d] == nil {
				j.lengths[d] = make([]float64, H)
			}
			for x := range H {
				j.lengths[d][x] = math.Inf(1)
			}
		}
		for k, d := range j.p {
			for x := 0; d > 0 && x < H; x++ {
				j.lengths[d][x] = min(j.lengths[d][x], float64(j.tasks)*j.slots[k][x])
			}
		}
		return
	}
	for d := 1; d <= j.longest; d++ {
		ep.widen(j, d)
		if d < j.shortest {
			continue
		}
		if j.lengths[d] == nil {
			j.lengths[d] = make([]float64, H)
		}
		for x := range H {
			j.lengths[d][x] = ep.cheapestTasks(j, d, j.tasks, x)
		}
	}
	ep.work += float64(H * j.longest * 2 * len(ep.gpus))
}

// widen lets slots of each type end later, by one cell to d after the start.
func (ep *exactProblem) widen(j *exactJob, d int) {
	for k := range ep.gpus {
		w := d - j.p[k] - j.s[k]
		if j.p[k] == 0 || w < 0 {
			continue
		}
		row, slots := j.cheapest[k], j.slots[k]
		inside := max(0, len(row)-w)
		for x := range inside {
			row[x] = min(row[x], slots[x+w])
		}
		for x := inside; x < len(row); x++ {
			row[x] = 0 // behind the last price
		}
	}
}

// cheapestTasks returns what so many tasks of a round of length d from x on pay, the cheapest types first.
func (ep *exactProblem) cheapestTasks(j *exactJob, d, tasks, x int) float64 {
	cost, taken := 0.0, 0
	for tasks > 0 {
		best, at := math.Inf(1), -1
		for k := range ep.gpus {
			if taken&(1<<k) == 0 && j.cheapest[k][x] < best {
				best, at = j.cheapest[k][x], k
			}
		}
		if at < 0 {
			return math.Inf(1)
		}
		taken |= 1 << at
		n := min(tasks, ep.holds(j, at, d))
		cost += float64(n) * best
		tasks -= n
	}
	return cost
}

// loadParts computes the least costs of rounds of which a part of the tasks has started. part[r·K + q] is, by cell x
// and d, what q tasks and r − 1 rounds after them cost where the tasks start at x or later and the round ends at x + d
// or later.
func (ep *exactProblem) loadParts() {
	for i := range ep.jobs {
		j := &ep.jobs[i]
		if j.gang {
			continue
		}
		H, reach := ep.cells, j.reach+1
		j.part = make([][]float64, (j.rounds+1)*j.tasks)
		for q := 1; q < j.tasks; q++ {
			costs := make([]float64, H*reach)
			for k := range ep.gpus {
				for x := range H {
					j.cheapest[k][x] = math.Inf(1)
				}
			}
			for d := range reach {
				ep.widen(j, d)
				for x := range H {
					costs[x*reach+d] = ep.cheapestTasks(j, d, q, x)
				}
			}
			for r := 1; r <= j.rounds; r++ {
				row := make([]float64, H*reach)
				for x := range H {
					best := ep.from(j, r-1, x+reach)
					for d := reach - 1; d >= 0; d-- {
						if v := costs[x*reach+d] + ep.from(j, r-1, x+d); v < best {
							best = v
						}
						row[x*reach+d] = best
					}
				}
				j.part[r*j.tasks+q] = row
			}
			ep.work += float64(H * reach * (j.rounds + 4))
		}
	}
}

// dual returns what the prices prove, and adds to use what the jobs hold in each cell by type.
func (ep *exactProblem) dual(use [][]float64) float64 {
	ep.load()
	sum := 0.0
	for k, g := range ep.gpus {
		sum -= float64(g) * ep.paid[k][ep.cells]
	}
	for i := range ep.jobs {
		j := &ep.jobs[i]
		x := j.release / ep.cell
		sum += ep.from(j, j.rounds, x)
		for r := j.rounds; r > 0 && x < ep.cells; {
			d := int(j.choice[r][x])
			if d == 0 {
				x++
				continue
			}
			ep.hold(j, x, d, use)
			x += d
			r--
		}
	}
	return sum
}

// hold adds what a round of length d from x on holds at the least price.
func (ep *exactProblem) hold(j *exactJob, x, d int, use [][]float64) {
	type offer struct {
		price    float64
		k, at, n int
	}
	var offers [exactTypes]offer
	n := 0
	for k, p := range j.p {
		if p == 0 || j.gang && p != d {
			continue
		}
		o := offer{price: math.Inf(1), k: k, n: ep.holds(j, k, d)}
		for v := x; o.n > 0 && v+p+j.s[k] <= x+d; v++ {
			if price := ep.slot(k, v, p); price < o.price {
				o.price, o.at = price, v
			}
		}
		if o.n > 0 {
			offers[n] = o
			n++
		}
	}
	slices.SortStableFunc(offers[:n], func(a, b offer) int {
		switch {
		case a.price < b.price:
			return -1
		case a.price > b.price:
			return 1
		}
		return 0
	})
	left := j.tasks
	for _, o := range offers[:n] {
		take := min(left, o.n)
		left -= take
		for c := o.at; c < min(o.at+j.p[o.k], ep.cells); c++ {
			use[o.k][c] += float64(take)
		}
	}
}

// These constants of the ascent were chosen on small instances of relaxed and mixed jobs.
const (
	exactAmbition = 0.1  // how far the first target lies above the value, as a share
	exactNearer   = 0.7  // the factor by which it moves nearer
	exactPatience = 15   // the steps without a better value before it does
	exactNearest  = 1e-4 // where the ascent ends
	exactDeflect  = 0.4  // the share of the newest supergradient in the direction
	exactSteps    = 400  // at most
)

// ascend raises what the prices prove, until over says so, and loads the tables for the best prices. It returns the
// bound.
func (ep *exactProblem) ascend(over func() bool) float64 {
	T, H := len(ep.gpus), ep.cells
	use, dir, best := make([][]float64, T), make([][]float64, T), make([][]float64, T)
	for k := range T {
		use[k], dir[k], best[k] = make([]float64, H), make([]float64, H), make([]float64, H)
	}
	value, ambition, since, fresh := math.Inf(-1), exactAmbition, 0, true
	for n := 0; n < exactSteps && !over(); n++ {
		for k := range use {
			for c := range use[k] {
				use[k][c] = -float64(ep.gpus[k])
			}
		}
		v := ep.dual(use)
		if v > value {
			if value = v; since > 0 {
				since = 0
			}
			for k := range best {
				copy(best[k], ep.price[k])
			}
		} else if since++; since >= exactPatience {
			if ambition *= exactNearer; ambition < exactNearest {
				break
			}
			since, fresh = 0, true
			for k := range best {
				copy(ep.price[k], best[k])
			}
			continue
		}
		share, norm := exactDeflect, 0.0
		if fresh {
			share, fresh = 1, false
		}
		for k := range dir {
			for c := range dir[k] {
				dir[k][c] += share * (use[k][c] - dir[k][c])
				if x := dir[k][c]; ep.price[k][c] > 0 || x > 0 {
					norm += x * x
				}
			}
		}
		if norm <= 0 {
			break
		}
		length := (value + ambition*math.Abs(value) - v) / norm
		for k := range dir {
			for c, x := range dir[k] {
				ep.price[k][c] = max(0, ep.price[k][c]+length*x)
			}
		}
	}
	for k := range best {
		copy(ep.price[k], best[k])
	}
	ep.load()
	ep.loadParts()
	return value
}

// setPrices reads the prices of a relaxation.
func (ep *exactProblem) setPrices(rel *hare.Relaxation) {
	if rel == nil || len(rel.Prices) != len(ep.price) {
		return
	}
	for k := range ep.price {
		g := 0
		for c := range ep.price[k] {
			t := (int64(c)*2 + 1) * int64(ep.cell) * ep.unit / 2
			for g < len(rel.Prices[k]) && rel.GridUs[g+1] <= t {
				g++
			}
			if g == len(rel.Prices[k]) {
				break
			}
			ep.price[k][c] = rel.Prices[k][g] * 1e6 * float64(ep.cell)
		}
	}
}

// certificate returns the prices as a certificate of the method search; nil where cells are longer than a unit.
func (ep *exactProblem) certificate() *hare.Certificate {
	if ep.cell > 1 {
		return nil
	}
	c := &hare.Certificate{Method: hare.MethodSearch, Objective: ep.m.Instance.Objective, StepUs: ep.unit}
	last := 1 // the cells up to the last price
	nanos := func(k, x int) int64 { return int64(math.Round(ep.price[k][x] * 1e3)) }
	for k := range ep.price {
		for x := range ep.cells {
			if nanos(k, x) > 0 {
				last = max(last, x+1)
			}
		}
	}
	for x := range last + 1 {
		c.GridUs = append(c.GridUs, int64(x)*ep.unit)
	}
	for k, name := range ep.m.Types {
		row := make([]int64, last)
		for x := range row {
			row[x] = nanos(k, x)
		}
		c.Prices = append(c.Prices, hare.TypePrices{Type: name, Nanos: row})
	}
	return c
}
