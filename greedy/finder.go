package greedy

import "slices"

// typeSlot is the earliest place for a round of a job on one type from some time on.
type typeSlot struct {
	start     int64 // never if there is no place, −1 if not searched yet
	freeUntil int64 // until when its GPUs stay free
	width     []int64
	chosen    []nodeTasks // where nodes matter, in place of width
}

// slotFinder finds places on residual capacities. It owns scratch memory and reserves
// nothing.
type slotFinder struct {
	slots    [maxSet]typeSlot
	width    []int64 // by pool, of the last slot
	steps    []int   // by pool: the step that holds at the start of the last slot, where there are several pools
	segments []segment
	floors   []searchFloor // by type; nil where capacity may grow between two searches
	nodes    *nodeSlots    // nil where only the sums of types count
	// levelSlots and together are for jobs to which levels matter.
	levelSlots []levelSlot
	together   []nodeTasks
}

// newNodeFinder returns a finder of places on single nodes, with the patience of nodeSlots.
func newNodeFinder(nl *nodeLayout, patience float64) *slotFinder {
	ns := newNodeSlots(nl)
	ns.patience = patience
	return &slotFinder{nodes: ns}
}

// newPoolFinder returns a finder of places in the sums of types of at most so many pools.
func newPoolFinder(pools int) *slotFinder {
	sf := &slotFinder{width: make([]int64, pools), steps: make([]int, pools)}
	for i := range sf.slots {
		sf.slots[i].width = make([]int64, pools)
	}
	return sf
}

// earliest returns the earliest start ≥ from at which the GPUs of job j are free on type k
// for hold, and leaves their pools in sf.width, or their nodes in sf.nodes. It takes O(steps)
// with one pool and O(steps²) with several.
func (sf *slotFinder) earliest(j *annealJob, k int16, tr typeCapacity, from, hold int64) int64 {
	if sf.nodes != nil {
		return sf.nodes.earliest(j, k, tr, from, hold, 0)
	}
	return sf.earliestInPools(k, tr, from, hold, j.width)
}

// earliestInPools is earliest where nodes do not matter. If the pools have too few GPUs together, no pool has more
// before its least count lies behind; so the next start to try is the first one at which this is so for some pool.
func (sf *slotFinder) earliestInPools(k int16, tr typeCapacity, from, hold, need int64) int64 {
	if len(tr) == 1 {
		sf.width[0] = need
		start, _ := sf.earliestInPool(k, tr[0], from, hold, need)
		return start
	}
	for i, fn := range tr {
		sf.steps[i] = fn.index(from)
	}
	for t := from; len(tr) > 0; {
		left, next := need, never
		for i, fn := range tr {
			x := sf.steps[i]
			for x+1 < len(fn) && fn[x+1].from <= t {
				x++
			}
			sf.steps[i] = x
			least, end := fn.leastWithin(x, t+hold)
			sf.width[i] = min(left, least)
			left -= sf.width[i]
			next = min(next, end)
		}
		if left == 0 {
			return t
		}
		if next == never {
			break
		}
		t = next
	}
	return never
}

// earliestInPool is earliest in the only pool of type k, with the index of the step that
// holds at the start.
func (sf *slotFinder) earliestInPool(k int16, fn stepFunction, from, hold, need int64) (start int64, at int) {
	if sf.floors == nil {
		return fn.earliest(from, hold, need)
	}
	return sf.floors[k].earliest(fn, from, hold, need)
}

// appendSegment appends a run of rounds on the GPUs that width counts by pool.
func (sf *slotFinder) appendSegment(k int16, shape uint8, pools int, width []int64, round, rounds, start, end int64) {
	if n := len(sf.segments); pools == 1 && n > 0 && sf.segments[n-1].typ == k && sf.segments[n-1].end == start &&
		sf.segments[n-1].shape == shape {
		sf.segments[n-1].rounds += rounds
		sf.segments[n-1].end = end
		return
	}
	for i, w := range width[:pools] {
		if w > 0 {
			sf.segments = append(sf.segments, segment{typ: k, shape: shape, pool: int32(i), width: w, round: round,
				rounds: rounds, start: start, end: end})
		}
	}
}

