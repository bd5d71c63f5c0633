package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// levelTime says how long a round takes on a type within one domain of a level.
type levelTime struct {
	level int
	us    int64
}

// jobLevels are the levels of a gang or rigid job whose rounds must keep together, or take longer
// where they are spread.
type jobLevels struct {
	levels *hare.Levels
	within int
	// times has the levels in one domain of which a round may be placed, from fine to coarse,
	// by type: those that shorten a round, and within. It is nil where the job cannot run.
	times [][]levelTime
}

// levelsOf returns nil where levels do not matter to job i. A round of a single task is on one
// node, so that they matter only to its time, which roundUs returns.
func levelsOf(m *model.Model, i int) *jobLevels {
	j := &m.Jobs[i]
	if m.Levels == nil || j.Sync == hare.Relaxed || j.Tasks == 1 {
		return nil
	}
	spreads := slices.ContainsFunc(j.Modes, func(md model.Mode) bool { return md.SyncByLevel != nil })
	if j.Within == m.Levels.Any() && !spreads {
		return nil
	}
	jl := &jobLevels{levels: m.Levels, within: j.Within, times: make([][]levelTime, len(m.Types))}
	for _, md := range j.Modes {
		for _, level := range j.LevelModes(md) {
			jl.times[md.Type] = append(jl.times[md.Type], levelTime{level, md.ComputeUs + md.SyncAtUs(level)})
		}
	}
	return jl
}

// roundUs returns how long a round of a job takes where nothing says how far it is spread: the
// longest time, or that of one node if there is a single task.
func roundUs(j *model.Job, md model.Mode) int64 {
	if j.Tasks == 1 {
		return leastRoundUs(md)
	}
	return md.DurationUs()
}

// leastRoundUs returns how long a round takes where it is least spread.
func leastRoundUs(md model.Mode) int64 { return md.ComputeUs + md.SyncAtUs(0) }

// roundUs returns how long a round takes on a type that is spread over a level.
func (jl *jobLevels) roundUs(k int16, spread int) int64 {
	times := jl.times[k]
	for _, lt := range times {
		if lt.level >= spread {
			return lt.us
		}
	}
	return times[len(times)-1].us
}

// allLevels returns the levels that shorten a round on some type, and within, from fine to coarse.
func (jl *jobLevels) allLevels(types []int16) []int {
	var levels []int
	for _, k := range types {
		for _, lt := range jl.times[k] {
			levels = append(levels, lt.level)
		}
	}
	slices.Sort(levels)
	return slices.Compact(levels)
}

// domainsOf returns the domain of each node at a level, and their number; nil stands for one
// domain of all nodes.
func (nl *nodeLayout) domainsOf(level int) (domains []int32, count int) {
	lv := nl.m.Levels
	if lv == nil || level == lv.Any() {
		return nil, 1
	}
	return nl.domains[level], lv.Domains(level)
}

// addDomains finds the domains of the nodes.
func (nl *nodeLayout) addDomains() {
	if nl.m.Levels == nil {
		return
	}
	for level := range nl.m.Levels.Any() {
		at := make([]int32, len(nl.m.Nodes))
		for n := range at {
			at[n] = int32(nl.m.Levels.Domain(level, n))
		}
		nl.domains = append(nl.domains, at)
	}
}

// earliestWithin is earliest for tasks that are in one domain of a level.
func (ns *nodeSlots) earliestWithin(j *annealJob, k int16, level int, tc typeCapacity, from, hold, stay int64) int64 {
	var count int
	if ns.domains, count = ns.layout.domainsOf(level); ns.domains != nil {
		if len(ns.totals) < count {
			ns.totals = make([]int64, count)
		}
		clear(ns.totals)
	}
	t := ns.earliest(j, k, tc, from, hold, stay)
	ns.domains = nil
	return t
}

// addRoom adds room to the domain of a node. It returns the change of the tasks that find room in
// full domains, those with room for all tasks, where each counts for just these.
func (ns *nodeSlots) addRoom(node int32, room, tasks int64) int64 {
	d := ns.domains[node]
	before := ns.totals[d]
	ns.totals[d] += room
	switch after := ns.totals[d]; {
	case before < tasks && after >= tasks:
		return tasks
	case before >= tasks && after < tasks:
		return -tasks
	}
	return 0
}

// fullestDomain returns the domain with the least room among those with room for all tasks.
func (ns *nodeSlots) fullestDomain(tasks int64) int32 {
	best := int32(-1)
	for d, room := range ns.totals {
		if room >= tasks && (best < 0 || room < ns.totals[best]) {
			best = int32(d)
		}
	}
	return best
}

// spread returns the finest level that holds the chosen nodes of a type in one domain.
func (ns *nodeSlots) spread(jl *jobLevels, k int16) int {
	level, pools := 0, ns.layout.pools[k]
	for _, c := range ns.chosen[1:] {
		level = jl.levels.Join(level, int(pools[ns.chosen[0].pool].node), int(pools[c.pool].node))
	}
	return level
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

// leastByLevel returns the shortest time of a round of job j on type k on an empty cluster, as if
// GPUs were single; 0 means that there is never room.
func (aj *annealJob) leastByLevel(m *model.Model, k int16) int64 {
	for _, lt := range aj.levels.times[k] {
		if m.LevelRoom(&m.Jobs[aj.index], []int{int(k)}, lt.level) >= aj.tasks {
			return lt.us
		}
	}
	return 0
}

// earliestMixedByLevel is earliestMixed for a gang to which levels matter: in the domain in which
// a round ends first. It also returns how long the round takes there.
func (nb *nodeBoard) earliestMixedByLevel(i int, types []int16, t int64) (start, until, hold int64, at []Block) {
	jl := nb.jobs[i].levels
	start = never
	longest := func(used []int16, level int) (us int64) {
		for _, k := range used {
			us = max(us, jl.roundUs(k, level))
		}
		return us
	}
	setup := nb.jobs[i].longestSetup(types)
	for _, level := range jl.allLevels(types) {
		us := longest(types, level)
		domains, count := nb.layout.domainsOf(level)
		for d := range count {
			var in func(int) bool
			if domains != nil {
				in = func(n int) bool { return domains[n] == int32(d) }
			}
			s, u, blocks := nb.earliestMixed(i, types, t, us+setup, in)
			if s == never {
				continue
			}
			s += setup
			// The round may use fewer types, or nodes that are nearer to each other.
			spread := 0
			var used []int16
			for _, b := range blocks {
				spread = jl.levels.Join(spread, int(blocks[0].Node), int(b.Node))
				used = append(used, int16(nb.m.Classes[b.Class].Type))
			}
			if real := longest(used, spread); start == never || s+real < start+hold {
				start, until, hold, at = s, u, real, blocks
			}
		}
	}
	return start, until, hold, at
}
