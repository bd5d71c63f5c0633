package solver

import (
	"slices"

	"github.com/hare-sched/hare"
)

// pastRounds finds when the rounds of a job of the previous instance start and end.
type pastRounds struct {
	job     *hare.Job
	entries []gpuEntry
	levels  *hare.Levels
	spreads map[int64]int // by unit
}

func (dr *deriver) rounds(j *hare.Job, entries []gpuEntry) pastRounds {
	return pastRounds{j, entries, dr.levels, map[int64]int{}}
}

// profileOf returns the times of a job in one of its shapes on a type.
func profileOf(j *hare.Job, shape int64, kind string) hare.Profile {
	if int(shape) >= j.ShapeCount() {
		return hare.Profile{}
	}
	for _, p := range j.Shape(int(shape)).On {
		if p.Type == kind {
			return p
		}
	}
	return hare.Profile{}
}

// startOf returns when round n of the entry, counted from 0, starts.
func startOf(e *gpuEntry, n int64) int64 { return e.StartUs + n*e.PeriodUs }

// counts returns how many units a round of the entry does.
func (pr *pastRounds) counts(e *gpuEntry) int64 { return pr.job.Shape(int(e.Shape)).Counts }

// round returns which round of the entry, counted from 0, does a unit.
func (pr *pastRounds) round(e *gpuEntry, unit int64) (n int64, ok bool) {
	n = (unit - e.Round) / pr.counts(e)
	return n, unit >= e.Round && n < e.Rounds
}

// spread returns the finest level that holds the tasks of the round of a unit in one domain. It
// takes O(entries) for each unit.
func (pr *pastRounds) spread(unit int64) int {
	if level, known := pr.spreads[unit]; known {
		return level
	}
	level, first := 0, -1
	for x := range pr.entries {
		e := &pr.entries[x]
		if _, ok := pr.round(e, unit); !ok {
			continue
		}
		if first < 0 {
			first = e.node
		}
		level = pr.levels.Join(level, first, e.node)
	}
	pr.spreads[unit] = level
	return level
}

// end returns when all tasks of the round of a unit have synchronised; 0 without tasks.
func (pr *pastRounds) end(unit int64) (end int64) {
	spread := pr.spread(unit)
	for x := range pr.entries {
		e := &pr.entries[x]
		if n, ok := pr.round(e, unit); ok {
			p := profileOf(pr.job, e.Shape, e.kind)
			end = max(end, startOf(e, n)+e.Tasks*p.ComputeUs+pr.levels.SyncUs(&p, spread))
		}
	}
	return end
}

// lastStarted returns the first unit of the last round with a task that starts before at, and the
// shape of the round; −1 if there is none.
func (pr *pastRounds) lastStarted(at int64) (unit, shape int64) {
	unit = -1
	for x := range pr.entries {
		e := &pr.entries[x]
		if e.StartUs >= at {
			continue
		}
		n := int64(1)
		if e.PeriodUs > 0 {
			n = min(e.Rounds, (at-e.StartUs+e.PeriodUs-1)/e.PeriodUs)
		}
		if last := e.Round + (n-1)*pr.counts(e); last > unit {
			unit, shape = last, e.Shape
		}
	}
	return unit, shape
}

// sameDomains reports whether a node of the previous instance has the place in the topology that a
// node of the whole has.
func (dr *deriver) sameDomains(before, now int) bool {
	a, b := &dr.before.Cluster, &dr.whole.Cluster
	return slices.Equal(a.Topology, b.Topology) && !slices.ContainsFunc(a.Topology, func(label string) bool {
		was, _ := a.Nodes[before].Label(label)
		is, _ := b.Nodes[now].Label(label)
		return was != is
	})
}
