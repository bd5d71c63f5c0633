package room

import "slices"

// typeSlot is the earliest place for a round of a job on one type from some time on.
type typeSlot struct {
	start     int64 // never if there is no place, −1 if not searched yet
	freeUntil int64 // until when its GPUs stay free
	width     []int64
	chosen    []NodeTasks // where nodes matter, in place of width
}

// Finder finds places on residual capacities. It owns scratch memory and reserves
// nothing.
type Finder struct {
	slots    [MaxTypes]typeSlot
	width    []int64 // by pool, of the last slot
	steps    []int   // by pool: the step that holds at the start of the last slot, where there are several pools
	Segments []Segment
	Floors   []Floor    // by type; nil where capacity may grow between two searches
	Nodes    *NodeSlots // nil where only the sums of types count
	// levelSlots and together are for jobs to which levels matter.
	levelSlots []levelSlot
	together   []NodeTasks
}

// NewNodeFinder returns a finder of places on single nodes, with the patience of NodeSlots.
func NewNodeFinder(nl *Layout, patience float64) *Finder {
	ns := newNodeSlots(nl)
	ns.patience = patience
	return &Finder{Nodes: ns}
}

// NewPoolFinder returns a finder of places in the sums of types of at most so many pools.
func NewPoolFinder(pools int) *Finder {
	sf := &Finder{width: make([]int64, pools), steps: make([]int, pools)}
	for i := range sf.slots {
		sf.slots[i].width = make([]int64, pools)
	}
	return sf
}

// earliest returns the earliest start ≥ from at which the GPUs of job j are free on type k
// for hold, and leaves their pools in sf.width, or their nodes in sf.nodes. It takes O(steps)
// with one pool and O(steps²) with several.
func (sf *Finder) earliest(j *Job, k int16, tr Capacity, from, hold int64) int64 {
	if sf.Nodes != nil {
		return sf.Nodes.Earliest(j, k, tr, from, hold, 0)
	}
	return sf.earliestInPools(k, tr, from, hold, j.Width)
}

// earliestInPools is earliest where nodes do not matter. If the pools have too few GPUs together, no pool has more
// before its least count lies behind; so the next start to try is the first one at which this is so for some pool.
func (sf *Finder) earliestInPools(k int16, tr Capacity, from, hold, need int64) int64 {
	if len(tr) == 1 {
		sf.width[0] = need
		start, _ := sf.earliestInPool(k, tr[0], from, hold, need)
		return start
	}
	for i, fn := range tr {
		sf.steps[i] = fn.Index(from)
	}
	for t := from; len(tr) > 0; {
		left, next := need, Never
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
		if next == Never {
			break
		}
		t = next
	}
	return Never
}

// earliestInPool is earliest in the only pool of type k, with the index of the step that
// holds at the start.
func (sf *Finder) earliestInPool(k int16, fn StepFunction, from, hold, need int64) (start int64, at int) {
	if sf.Floors == nil {
		return fn.earliest(from, hold, need)
	}
	return sf.Floors[k].earliest(fn, from, hold, need)
}

// appendSegment appends a run of rounds on the GPUs that width counts by pool.
func (sf *Finder) appendSegment(k int16, shape uint8, pools int, width []int64, round, rounds, start, end int64) {
	if n := len(sf.Segments); pools == 1 && n > 0 && sf.Segments[n-1].Type == k && sf.Segments[n-1].End == start &&
		sf.Segments[n-1].Shape == shape {
		sf.Segments[n-1].Rounds += rounds
		sf.Segments[n-1].End = end
		return
	}
	for i, w := range width[:pools] {
		if w > 0 {
			sf.Segments = append(sf.Segments, Segment{Type: k, Shape: shape, Pool: int32(i), Width: w, Round: round,
				Rounds: rounds, Start: start, End: end})
		}
	}
}

// Place finds the place of job j under plan and leaves its runs in sf.segments. It
// returns false if there is no place.
func (sf *Finder) Place(j *Job, plan *JobPlan, capacities []Capacity) (end int64, ok bool) {
	return sf.PlaceFrom(j, j.Release, plan, capacities)
}

// PlaceFrom is place for a job that starts at ready or later.
func (sf *Finder) PlaceFrom(j *Job, ready int64, plan *JobPlan,
	capacities []Capacity) (end int64, ok bool) {
	sf.Segments = sf.Segments[:0]
	switch plan.Kind {
	case Split:
		end, ok = sf.placeContiguous(j, plan.Types[0], capacities, 0, plan.Rounds, ready)
		if ok {
			if plan.Then != plan.Shape {
				return sf.placeReshaped(j, plan, capacities, ready, end)
			}
			end, ok = sf.placeAfter(j, plan.Types[1], capacities, plan.Rounds, j.Rounds-plan.Rounds, ready, end)
		}
		return end, ok
	case RoundByRound:
		return sf.placeRoundByRound(j, ready, plan.Uses(), capacities)
	}
	return sf.placeContiguous(j, plan.Types[0], capacities, 0, j.Rounds, ready)
}

