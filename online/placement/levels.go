package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// The levels of a cluster (docs/reference/model.md) are numbered from fine to coarse as in hare.Levels.
// Nodes come and go here, so the domains of a label are numbered as they come, and a number is
// given again when the last node of a domain has left. No answer depends on these numbers.

// domains are the domains of the labels of a topology.
type domains struct {
	topology []string // coarse ones first
	levels   *hare.Levels
	of       map[string]int32 // by level, and values of the label and all coarser ones
	keys     []string         // by number; vacant ones are ""
	nodes    []int            // by number, how many nodes are in the domain
	vacant   []int32
}

func newDomains(topology []string) domains {
	return domains{topology: topology, levels: hare.NewLevels(&hare.Cluster{Topology: topology}), of: map[string]int32{}}
}

// SetTopology says by which labels nodes are near each other, coarse ones first, before the first
// GPU joins. Every node that joins has all of them.
func (ns *Nodes) SetTopology(labels []string) { ns.domains = newDomains(labels) }

// join finds the domains of a node, the finest level first.
func (do *domains) join(spec *hare.Node) []int32 {
	if len(do.topology) == 0 {
		return nil
	}
	of, key := make([]int32, len(do.topology)), ""
	for i, label := range do.topology {
		value, _ := spec.Label(label)
		key += strconv.Quote(value)
		d, known := do.of[key]
		if !known {
			d = int32(len(do.keys))
			if last := len(do.vacant) - 1; last >= 0 {
				d, do.vacant = do.vacant[last], do.vacant[:last]
			} else {
				do.keys, do.nodes = append(do.keys, ""), append(do.nodes, 0)
			}
			do.of[key], do.keys[d] = d, key
		}
		do.nodes[d]++
		of[len(of)-1-i] = d
	}
	return of
}

// leave forgets the domains of a node that leaves, where it was their last one.
func (do *domains) leave(of []int32) {
	for _, d := range of {
		if do.nodes[d]--; do.nodes[d] == 0 {
			delete(do.of, do.keys[d])
			do.keys[d] = ""
			do.vacant = append(do.vacant, d)
		}
	}
}

// UsesLevels reports whether the tasks of a job keep within a level, or its times go by their spread.
func UsesLevels(j *hare.Job) bool {
	return j.Within != "" || slices.ContainsFunc(j.On, func(p hare.Profile) bool { return p.SyncAt != nil })
}

// levelsOf are the levels by which places for a job are chosen, ascending: those at which a round
// is shorter than at the next coarser one, and within. It is nil where the tasks may be on any nodes,
// and their spread does not count.
func levelsOf(lv *hare.Levels, j *hare.Job) (levels []int) {
	within, _ := lv.Index(j.Within)
	for level := range within {
		if slices.ContainsFunc(j.On, func(p hare.Profile) bool {
			return lv.SyncUs(&p, level) < lv.SyncUs(&p, level+1)
		}) {
			levels = append(levels, level)
		}
	}
	if levels == nil && within == lv.Any() {
		return nil
	}
	return append(levels, within)
}

// LevelNames are the names of levelsOf for a cluster with a topology.
func LevelNames(topology []string, j *hare.Job) (names []string) {
	lv := hare.NewLevels(&hare.Cluster{Topology: topology})
	for _, level := range levelsOf(lv, j) {
		names = append(names, lv.Names[level])
	}
	return names
}

// within is the level of which one domain holds all tasks; there must be levels.
func (sh *shape) within() int { return sh.levels[len(sh.levels)-1] }

// withinOf is within, or the coarsest level.
func (ns *Nodes) withinOf(sh *shape) int {
	if sh.levels == nil {
		return ns.domains.levels.Any()
	}
	return sh.within()
}

// domain is the domain of a node at a level.
func (ns *Nodes) domain(level int, n int32) int32 {
	switch {
	case level == 0:
		return n
	case level > len(ns.domains.topology):
		return 0
	}
	return ns.nodes[n].domains[level-1]
}

// domainCount is more than every domain of a level.
func (ns *Nodes) domainCount(level int) int {
	switch {
	case level == 0:
		return len(ns.nodes)
	case level > len(ns.domains.topology):
		return 1
	}
	return len(ns.domains.keys)
}

// domainSums adds up the room of nodes by domain of a level.
type domainSums struct {
	ns       *Nodes
	level    int
	sums     []int64 // nil for the coarsest level
	greatest int64
}

func (ns *Nodes) newDomainSums(level int) domainSums {
	ds := domainSums{ns: ns, level: level}
	if level < ns.domains.levels.Any() {
		ds.sums = make([]int64, ns.domainCount(level))
	}
	return ds
}

func (ds *domainSums) add(n int32, room int64) {
	if ds.sums == nil {
		ds.greatest += room
		return
	}
	sum := &ds.sums[ds.ns.domain(ds.level, n)]
	*sum += room
	ds.greatest = max(ds.greatest, *sum)
}