// place finds the place of job j under plan and leaves its runs in sf.segments. It
// returns false if there is no place.
func (sf *slotFinder) place(j *annealJob, plan *jobPlan, capacities []typeCapacity) (end int64, ok bool) {
	return sf.placeFrom(j, j.release, plan, capacities)
}

// placeFrom is place for a job that starts at ready or later.
func (sf *slotFinder) placeFrom(j *annealJob, ready int64, plan *jobPlan,
	capacities []typeCapacity) (end int64, ok bool) {
	sf.segments = sf.segments[:0]
	switch plan.kind {
	case split:
		end, ok = sf.placeContiguous(j, plan.types[0], capacities, 0, plan.rounds, ready)
		if ok {
			if plan.then != plan.shape {
				return sf.placeReshaped(j, plan, capacities, ready, end)
			}
			end, ok = sf.placeAfter(j, plan.types[1], capacities, plan.rounds, j.rounds-plan.rounds, ready, end)
		}
		return end, ok
	case roundByRound:
		return sf.placeRoundByRound(j, ready, plan.uses(), capacities)
	}
	return sf.placeContiguous(j, plan.types[0], capacities, 0, j.rounds, ready)
}

// placeContiguous places rounds back to back on type k as early as possible.
func (sf *slotFinder) placeContiguous(j *annealJob, k int16, capacities []typeCapacity, round, rounds,
	from int64) (end int64, ok bool) {
	return sf.placeAfter(j, k, capacities, round, rounds, from, from)
}

// placeAfter is placeContiguous where setups may begin at ready, before from.
func (sf *slotFinder) placeAfter(j *annealJob, k int16, capacities []typeCapacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	if sf.nodes != nil {
		return sf.placeAfterOnNodes(j, k, capacities, round, rounds, ready, from)
	}
	hold := rounds * j.dur[k]
	start := sf.earliestInPools(k, capacities[k], from, hold, j.width)
	if start == never {
		return 0, false
	}
	sf.appendSegment(k, j.shape, len(capacities[k]), sf.width, round, rounds, start, start+hold)
	return start + hold, true
}

// placeAfterOnNodes is placeAfter where nodes matter.
func (sf *slotFinder) placeAfterOnNodes(j *annealJob, k int16, capacities []typeCapacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	switch {
	case j.setups != nil:
		return sf.placeBlock(j, k, capacities, round, rounds, ready, from)
	case j.levels != nil:
		return sf.placeContiguousByLevel(j, k, capacities, round, rounds, from)
	}
	hold := rounds * j.dur[k]
	start := sf.earliest(j, k, sf.capacityOf(k, capacities), from, hold)
	if start == never {
		return 0, false
	}
	sf.appendOnNodes(k, j, sf.nodes.chosen, round, rounds, start, start+hold)
	return start + hold, true
}

// placeRoundByRound places every round on the type of the set where the round ends
// first. The result is the earliest completion over the set, because a round that ends
// earlier never delays the next one. A run stays on its type while its GPUs are free and
// until a faster type would end the next round earlier; the cost therefore grows with
// the steps of the capacities and not with the rounds.
func (sf *slotFinder) placeRoundByRound(j *annealJob, ready int64, types []int16,
	capacities []typeCapacity) (end int64, ok bool) {
	if (j.levels != nil || j.setups != nil) && sf.nodes != nil {
		return sf.placeRoundByRoundByLevel(j, ready, types, capacities)
	}
	t, round := ready, int64(0)
	for i := range types {
		sf.slots[i].start = -1
	}
	for round < j.rounds {
		best, bestEnd := -1, never
		for i, k := range types {
			o, d := &sf.slots[i], j.dur[k]
			if o.start < t {
				if o.start >= 0 && t+d <= o.freeUntil {
					o.start = t
				} else {
					sf.findSlot(o, j, k, sf.capacityOf(k, capacities), t, d, j.rounds-round)
				}
			}
			if o.start == never {
				continue
			}
			if e := o.start + d; e < bestEnd || e == bestEnd && d < j.dur[types[best]] {
				best, bestEnd = i, e
			}
		}
		if best < 0 {
			return 0, false
		}
		o, d := &sf.slots[best], j.dur[types[best]]
		n := j.rounds - round
		if o.freeUntil != never {
			n = min(n, (o.freeUntil-o.start)/d)
		}
		for i, k := range types {
			// The run stays while a round here ends no later than a round on the faster type.
			if f := &sf.slots[i]; i != best && j.dur[k] < d && f.start != never {
				n = min(n, max(1, (f.start+j.dur[k]-o.start)/d))
			}
		}
		t = o.start + n*d
		if sf.nodes != nil {
			sf.appendOnNodes(types[best], j, o.chosen, round, n, o.start, t)
		} else {
			sf.appendSegment(types[best], j.shape, len(capacities[types[best]]), o.width, round, n, o.start, t)
		}
		round += n
	}
	return t, true
}