// placeContiguous places rounds back to back on type k as early as possible.
func (sf *Finder) placeContiguous(j *Job, k int16, capacities []Capacity, round, rounds,
	from int64) (end int64, ok bool) {
	return sf.placeAfter(j, k, capacities, round, rounds, from, from)
}

// placeAfter is placeContiguous where setups may begin at ready, before from.
func (sf *Finder) placeAfter(j *Job, k int16, capacities []Capacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	if sf.Nodes != nil {
		return sf.placeAfterOnNodes(j, k, capacities, round, rounds, ready, from)
	}
	hold := rounds * j.Dur[k]
	start := sf.earliestInPools(k, capacities[k], from, hold, j.Width)
	if start == Never {
		return 0, false
	}
	sf.appendSegment(k, j.Shape, len(capacities[k]), sf.width, round, rounds, start, start+hold)
	return start + hold, true
}

// placeAfterOnNodes is placeAfter where nodes matter.
func (sf *Finder) placeAfterOnNodes(j *Job, k int16, capacities []Capacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	switch {
	case j.Setups != nil:
		return sf.placeBlock(j, k, capacities, round, rounds, ready, from)
	case j.Levels != nil:
		return sf.placeContiguousByLevel(j, k, capacities, round, rounds, from)
	}
	hold := rounds * j.Dur[k]
	start := sf.earliest(j, k, sf.capacityOf(k, capacities), from, hold)
	if start == Never {
		return 0, false
	}
	sf.appendOnNodes(k, j, sf.Nodes.Chosen, round, rounds, start, start+hold)
	return start + hold, true
}

// placeRoundByRound places every round on the type of the set where the round ends
// first. The result is the earliest completion over the set, because a round that ends
// earlier never delays the next one. A run stays on its type while its GPUs are free and
// until a faster type would end the next round earlier; the cost therefore grows with
// the steps of the capacities and not with the rounds.
func (sf *Finder) placeRoundByRound(j *Job, ready int64, types []int16,
	capacities []Capacity) (end int64, ok bool) {
	if (j.Levels != nil || j.Setups != nil) && sf.Nodes != nil {
		return sf.placeRoundByRoundByLevel(j, ready, types, capacities)
	}
	t, round := ready, int64(0)
	for i := range types {
		sf.slots[i].start = -1
	}
	for round < j.Rounds {
		best, bestEnd := -1, Never
		for i, k := range types {
			o, d := &sf.slots[i], j.Dur[k]
			if o.start < t {
				if o.start >= 0 && t+d <= o.freeUntil {
					o.start = t
				} else {
					sf.findSlot(o, j, k, sf.capacityOf(k, capacities), t, d, j.Rounds-round)
				}
			}
			if o.start == Never {
				continue
			}
			if e := o.start + d; e < bestEnd || e == bestEnd && d < j.Dur[types[best]] {
				best, bestEnd = i, e
			}
		}
		if best < 0 {
			return 0, false
		}
		o, d := &sf.slots[best], j.Dur[types[best]]
		n := j.Rounds - round
		if o.freeUntil != Never {
			n = min(n, (o.freeUntil-o.start)/d)
		}
		for i, k := range types {
			// The run stays while a round here ends no later than a round on the faster type.
			if f := &sf.slots[i]; i != best && j.Dur[k] < d && f.start != Never {
				n = min(n, max(1, (f.start+j.Dur[k]-o.start)/d))
			}
		}
		t = o.start + n*d
		if sf.Nodes != nil {
			sf.appendOnNodes(types[best], j, o.chosen, round, n, o.start, t)
		} else {
			sf.appendSegment(types[best], j.Shape, len(capacities[types[best]]), o.width, round, n, o.start, t)
		}
		round += n
	}
	return t, true
}

// Forget must be called when GPUs of a column become free.
func (sf *Finder) Forget(column int16) {
	if sf.Nodes != nil {
		sf.Nodes.forget(column)
	}
}

// capacityOf returns the capacity in which type k is.
func (sf *Finder) capacityOf(k int16, capacities []Capacity) Capacity {
	if sf.Nodes != nil {
		k = sf.Nodes.layout.Column[k]
	}
	return capacities[k]
}

