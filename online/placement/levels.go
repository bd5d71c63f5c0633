package placement

import (
	"github.com/hare-sched/hare"
)

// The levels of a cluster (docs/reference/model.md) are numbered from fine to coarse as in hare.Levels.

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