// forget must be called when GPUs of a column become free.
func (sf *slotFinder) forget(column int16) {
	if sf.nodes != nil {
		sf.nodes.forget(column)
	}
}

// capacityOf returns the capacity in which type k is.
func (sf *slotFinder) capacityOf(k int16, capacities []typeCapacity) typeCapacity {
	if sf.nodes != nil {
		k = sf.nodes.layout.column[k]
	}
	return capacities[k]
}

// findOnNodes is findSlot on nodes.
func (sf *slotFinder) findOnNodes(o *typeSlot, j *annealJob, k int16, tc typeCapacity, t, hold, rounds int64) {
	o.start, o.freeUntil = sf.nodes.earliest(j, k, tc, t, hold, hold*rounds), never
	if o.start == never {
		return
	}
	o.chosen = append(o.chosen[:0], sf.nodes.chosen...)
	o.freeUntil = sf.chosenUntil(j, k, tc, o.chosen, o.start)
}

// chosenUntil returns the time until which a round of job j on chosen nodes can stay from start on.
func (sf *slotFinder) chosenUntil(j *annealJob, k int16, tc typeCapacity, chosen []nodeTasks, start int64) int64 {
	until := never
	for _, c := range chosen {
		until = min(until, sf.nodes.freeUntil(j, k, tc, c.pool, int64(c.tasks), start))
	}
	return min(until, sf.nodes.quotaUntil(j, k, tc, j.width, start))
}

// appendOnNodes appends a run of rounds on the nodes of chosen.
func (sf *slotFinder) appendOnNodes(k int16, j *annealJob, chosen []nodeTasks, round, rounds, start, end int64) {
	last := len(sf.segments) - len(chosen)
	same := last >= 0
	for i := 0; same && i < len(chosen); i++ {
		s := &sf.segments[last+i]
		same = s.typ == k && s.shape == j.shape && s.end == start && s.pool == chosen[i].pool &&
			int64(s.width) == int64(chosen[i].tasks)*j.gpus && (i > 0 || s.round+s.rounds == round)
	}
	if same {
		for i := range chosen {
			sf.segments[last+i].rounds += rounds
			sf.segments[last+i].end = end
		}
		return
	}
	for _, c := range chosen {
		sf.segments = append(sf.segments, segment{typ: k, shape: j.shape, pool: c.pool,
			width: int64(c.tasks) * j.gpus, round: round, rounds: rounds, start: start, end: end})
	}
}

// findSlot searches the earliest slot of type k from t on, for at most so many rounds of job
// j of length hold.
func (sf *slotFinder) findSlot(o *typeSlot, j *annealJob, k int16, tr typeCapacity, t, hold, rounds int64) {
	if sf.nodes != nil {
		sf.findOnNodes(o, j, k, tr, t, hold, rounds)
		return
	}
	need := j.width
	if len(tr) == 1 {
		start, i := sf.earliestInPool(k, tr[0], t, hold, need)
		o.start, o.freeUntil, o.width[0] = start, never, need
		if start != never {
			o.freeUntil = tr[0].freeUntil(i, need)
		}
		return
	}
	o.start = sf.earliest(j, k, tr, t, hold)
	if o.start == never {
		return
	}
	copy(o.width, sf.width)
	o.freeUntil = never
	for i, s := range tr {
		if w := o.width[i]; w > 0 {
			o.freeUntil = min(o.freeUntil, s.freeUntil(sf.steps[i], w))
		}
	}
}