// findOnNodes is findSlot on nodes.
func (sf *Finder) findOnNodes(o *typeSlot, j *Job, k int16, tc Capacity, t, hold, rounds int64) {
	o.start, o.freeUntil = sf.Nodes.Earliest(j, k, tc, t, hold, hold*rounds), Never
	if o.start == Never {
		return
	}
	o.chosen = append(o.chosen[:0], sf.Nodes.Chosen...)
	o.freeUntil = sf.chosenUntil(j, k, tc, o.chosen, o.start)
}

// chosenUntil returns the time until which a round of job j on chosen nodes can stay from start on.
func (sf *Finder) chosenUntil(j *Job, k int16, tc Capacity, chosen []NodeTasks, start int64) int64 {
	until := Never
	for _, c := range chosen {
		until = min(until, sf.Nodes.FreeUntil(j, k, tc, c.Pool, int64(c.tasks), start))
	}
	return min(until, sf.Nodes.quotaUntil(j, k, tc, j.Width, start))
}

// appendOnNodes appends a run of rounds on the nodes of chosen.
func (sf *Finder) appendOnNodes(k int16, j *Job, chosen []NodeTasks, round, rounds, start, end int64) {
	last := len(sf.Segments) - len(chosen)
	same := last >= 0
	for i := 0; same && i < len(chosen); i++ {
		s := &sf.Segments[last+i]
		same = s.Type == k && s.Shape == j.Shape && s.End == start && s.Pool == chosen[i].Pool &&
			int64(s.Width) == int64(chosen[i].tasks)*j.GPUs && (i > 0 || s.Round+s.Rounds == round)
	}
	if same {
		for i := range chosen {
			sf.Segments[last+i].Rounds += rounds
			sf.Segments[last+i].End = end
		}
		return
	}
	for _, c := range chosen {
		sf.Segments = append(sf.Segments, Segment{Type: k, Shape: j.Shape, Pool: c.Pool,
			Width: int64(c.tasks) * j.GPUs, Round: round, Rounds: rounds, Start: start, End: end})
	}
}

// findSlot searches the earliest slot of type k from t on, for at most so many rounds of job
// j of length hold.
func (sf *Finder) findSlot(o *typeSlot, j *Job, k int16, tr Capacity, t, hold, rounds int64) {
	if sf.Nodes != nil {
		sf.findOnNodes(o, j, k, tr, t, hold, rounds)
		return
	}
	need := j.Width
	if len(tr) == 1 {
		start, i := sf.earliestInPool(k, tr[0], t, hold, need)
		o.start, o.freeUntil, o.width[0] = start, Never, need
		if start != Never {
			o.freeUntil = tr[0].FreeUntil(i, need)
		}
		return
	}
	o.start = sf.earliest(j, k, tr, t, hold)
	if o.start == Never {
		return
	}
	copy(o.width, sf.width)
	o.freeUntil = Never
	for i, s := range tr {
		if w := o.width[i]; w > 0 {
			o.freeUntil = min(o.freeUntil, s.FreeUntil(sf.steps[i], w))
		}
	}
}

// placeReshaped places the second part of a plan of job j whose first part, in another shape, ends at end.
func (sf *Finder) placeReshaped(j *Job, plan *JobPlan, capacities []Capacity, ready, end int64) (int64,
	bool) {
	then := j.Form(plan.Then)
	return sf.placeAfter(then, plan.Types[1], capacities, plan.Rounds, then.roundsAfter(j, plan.Rounds), ready,
		end+j.ReshapeUs)
}

// EarliestAfterSetup returns the earliest start of a block of job j on type k that lasts hold and whose
// setup begins at from or later, as Finder.earliest. Where stay > hold, nodes on which the tasks
// could stay longer are preferred.
func (sf *Finder) EarliestAfterSetup(j *Job, k int16, tc Capacity, from, hold, stay int64) int64 {
	if j.Setups == nil || sf.Nodes == nil {
		return sf.earliest(j, k, tc, from, hold)
	}
	ns, setup := sf.Nodes, j.Setup(k)
	if ns.Lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.Earliest(j, k, tc, from, hold+setup, stay)
	if ns.Lead = 0; t == Never {
		return Never
	}
	return t + setup
}

// earliestWithinAfterSetup is earliestAfterSetup within one domain of a level.
func (sf *Finder) earliestWithinAfterSetup(j *Job, k int16, level int, tc Capacity, from, hold,
	stay int64) int64 {
	ns, setup := sf.Nodes, j.Setup(k)
	if ns.Lead = setup; stay > 0 {
		stay += setup
	}
	t := ns.earliestWithin(j, k, level, tc, from, hold+setup, stay)
	if ns.Lead = 0; t == Never {
		return Never
	}
	return t + setup
}

