package placement

import (
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// Nodes come and go, so the domains of a label are numbered as they come, and a number is given again when the last
// node of a domain has left. No answer depends on these numbers.

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
