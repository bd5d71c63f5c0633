package plot

import (
	"cmp"
	"slices"

	hare "github.com/hare-sched/hare"
)

// roundHold is how long rounds hold their GPUs, from the unit from on up to the next roundHold
// of the job. The spread is a level of hare.Levels.
type roundHold struct {
	from   int64
	spread int
	holdUs int64
}

// setHolds sets the spread of the spans of gang and rigid jobs, and how long they hold their
// GPUs: every GPU of a round is held until the slowest type of the round has synchronised, and
// the time of synchronisation may go by spread. Spans in which this changes are split. It takes
// O(S log S · levels) for S spans.
func (s *scene) setHolds() {
	byJob := make([][]place, len(s.inst.Jobs))
	spreads := make([]bool, len(s.inst.Jobs))
	for i := range s.inst.Jobs {
		spreads[i] = s.spreads(&s.inst.Jobs[i])
	}
	for l := range s.lanes {
		for k := range s.lanes[l].spans {
			if job := s.lanes[l].spans[k].job; spreads[job] || s.inst.Jobs[job].Mix {
				byJob[job] = append(byJob[job], place{l, k})
			}
		}
	}
	split, spans := false, 0
	holds := make([][]roundHold, len(byJob))
	for job, places := range byJob {
		if len(places) > 0 {
			holds[job] = s.holdsOf(&s.inst.Jobs[job], places, spreads[job])
			split = split || len(holds[job]) > 1
			spans += len(places)
		}
	}
	most := 4*spans + 1000 // pieces; a schedule of many different rounds keeps its spans whole beyond that
	for l := range s.lanes {
		lane := &s.lanes[l]
		if !split {
			for k := range lane.spans {
				lane.spans[k].hold(holds[lane.spans[k].job])
			}
			continue
		}
		var pieces []span
		for _, sp := range lane.spans {
			before := len(pieces)
			pieces = sp.split(pieces, holds[sp.job], most)
			most -= len(pieces) - before
		}
		lane.spans = pieces
	}
}

// place is a span of a lane.
type place struct{ lane, span int }

// spreads reports whether the spread of rounds of a job matters: the cluster has levels between
// nodes and all, or a time of the job goes by spread.
func (s *scene) spreads(j *hare.Job) bool {
	if j.Sync == hare.Relaxed {
		return false
	}
	if len(s.inst.Cluster.Topology) > 0 {
		return true
	}
	for i := range j.ShapeCount() {
		if slices.ContainsFunc(j.Shape(i).On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
			return true
		}
	}
	return false
}

// holdsOf sweeps the units of a job and counts the nodes and types of the rounds that do them.
func (s *scene) holdsOf(j *hare.Job, places []place, spreads bool) []roundHold {
	type edge struct {
		unit int64
		at   place
		end  bool
	}
	edges := make([]edge, 0, 2*len(places))
	for _, at := range places {
		sp := &s.lanes[at.lane].spans[at.span]
		edges = append(edges, edge{unit: sp.round, at: at},
			edge{unit: sp.round + sp.rounds*j.Shape(int(sp.shape)).Counts, at: at, end: true})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.unit, b.unit) })
	nodes := newNodeCount(s.levels)
	kinds := map[[2]int]int{} // spans by shape and type
	var out []roundHold
	for i, e := range edges {
		l := &s.lanes[e.at.lane]
		kind, by := [2]int{int(l.spans[e.at.span].shape), l.typ}, 1
		if e.end {
			by = -1
		}
		if kinds[kind] += by; kinds[kind] == 0 {
			delete(kinds, kind)
		}
		if spreads {
			nodes.add(l.node, by)
		}
		if len(kinds) == 0 || i+1 < len(edges) && edges[i+1].unit == e.unit {
			continue
		}
		h := roundHold{from: e.unit, spread: noSpread}
		if spreads {
			h.spread = nodes.spread()
		}
		for kind := range kinds {
			p, _ := profile(j.Shape(kind[0]).On, s.types[kind[1]])
			if spreads {
				p.SyncUs = s.levels.SyncUs(&p, h.spread)
			}
			h.holdUs = max(h.holdUs, p.DurationUs())
		}
		if n := len(out); n == 0 || out[n-1].spread != h.spread || out[n-1].holdUs != h.holdUs {
			out = append(out, h)
		}
	}
	return out
}

// hold sets how long the rounds of a span hold the GPU, by its first round.
func (sp *span) hold(holds []roundHold) {
	i, found := slices.BinarySearchFunc(holds, sp.round, func(h roundHold, unit int64) int {
		return cmp.Compare(h.from, unit)
	})
	if !found {
		i--
	}
	if i < 0 {
		return
	}
	sp.spread = holds[i].spread
	if sp.running {
		return // its end is known, and a part of its round lies before time 0
	}
	sp.syncUs += holds[i].holdUs - sp.holdUs
	sp.holdUs = holds[i].holdUs
	sp.lastUs = sp.startUs + (sp.rounds-1)*sp.periodUs + sp.holdUs
}

// split appends the pieces of a span in each of which the rounds hold the GPU for the same time,
// and at most most pieces.
func (sp span) split(out []span, holds []roundHold, most int) []span {
	i, _ := slices.BinarySearchFunc(holds, sp.round+1, func(h roundHold, unit int64) int {
		return cmp.Compare(h.from, unit)
	})
	for ; i < len(holds) && most > 1 && sp.rounds > 1 && !sp.running; i++ {
		n := (holds[i].from - sp.round + sp.counts - 1) / sp.counts // rounds before the change
		if n >= sp.rounds {
			break
		}
		first := sp
		first.rounds = n
		first.hold(holds)
		out = append(out, first)
		sp.round += n * sp.counts
		sp.startUs += n * sp.periodUs
		sp.rounds -= n
		most--
	}
	sp.hold(holds)
	return append(out, sp)
}

// nodeCount counts the nodes of a round by the domains of each level.
type nodeCount struct {
	levels *hare.Levels
	counts []map[int]int // by level, spans by domain
}

func newNodeCount(levels *hare.Levels) *nodeCount {
	nc := &nodeCount{levels: levels, counts: make([]map[int]int, len(levels.Names))}
	for i := range nc.counts {
		nc.counts[i] = map[int]int{}
	}
	return nc
}

func (nc *nodeCount) add(node, by int) {
	for level, count := range nc.counts {
		d := nc.levels.Domain(level, node)
		if count[d] += by; count[d] == 0 {
			delete(count, d)
		}
	}
}

// spread returns the finest level that has all nodes in one domain.
func (nc *nodeCount) spread() int {
	for level, count := range nc.counts {
		if len(count) <= 1 {
			return level
		}
	}
	return nc.levels.Any()
}