// meetsOwn reports whether a block of the job on chosen nodes that takes its GPUs from t on meets the
// blocks before it, which are in sf.segments and which the capacities do not know yet.
func (sf *Finder) meetsOwn(k int16, chosen []NodeTasks, t int64) bool {
	return slices.ContainsFunc(sf.Segments, func(s Segment) bool {
		return s.Type == k && s.End > t && slices.ContainsFunc(chosen, func(c NodeTasks) bool { return c.Pool == s.Pool })
	})
}

// earliestStay returns the earliest start from on of a block that lasts hold and stays where job j runs at
// time 0, or never.
func (sf *Finder) earliestStay(j *Job, capacities []Capacity, from, hold int64) int64 {
	rp, ns := j.runs, sf.Nodes
	if rp == nil || j.Dur[rp.typ] == 0 {
		return Never
	}
	tc := sf.capacityOf(rp.typ, capacities)
	start := max(from, rp.until)
	for again := true; again && start != Never; {
		before := start
		for _, c := range rp.chosen {
			pool := &ns.layout.Pools[rp.typ][c.Pool]
			if start != Never {
				start = ns.earliestTasks(j, pool, tc, start, hold, int64(c.tasks))
			}
		}
		for _, q := range j.Quotas {
			if start != Never && ns.layout.M.Quotas[q].Types[rp.typ] {
				start, _ = tc[ns.layout.Quota[q]].earliest(start, hold, j.Width)
			}
		}
		again = start != before
	}
	if start == Never {
		return Never
	}
	for _, c := range rp.chosen {
		pool := &ns.layout.Pools[rp.typ][c.Pool]
		if tc[pool.GPUs].MinFree(rp.until, start+hold) < int64(c.tasks)*j.GPUs {
			return Never
		}
	}
	return start
}

// appendBlock appends a run of rounds with a setup before it, as appendOnNodes.
func (sf *Finder) appendBlock(k int16, j *Job, chosen []NodeTasks, round, rounds, start, end int64) {
	n := len(sf.Segments)
	sf.appendOnNodes(k, j, chosen, round, rounds, start, end)
	for x := n; x < len(sf.Segments); x++ {
		sf.Segments[x].Lead = j.Setup(k)
	}
}

// appendStay appends a run of rounds where the job runs at time 0.
func (sf *Finder) appendStay(j *Job, round, rounds, start, end int64) {
	n := len(sf.Segments)
	sf.appendOnNodes(j.runs.typ, j, j.runs.chosen, round, rounds, start, end)
	for x := n; x < len(sf.Segments); x++ {
		sf.Segments[x].Lead, sf.Segments[x].stays = start-j.runs.until, true
	}
}

// placeBlock is placeContiguous for a job with setups. No setup begins before ready, and the rounds start
// at from or later.
func (sf *Finder) placeBlock(j *Job, k int16, capacities []Capacity, round, rounds, ready,
	from int64) (end int64, ok bool) {
	var stay, us int64 = Never, 0
	if j.runs != nil && j.runs.typ == k && round == 0 {
		us = j.runs.roundUs(j)
		stay = sf.earliestStay(j, capacities, from, rounds*us)
	}
	tc := sf.capacityOf(k, capacities)
	find := func(taken int64) (start, d int64) {
		if j.Levels != nil {
			return sf.EarliestByLevel(j, k, tc, taken, rounds)
		}
		return sf.EarliestAfterSetup(j, k, tc, taken, rounds*j.Dur[k], 0), j.Dur[k]
	}
	chosen := func() []NodeTasks {
		if j.Levels != nil {
			return sf.together
		}
		return sf.Nodes.Chosen
	}
	taken := max(ready, from-j.Setup(k))
	start, d := find(taken)
	if start != Never && taken < from && sf.meetsOwn(k, chosen(), start-j.Setup(k)) {
		start, d = find(from)
	}
	if stay != Never && (start == Never || stay+rounds*us <= start+rounds*d) {
		sf.appendStay(j, round, rounds, stay, stay+rounds*us)
		return stay + rounds*us, true
	}
	if start == Never {
		return 0, false
	}
	sf.appendBlock(k, j, chosen(), round, rounds, start, start+rounds*d)
	return start + rounds*d, true
}

// placeContiguousByLevel is placeContiguous for a job to which levels matter: within the domain
// in which the rounds end first.
func (sf *Finder) placeContiguousByLevel(j *Job, k int16, capacities []Capacity, round, rounds,
	from int64) (end int64, ok bool) {
	start, us := sf.EarliestByLevel(j, k, sf.capacityOf(k, capacities), from, rounds)
	if start == Never {
		return 0, false
	}
	sf.appendOnNodes(k, j, sf.together, round, rounds, start, start+rounds*us)
	return start + rounds*us, true
}

