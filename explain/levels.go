package explain

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// spreads reports whether rounds of a job take longer where they are spread.
func (v *laneView) spreads(job int) bool {
	j := &v.model.Jobs[job]
	some := func(modes []model.Mode) bool {
		return slices.ContainsFunc(modes, func(md model.Mode) bool { return md.SyncByLevel != nil })
	}
	return j.Sync != hare.Relaxed &&
		(some(j.Modes) || slices.ContainsFunc(j.Shapes, func(s model.Shape) bool { return some(s.Modes) }))
}

// holdBySpread lets the entries of a round last as long as its spread says, and returns the spread.
func (v *laneView) holdBySpread(job int, active []*jobEntry) (level int) {
	if !v.spreads(job) {
		return 0
	}
	for _, p := range active {
		level = v.model.Levels.Join(level, v.model.GPUs[active[0].gpu].Node, v.model.GPUs[p.gpu].Node)
	}
	for _, p := range active {
		md := v.mode(job, p.shape, p.kind)
		p.hold = md.ComputeUs + md.SyncAtUs(level)
		p.end = p.hold
	}
	return level
}

// spreadOf says over which levels the rounds of some runs are spread, from fine to coarse, and by how
// much longer they take than rounds that are spread as little as the cluster allows.
func (v *laneView) spreadOf(job int, runs []roundRun) (out []explaindoc.Spread) {
	if !v.spreads(job) {
		return nil
	}
	for level, name := range v.model.Levels.Names {
		x := explaindoc.Spread{Level: name}
		for i := range runs {
			r := &runs[i]
			if r.spread != level {
				continue
			}
			longest, least := int64(0), int64(0)
			for k := range r.entries {
				longest = max(longest, r.entries[k].end)
				least = max(least, v.leastRound(job, r.shape, r.entries[k].kind))
			}
			x.Rounds += r.rounds
			x.RoundS = max(x.RoundS, hare.Seconds(longest))
			x.MoreS += hare.Seconds(r.rounds * max(0, longest-least))
		}
		if x.Rounds > 0 {
			out = append(out, x)
		}
	}
	return out
}

// leastRound returns how long a round of a job takes on a type where it is spread as little as the empty
// cluster allows.
func (v *laneView) leastRound(job, shape, kind int) int64 {
	j, md := v.jobIn(job, shape), v.mode(job, shape, kind)
	for _, level := range j.LevelModes(md) {
		if v.model.LevelRoom(j, []int{kind}, level) >= j.Tasks {
			return md.ComputeUs + md.SyncAtUs(level)
		}
	}
	return md.ComputeUs + md.SyncAtUs(0)
}

// levelThresholds are the thresholds of a pool for a job to which levels matter: for each level that
// shortens a round, and within, the times that the types need there. levels has the level of each.
func (v *laneView) levelThresholds(job int, p *waitPool) (thresholds []int64, levels []int) {
	j := &v.model.Jobs[job]
	type atLevel struct {
		us    int64
		level int
	}
	var all []atLevel
	for kind := range p.each {
		for _, level := range j.LevelModes(v.modes[job][kind]) {
			for other := range p.each {
				all = append(all, atLevel{v.needAt(job, other, level), level})
			}
		}
	}
	slices.SortFunc(all, func(a, b atLevel) int {
		if a.us != b.us {
			return int(min(1, max(-1, a.us-b.us)))
		}
		return a.level - b.level
	})
	for _, x := range slices.Compact(all) {
		thresholds, levels = append(thresholds, x.us), append(levels, x.level)
	}
	return thresholds, levels
}

// needAt returns for how long a round of a job, or a whole rigid job, needs GPUs of a type within a level.
func (v *laneView) needAt(job, kind, level int) int64 {
	md := v.modes[job][kind]
	need := md.ComputeUs + md.SyncAtUs(min(level, v.model.Jobs[job].Within))
	if v.model.Jobs[job].Sync == hare.Rigid {
		need *= v.model.Jobs[job].Rounds
	}
	return need
}

// byLevels reports whether levels matter to where a job may start.
func (v *laneView) byLevels(job int) bool {
	return v.model.Levels != nil && v.model.Jobs[job].Sync != hare.Relaxed &&
		(v.spreads(job) || v.model.Jobs[job].Within < v.model.Levels.Any())
}

// fullestDomains turns changes of the room on nodes into changes of the room in the domain with the
// most room, by count: count i goes by the domains of levels[i].
func (v *laneView) fullestDomains(changes []nodeChange, levels []int) []levelChange {
	slices.SortStableFunc(changes, func(a, b nodeChange) int { return int(min(1, max(-1, a.at-b.at))) })
	sums := make([]map[int]int64, len(levels))
	most := make([]int64, len(levels))
	for i := range sums {
		sums[i] = map[int]int64{}
	}
	var out []levelChange
	for x := 0; x < len(changes); {
		t := changes[x].at
		for ; x < len(changes) && changes[x].at == t; x++ {
			c := &changes[x]
			sums[c.level-countRoom][v.model.Levels.Domain(levels[c.level-countRoom], c.node)] += c.by
		}
		for i := range sums {
			now := int64(0)
			for _, room := range sums[i] {
				now = max(now, room)
			}
			if now != most[i] {
				out = append(out, levelChange{t, countRoom + i, now - most[i]})
				most[i] = now
			}
		}
	}
	return out
}

// nodeChange is a change of the room on one node.
type nodeChange struct {
	levelChange
	node int
}