// placeReshaped places the second part of a plan of job j whose first part, in another shape, ends at end.
func (sf *slotFinder) placeReshaped(j *annealJob, plan *jobPlan, capacities []typeCapacity, ready, end int64) (int64,
	bool) {
	then := j.form(plan.then)
	return sf.placeAfter(then, plan.types[1], capacities, plan.rounds, then.roundsAfter(j, plan.rounds), ready,
		end+j.reshapeUs)
}

// earliestAfterSetup returns the earliest start of a block of job j on type k that lasts hold and whose
// setup begins at from or later, as slotFinder.earliest. Where stay > hold, nodes on which the tasks
// could stay longer are preferred.
func (sf *slotFinder) earliestAfterSetup(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	if j.setups == nil || sf.nodes == nil {
		return sf.earliest(j, k, tc, from, hold)
	}
	ns, setup := sf.nodes, j.setup(k)
	if ns.lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.earliest(j, k, tc, from, hold+setup, stay)
	if ns.lead = 0; t == never {
		return never
	}
	return t + setup
}

// earliestWithinAfterSetup is earliestAfterSetup within one domain of a level.
func (sf *slotFinder) earliestWithinAfterSetup(j *annealJob, k int16, level int, tc typeCapacity, from, hold,
	stay int64) int64 {
	ns, setup := sf.nodes, j.setup(k)
	if ns.lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.earliestWithin(j, k, level, tc, from, hold+setup, stay)
	if ns.lead = 0; t == never {
		return never
	}
	return t + setup
}

// meetsOwn says whether a block of the job on chosen nodes that takes its GPUs from t on meets the
// blocks before it, which are in sf.segments and which the capacities do not know yet.
func (sf *slotFinder) meetsOwn(k int16, chosen []nodeTasks, t int64) bool {
	return slices.ContainsFunc(sf.segments, func(s segment) bool {
		return s.typ == k && s.end > t && slices.ContainsFunc(chosen, func(c nodeTasks) bool { return c.pool == s.pool })
	})
}

// earliestStay returns the earliest start from on of a block that lasts hold and stays where job j runs at
// time 0, or never.
func (sf *slotFinder) earliestStay(j *annealJob, capacities []typeCapacity, from, hold int64) int64 {
	rp, ns := j.runs, sf.nodes
	if rp == nil || j.dur[rp.typ] == 0 {
		return never
	}
	tc := sf.capacityOf(rp.typ, capacities)
	start := max(from, rp.until)
	for again := true; again && start != never; {
		before := start
		for _, c := range rp.chosen {
			pool := &ns.layout.pools[rp.typ][c.pool]
			if start != never {
				start = ns.earliestTasks(j, pool, tc, start, hold, int64(c.tasks))
			}
		}
		for _, q := range j.quotas {
			if start != never && ns.layout.m.Quotas[q].Types[rp.typ] {
				start, _ = tc[ns.layout.quota[q]].earliest(start, hold, j.width)
			}
		}
		again = start != before
	}
	if start == never {
		return never
	}
	for _, c := range rp.chosen {
		pool := &ns.layout.pools[rp.typ][c.pool]
		if tc[pool.gpus].minFree(rp.until, start+hold) < int64(c.tasks)*j.gpus {
			return never
		}
	}
	return start
}

// appendBlock appends a run of rounds with a setup before it, as appendOnNodes.
func (sf *slotFinder) appendBlock(k int16, j *annealJob, chosen []nodeTasks, round, rounds, start, end int64) {
	n := len(sf.segments)
	sf.appendOnNodes(k, j, chosen, round, rounds, start, end)
	for x := n; x < len(sf.segments); x++ {
		sf.segments[x].lead = j.setup(k)
	}
}

// appendStay appends a run of rounds where the job runs at time 0.
func (sf *slotFinder) appendStay(j *annealJob, round, rounds, start, end int64) {
	n := len(sf.segments)
	sf.appendOnNodes(j.runs.typ, j, j.runs.chosen, round, rounds, start, end)
	for x := n; x < len(sf.segments); x++ {
		sf.segments[x].lead, sf.segments[x].stays = start-j.runs.until, true
	}
}