// roomWithin is the most tasks of a shape that fit on free GPUs of a type in one domain of the
// level within.
func (ns *Nodes) roomWithin(s Shape, gpuType int, avoid Avoid) int64 {
	sh := &ns.shapes[s]
	most := ns.newDomainSums(sh.within())
	for n := range ns.nodes {
		x := &ns.nodes[n]
		at, ok := x.find(gpuType)
		if !ok || int64(len(x.types[at].free)) < sh.gpus || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
			continue
		}
		most.add(int32(n), sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB))
	}
	return most.greatest
}

// domainRoom is the room in a domain.
type domainRoom struct {
	tasks, free int64 // free counts GPUs
	first       int32 // the least free GPU
}

// fuller reports whether a domain is fuller than another one, both with room.
func (dr *domainRoom) fuller(o *domainRoom) bool {
	return cmp.Or(cmp.Compare(dr.free, o.free), cmp.Compare(dr.first, o.first)) < 0
}

// roomsAt are the rooms of nodes by domain of a level.
func (ns *Nodes) roomsAt(level int, all []candidate) []domainRoom {
	ns.rooms = append(ns.rooms[:0], make([]domainRoom, ns.domainCount(level))...)
	for i := range all {
		c := &all[i]
		x := &ns.rooms[ns.domain(level, c.node)]
		if x.tasks == 0 || c.first < x.first {
			x.first = c.first
		}
		x.tasks += c.room
		x.free += c.free
	}
	return ns.rooms
}

// inOneDomain keeps the candidates in the fullest domain with room for all tasks, of the first of
// some levels that has one; nil where none has.
func (ns *Nodes) inOneDomain(all []candidate, levels []int, tasks int64) []candidate {
	for _, level := range levels {
		rooms, best := ns.roomsAt(level, all), -1
		for d := range rooms {
			if rooms[d].tasks >= tasks && (best < 0 || rooms[d].fuller(&rooms[best])) {
				best = d
			}
		}
		if best >= 0 {
			return slices.DeleteFunc(all, func(c candidate) bool { return ns.domain(level, c.node) != int32(best) })
		}
	}
	return nil
}

// pickMixedAt is PickMixed for a gang with levels. It takes O(nodes log nodes) for each domain that
// may have room.
func (ns *Nodes) pickMixedAt(s Shape, types []int, tasks int64, avoid Avoid) []int {
	sh := &ns.shapes[s]
	for _, level := range sh.levels {
		rooms := make([]domainRoom, ns.domainCount(level))
		for n := range ns.nodes {
			x := &ns.nodes[n]
			if x.gpus == 0 || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
				continue
			}
			for at := range x.types {
				free := x.types[at].free
				if len(free) == 0 || !slices.Contains(types, x.types[at].gpuType) {
					continue
				}
				r := &rooms[ns.domain(level, int32(n))]
				if r.free == 0 || free[0] < r.first {
					r.first = free[0]
				}
				r.free += int64(len(free))
				r.tasks += sh.room(x, int64(len(free)), x.cpuMilli, x.memoryMiB)
			}
		}
		var order []int
		for d := range rooms {
			if rooms[d].tasks >= tasks {
				order = append(order, d)
			}
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(rooms[a].free, rooms[b].free), cmp.Compare(rooms[a].first, rooms[b].first))
		})
		for _, d := range order {
			outside := func(n int32) bool { return ns.domain(level, n) != int32(d) || avoid != nil && avoid(n) }
			if gpus := ns.pickMixed(s, types, tasks, outside); gpus != nil {
				return gpus
			}
		}
	}
	return nil
}

// Apart is the finest level of which one domain has two nodes.
func (ns *Nodes) Apart(a, b int32) (level int) {
	for ns.domain(level, a) != ns.domain(level, b) {
		level++
	}
	return level
}

// Spread is the finest level of which one domain has all of some GPUs.
func (ns *Nodes) Spread(gpus []int) (spread int) {
	for _, g := range gpus {
		for ns.domain(spread, ns.gpus[gpus[0]].node) != ns.domain(spread, ns.gpus[g].node) {
			spread++
		}
	}
	return spread
}

// SyncUs is the time of synchronisation of a round that is spread over a level.
func (ns *Nodes) SyncUs(p *hare.Profile, spread int) int64 {
	return ns.domains.levels.SyncUs(p, spread)
}

// LeastSyncUs is the time of synchronisation of a round of so many tasks of a shape on the GPUs of a
// type if all GPUs in service were free: at the finest level that has room then, or within.
func (ns *Nodes) LeastSyncUs(s Shape, p *hare.Profile, gpuType int, tasks int64) int64 {
	sh := &ns.shapes[s]
	if p.SyncAt == nil || sh.levels == nil {
		return p.SyncUs
	}
	for _, level := range sh.levels[:len(sh.levels)-1] {
		if ns.mostAt(sh, gpuType, level) >= tasks {
			return ns.domains.levels.SyncUs(p, level)
		}
	}
	return ns.domains.levels.SyncUs(p, sh.within())
}
