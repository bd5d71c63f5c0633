package leases

import (
	"cmp"
	"context"
	"slices"
)

// hadarLevel is a number of nodes of a class on which equally many GPUs are given.
type hadarLevel struct{ given, nodes int }

// hadarState is a partial allocation: the jobs up to an index have chosen or were skipped.
type hadarState struct {
	levels [][]hadarLevel // by class, by rising given; read only, because states share them
	free   int            // number of GPUs that are not given
	payoff float64
	worth  float64 // sum of the utilities of the jobs that have GPUs
	last   *hadarChoice
}

// hadarChoice is a job with its GPUs; before is the choice of an earlier job.
type hadarChoice struct {
	before *hadarChoice
	job    int // index into hadar.queue
	takes  []hadarTake
}

// hadarCell is the free GPUs at a level of a class.
type hadarCell struct {
	class, given, nodes int
	price               float64
}

// choose is the dual subroutine: it returns the choices of the allocation with the greatest
// payoff that the beam finds, in the order of choice.
func (ha *hadar) choose(ctx context.Context) ([]hadarChoice, error) {
	first := hadarState{levels: make([][]hadarLevel, len(ha.classes))}
	for i := range ha.classes {
		c := &ha.classes[i]
		first.levels[i] = []hadarLevel{{0, len(c.nodes)}}
		first.free += c.size * len(c.nodes)
	}
	beam, next := []hadarState{first}, []hadarState{}
	for i := range ha.queue {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next = next[:0]
		full := true
		for _, st := range beam {
			full = full && st.free == 0
			next = append(next, st)
			if o := ha.findAllocation(&ha.queue[i], &st, 1); o.takes != nil && o.payoff > 0 {
				next = append(next, ha.give(&st, i, o))
			}
		}
		if full {
			break
		}
		beam = ha.prune(append(beam[:0], next...))
	}
	best := beam[0]
	if !ha.cfg.Strict || best.last == nil {
		best = ha.exchange(&first, ha.giveLeft(best))
	}
	var chosen []hadarChoice
	for c := best.last; c != nil; c = c.before {
		chosen = append(chosen, *c)
	}
	slices.Reverse(chosen)
	return chosen, nil
}

// giveLeft gives the GPUs that are left to jobs without GPUs, in the order of the queue, at prices that only decide
// between equal utilities: these GPUs would idle otherwise.
func (ha *hadar) giveLeft(st hadarState) hadarState {
	taken := make([]bool, len(ha.queue))
	for c := st.last; c != nil; c = c.before {
		taken[c.job] = true
	}
	for i := range ha.queue {
		if st.free == 0 {
			break
		}
		if taken[i] {
			continue
		}
		if o := ha.findAllocation(&ha.queue[i], &st, fillPrice); o.takes != nil {
			st = ha.give(&st, i, o)
		}
	}
	return st
}

// fillPrice makes prices small beside utilities, but no ties in float64.
const fillPrice = 1e-9

// exchange looks for more utility in all by another order of choice: one job comes before those that have GPUs. First
// come jobs without GPUs, in the order of the queue, then those that have some. Each order is tried at full and at
// small prices, the first that is better takes the place of the best one, and the search begins again from there.
func (ha *hadar) exchange(empty *hadarState, best hadarState) hadarState {
	for tries := ha.cfg.Exchanges; tries > 0; {
		var chosen []int
		for c := best.last; c != nil; c = c.before {
			chosen = append(chosen, c.job)
		}
		slices.Reverse(chosen)
		var firsts []int
		for i := 0; i < len(ha.queue) && 2*len(firsts) < tries; i++ {
			if !slices.Contains(chosen, i) {
				firsts = append(firsts, i)
			}
		}
		firsts = append(firsts, chosen...)
		better := false
		for i := 0; i < len(firsts) && !better; i++ {
			for _, factor := range []float64{1, fillPrice} {
				if tries--; tries < 0 {
					return best
				}
				if st := ha.inOrder(*empty, firsts[i], chosen, factor); st.worth > best.worth*(1+1e-12) {
					best, better = st, true
				}
			}
		}
		if !better {
			break
		}
	}
	return best
}

// inOrder gives jobs GPUs in the order in which they were chosen, but for one that comes first. Jobs without GPUs
// follow.
func (ha *hadar) inOrder(st hadarState, first int, chosen []int, factor float64) hadarState {
	offer := func(i int) {
		if o := ha.findAllocation(&ha.queue[i], &st, factor); o.takes != nil {
			st = ha.give(&st, i, o)
		}
	}
	offer(first)
	for _, i := range chosen {
		if i != first {
			offer(i)
		}
	}
	return ha.giveLeft(st)
}

// prune keeps the states of greatest payoff, one of those that use the nodes alike.
func (ha *hadar) prune(states []hadarState) []hadarState {
	slices.SortStableFunc(states, func(a, b hadarState) int { return cmp.Compare(b.payoff, a.payoff) })
	kept := states[:0]
	for _, st := range states {
		if len(kept) == ha.cfg.Beam {
			break
		}
		if !slices.ContainsFunc(kept, func(k hadarState) bool { return k.alike(&st) }) {
			kept = append(kept, st)
		}
	}
	return kept
}

// alike reports whether two states use the nodes alike.
func (st *hadarState) alike(other *hadarState) bool {
	return st.free == other.free && slices.EqualFunc(st.levels, other.levels, slices.Equal)
}