// placeBlock is placeContiguous for a job with setups. No setup begins before ready, and the rounds start
// at from or later.
func (sf *slotFinder) placeBlock(j *annealJob, k int16, capacities []typeCapacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	var stay, us int64 = never, 0
	if j.runs != nil && j.runs.typ == k && round == 0 {
		us = j.runs.roundUs(j)
		stay = sf.earliestStay(j, capacities, from, rounds*us)
	}
	tc := sf.capacityOf(k, capacities)
	find := func(taken int64) (start, d int64) {
		if j.levels != nil {
			return sf.earliestByLevel(j, k, tc, taken, rounds)
		}
		return sf.earliestAfterSetup(j, k, tc, taken, rounds*j.dur[k], 0), j.dur[k]
	}
	chosen := func() []nodeTasks {
		if j.levels != nil {
			return sf.together
		}
		return sf.nodes.chosen
	}
	taken := max(ready, from-j.setup(k))
	start, d := find(taken)
	if start != never && taken < from && sf.meetsOwn(k, chosen(), start-j.setup(k)) {
		start, d = find(from)
	}
	if stay != never && (start == never || stay+rounds*us <= start+rounds*d) {
		sf.appendStay(j, round, rounds, stay, stay+rounds*us)
		return stay + rounds*us, true
	}
	if start == never {
		return 0, false
	}
	sf.appendBlock(k, j, chosen(), round, rounds, start, start+rounds*d)
	return start + rounds*d, true
}

// placeContiguousByLevel is placeContiguous for a job to which levels matter: within the domain
// in which the rounds end first.
func (sf *slotFinder) placeContiguousByLevel(j *annealJob, k int16, capacities []typeCapacity, round, rounds,
	from int64) (end int64, ok bool) {
	start, us := sf.earliestByLevel(j, k, sf.capacityOf(k, capacities), from, rounds)
	if start == never {
		return 0, false
	}
	sf.appendOnNodes(k, j, sf.together, round, rounds, start, start+rounds*us)
	return start + rounds*us, true
}

// earliestByLevel returns the start at which so many rounds of job j end first on type k, and the
// time of a round there. It leaves their nodes in sf.together.
func (sf *slotFinder) earliestByLevel(j *annealJob, k int16, tc typeCapacity, from, rounds int64) (start, us int64) {
	start = never
	for _, lt := range j.levels.times[k] {
		if start != never && from+j.setup(k)+rounds*lt.us >= start+rounds*us {
			continue
		}
		s := sf.earliestWithinAfterSetup(j, k, lt.level, tc, from, rounds*lt.us, 0)
		if s == never {
			continue
		}
		// The nodes may be nearer to each other than was asked for.
		if d := j.levels.roundUs(k, sf.nodes.spread(j.levels, k)); start == never || s+rounds*d < start+rounds*us {
			start, us = s, d
			sf.together = append(sf.together[:0], sf.nodes.chosen...)
		}
	}
	return start, us
}

// levelSlot is a typeSlot within one domain of a level.
type levelSlot struct {
	typeSlot
	typ  int16
	time levelTime
	us   int64 // the time of a round at this place
	runs bool  // whether the place is that where the job runs at time 0
}