// EarliestByLevel returns the start at which so many rounds of job j end first on type k, and the
// time of a round there. It leaves their nodes in sf.together.
func (sf *Finder) EarliestByLevel(j *Job, k int16, tc Capacity, from, rounds int64) (start, us int64) {
	start = Never
	for _, lt := range j.Levels.times[k] {
		if start != Never && from+j.Setup(k)+rounds*lt.us >= start+rounds*us {
			continue
		}
		s := sf.earliestWithinAfterSetup(j, k, lt.level, tc, from, rounds*lt.us, 0)
		if s == Never {
			continue
		}
		// The nodes may be nearer to each other than was asked for.
		if d := j.Levels.RoundUs(k, sf.Nodes.spread(j.Levels, k)); start == Never || s+rounds*d < start+rounds*us {
			start, us = s, d
			sf.together = append(sf.together[:0], sf.Nodes.Chosen...)
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
func (sf *Finder) placeRoundByRoundByLevel(j *Job, ready int64, types []int16,
	capacities []Capacity) (end int64, ok bool) {
	n := 0
	for _, k := range types {
		times := []levelTime{{0, j.Dur[k]}}
		if j.Levels != nil {
			times = j.Levels.times[k]
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
	for round < j.Rounds {
		var best *levelSlot
		bestEnd := Never
		for i := range slots {
			o := &slots[i]
			if o.runs && round > 0 && o != last {
				o.start = Never // the job has left the place
				continue
			}
			if o.start < t || o != last && sf.meetsOwnBefore(j, o) {
				if o.start >= 0 && t+o.us <= o.freeUntil && (j.Setups == nil || o == last) {
					o.start = t
				} else if !o.runs {
					sf.findWithin(o, j, sf.capacityOf(o.typ, capacities), ready, t, j.Rounds-round)
				} else if o.start = Never; round == 0 {
					sf.findStay(o, j, capacities, t)
				}
			}
			if o.start != Never && (o.start+o.us < bestEnd || o.start+o.us == bestEnd && o.us < best.us) {
				best, bestEnd = o, o.start+o.us
			}
		}
		if best == nil {
			return 0, false
		}
		runs := j.Rounds - round
		if best.freeUntil != Never {
			runs = min(runs, (best.freeUntil-best.start)/best.us)
		}
		for i := range slots {
			// The run stays while a round here ends no later than a shorter round elsewhere.
			if f := &slots[i]; f.start != Never && f.us < best.us {
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
func (sf *Finder) findWithin(o *levelSlot, j *Job, tc Capacity, ready, t, rounds int64) {
	ns := sf.Nodes
	setup := j.Setup(o.typ)
	find := func(from int64) int64 {
		if j.Levels == nil {
			return sf.EarliestAfterSetup(j, o.typ, tc, from, o.time.us, o.time.us*rounds)
		}
		return sf.earliestWithinAfterSetup(j, o.typ, o.time.level, tc, from, o.time.us, o.time.us*rounds)
	}
	taken := max(ready, t-setup)
	o.start = find(taken)
	if o.start != Never && taken < t && sf.meetsOwn(o.typ, ns.Chosen, o.start-setup) {
		o.start = find(t)
	}
	if o.start == Never {
		return
	}
	o.chosen = append(o.chosen[:0], ns.Chosen...)
	o.freeUntil = sf.chosenUntil(j, o.typ, tc, o.chosen, o.start)
	if o.us = o.time.us; j.Levels != nil {
		o.us = j.Levels.RoundUs(o.typ, ns.spread(j.Levels, o.typ))
	}
}

// meetsOwnBefore reports whether the setup of a slot that was found before the last rounds got their
// place meets them.
func (sf *Finder) meetsOwnBefore(j *Job, o *levelSlot) bool {
	return j.Setups != nil && !o.runs && o.start != Never && sf.meetsOwn(o.typ, o.chosen, o.start-j.Setup(o.typ))
}

// findStay searches a slot for the first round where the job runs at time 0.
func (sf *Finder) findStay(o *levelSlot, j *Job, capacities []Capacity, t int64) {
	if o.start = sf.earliestStay(j, capacities, t, o.us); o.start == Never {
		return
	}
	o.chosen = append(o.chosen[:0], j.runs.chosen...)
	o.freeUntil = sf.chosenUntil(j, o.typ, sf.capacityOf(o.typ, capacities), o.chosen, o.start)
}