// give is the state after a job has taken GPUs.
func (ha *hadar) give(st *hadarState, job int, o hadarOffer) hadarState {
	takes := o.takes
	out := hadarState{levels: slices.Clone(st.levels), free: st.free, payoff: st.payoff + o.payoff,
		worth: st.worth + o.worth, last: &hadarChoice{before: st.last, job: job, takes: takes}}
	for i, t := range takes {
		if !slices.ContainsFunc(takes[:i], func(o hadarTake) bool { return o.class == t.class }) {
			out.levels[t.class] = slices.Clone(out.levels[t.class])
		}
		out.levels[t.class] = moveNode(out.levels[t.class], t.given, t.given+t.units)
		out.free -= t.units
	}
	return out
}

// moveNode moves a node from one level to a higher one.
func moveNode(levels []hadarLevel, from, to int) []hadarLevel {
	given := func(l hadarLevel, g int) int { return cmp.Compare(l.given, g) }
	i, _ := slices.BinarySearchFunc(levels, from, given)
	if levels[i].nodes--; levels[i].nodes == 0 {
		levels = slices.Delete(levels, i, i+1)
	}
	i, found := slices.BinarySearchFunc(levels, to, given)
	if !found {
		levels = slices.Insert(levels, i, hadarLevel{given: to})
	}
	levels[i].nodes++
	return levels
}

// findAllocation returns the allocation of greatest payoff for a job, at prices times factor, and one without takes
// if none is possible. Prices do not rise within an allocation. For each type, from the fastest to the
// slowest, the candidates are the cheapest node of the type with room for the whole job, and the
// cheapest GPUs of this type and all faster ones on any nodes. No other allocation has a
// greater payoff at these prices: if the slowest type of the best one is k, the cheapest GPUs of
// types at least as fast cost no more and are no slower. Ties go to the earlier candidate, and so
// to faster types and single nodes.
func (ha *hadar) findAllocation(j *hadarJob, st *hadarState, factor float64) (best hadarOffer) {
	gpus := j.view.GPUs
	if st.free < gpus {
		return best
	}
	consider := func(rate, cost float64, offer func() []hadarTake) {
		worth := ha.utility(j.view, rate)
		if p := worth - cost*factor; best.takes == nil || p > best.payoff {
			best = hadarOffer{offer(), p, worth}
		}
	}
	for _, k := range j.byRate {
		if c, ok := ha.cheapestNode(st, k, gpus); ok {
			consider(j.view.Rate[k], c.price*float64(gpus), func() []hadarTake {
				return []hadarTake{{c.class, c.given, gpus}}
			})
		}
	}
	if gpus == 1 || ha.cfg.OneNode && ha.fitsNode(j) {
		return best
	}
	for _, k := range j.byRate {
		rate := j.spreadRate(k)
		if rate <= 0 || best.takes != nil && ha.utility(j.view, rate) <= best.payoff {
			continue // even free GPUs would not be better
		}
		ha.readCells(st, j, k)
		left, cost := gpus, 0.0
		for _, c := range ha.cells {
			n := min(left, c.nodes*(ha.classes[c.class].size-c.given))
			cost += float64(n) * c.price
			if left -= n; left == 0 {
				break
			}
		}
		if left == 0 {
			consider(rate, cost, func() []hadarTake { return ha.spreadTakes(gpus) })
		}
	}
	return best
}

// hadarOffer is an allocation of a job, its payoff, and the utility of the job on it.
type hadarOffer struct {
	takes         []hadarTake
	payoff, worth float64
}

// spreadRate is the rate of the job on several nodes with GPUs of a type.
func (hj *hadarJob) spreadRate(k int) float64 {
	if hj.view.SpreadRate != nil {
		return hj.view.SpreadRate[k]
	}
	return hj.view.Rate[k]
}

// fitsNode reports whether a node of a type that the job can use is large enough for the job.
func (ha *hadar) fitsNode(j *hadarJob) bool {
	return slices.ContainsFunc(ha.classes, func(c hadarClass) bool {
		return c.size >= j.view.GPUs && j.view.Rate[c.kind] > 0
	})
}

// cheapestNode is the level of the cheapest node of a type with room for a job.
func (ha *hadar) cheapestNode(st *hadarState, kind, gpus int) (best hadarCell, ok bool) {
	for i := range ha.classes {
		c := &ha.classes[i]
		if c.kind != kind {
			continue
		}
		// Prices rise with given, so the first level is the cheapest one of a class.
		if l := st.levels[i][0]; c.size-l.given >= gpus && (!ok || c.price[l.given] < best.price) {
			best, ok = hadarCell{i, l.given, l.nodes, c.price[l.given]}, true
		}
	}
	return best, ok
}

// readCells lists the free GPUs of the types on which the job is at least as fast as on a type,
// on several nodes, the cheapest first.
func (ha *hadar) readCells(st *hadarState, j *hadarJob, slowest int) {
	ha.cells = ha.cells[:0]
	for i := range ha.classes {
		c := &ha.classes[i]
		if j.view.Rate[c.kind] <= 0 || j.spreadRate(c.kind) < j.spreadRate(slowest) ||
			ha.cfg.OneType && c.kind != slowest {
			continue
		}
		for _, l := range st.levels[i] {
			if l.given < c.size {
				ha.cells = append(ha.cells, hadarCell{i, l.given, l.nodes, c.price[l.given]})
			}
		}
	}
	slices.SortStableFunc(ha.cells, func(a, b hadarCell) int { return cmp.Compare(a.price, b.price) })
}

// spreadTakes takes the first GPUs of the cells.
func (ha *hadar) spreadTakes(gpus int) []hadarTake {
	var takes []hadarTake
	for _, c := range ha.cells {
		for range c.nodes {
			if gpus == 0 {
				return takes
			}
			n := min(gpus, ha.classes[c.class].size-c.given)
			takes = append(takes, hadarTake{c.class, c.given, n})
			gpus -= n
		}
	}
	return takes
}