// placeRoundByRoundByLevel is placeRoundByRound for a job to which levels matter, or which needs
// setups: each round goes to the type and the domain in which it ends first.
func (sf *slotFinder) placeRoundByRoundByLevel(j *annealJob, ready int64, types []int16,
	capacities []typeCapacity) (end int64, ok bool) {
	n := 0
	for _, k := range types {
		times := []levelTime{{0, j.dur[k]}}
		if j.levels != nil {
			times = j.levels.times[k]
		}
		for _, lt := range times {
			if n == len(sf.levelSlots) {
				sf.levelSlots = append(sf.levelSlots, levelSlot{})
			}
			o := &sf.levelSlots[n]
			o.typ, o.time, o.start, o.runs = k, lt, -1, false
			n++
		}
	}
	if j.runs != nil && slices.Contains(types, j.runs.typ) {
		if n == len(sf.levelSlots) {
			sf.levelSlots = append(sf.levelSlots, levelSlot{})
		}
		o := &sf.levelSlots[n]
		o.typ, o.us, o.start, o.runs = j.runs.typ, j.runs.roundUs(j), -1, true
		n++
	}
	slots := sf.levelSlots[:n]
	t, round := ready, int64(0)
	var last *levelSlot // that of the rounds before
	for round < j.rounds {
		var best *levelSlot
		bestEnd := never
		for i := range slots {
			o := &slots[i]
			if o.runs && round > 0 && o != last {
				o.start = never // the job has left the place
				continue
			}
			if o.start < t || o != last && sf.meetsOwnBefore(j, o) {
				if o.start >= 0 && t+o.us <= o.freeUntil && (j.setups == nil || o == last) {
					o.start = t
				} else if !o.runs {
					sf.findWithin(o, j, sf.capacityOf(o.typ, capacities), ready, t, j.rounds-round)
				} else if o.start = never; round == 0 {
					sf.findStay(o, j, capacities, t)
				}
			}
			if o.start != never && (o.start+o.us < bestEnd || o.start+o.us == bestEnd && o.us < best.us) {
				best, bestEnd = o, o.start+o.us
			}
		}
		if best == nil {
			return 0, false
		}
		runs := j.rounds - round
		if best.freeUntil != never {
			runs = min(runs, (best.freeUntil-best.start)/best.us)
		}
		for i := range slots {
			// The run stays while a round here ends no later than a shorter round elsewhere.
			if f := &slots[i]; f.start != never && f.us < best.us {
				runs = min(runs, max(1, (f.start+f.us-best.start)/best.us))
			}
		}
		t = best.start + runs*best.us
		if best.runs && best != last {
			sf.appendStay(j, round, runs, best.start, t)
		} else {
			sf.appendBlock(best.typ, j, best.chosen, round, runs, best.start, t)
		}
		round += runs
		last = best
	}
	return t, true
}

// findWithin searches the earliest slot at t or later within one domain of the level of o. Its setup
// may begin before t, but not before ready.
func (sf *slotFinder) findWithin(o *levelSlot, j *annealJob, tc typeCapacity, ready, t, rounds int64) {
	ns := sf.nodes
	setup := j.setup(o.typ)
	find := func(from int64) int64 {
		if j.levels == nil {
			return sf.earliestAfterSetup(j, o.typ, tc, from, o.time.us, o.time.us*rounds)
		}
		return sf.earliestWithinAfterSetup(j, o.typ, o.time.level, tc, from, o.time.us, o.time.us*rounds)
	}
	taken := max(ready, t-setup)
	o.start = find(taken)
	if o.start != never && taken < t && sf.meetsOwn(o.typ, ns.chosen, o.start-setup) {
		o.start = find(t)
	}
	if o.start == never {
		return
	}
	o.chosen = append(o.chosen[:0], ns.chosen...)
	o.freeUntil = sf.chosenUntil(j, o.typ, tc, o.chosen, o.start)
	if o.us = o.time.us; j.levels != nil {
		o.us = j.levels.roundUs(o.typ, ns.spread(j.levels, o.typ))
	}
}

// meetsOwnBefore says whether the setup of a slot that was found before the last rounds got their
// place meets them.
func (sf *slotFinder) meetsOwnBefore(j *annealJob, o *levelSlot) bool {
	return j.setups != nil && !o.runs && o.start != never && sf.meetsOwn(o.typ, o.chosen, o.start-j.setup(o.typ))
}

// findStay searches a slot for the first round where the job runs at time 0.
func (sf *slotFinder) findStay(o *levelSlot, j *annealJob, capacities []typeCapacity, t int64) {
	if o.start = sf.earliestStay(j, capacities, t, o.us); o.start == never {
		return
	}
	o.chosen = append(o.chosen[:0], j.runs.chosen...)
	o.freeUntil = sf.chosenUntil(j, o.typ, sf.capacityOf(o.typ, capacities), o.chosen, o.start)
}
