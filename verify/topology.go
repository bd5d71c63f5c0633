package verify

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// topology knows the levels of a cluster and the domains of nodes (docs/reference/model.md).
type topology struct {
	names  []string  // from fine to coarse: node, the labels of the cluster from the last on, any
	domain [][]int32 // by level and node
}

// newTopology takes O(nodes · labels).
func newTopology(c *hare.Cluster) *topology {
	labels, n := c.Topology, len(c.Nodes)
	tp := &topology{names: make([]string, len(labels)+2), domain: make([][]int32, len(labels)+2)}
	any := len(labels) + 1
	tp.names[0], tp.names[any] = "node", "any"
	tp.domain[0], tp.domain[any] = make([]int32, n), make([]int32, n)
	for i := range n {
		tp.domain[0][i] = int32(i)
	}
	for x, label := range labels {
		level := any - 1 - x
		tp.names[level], tp.domain[level] = label, make([]int32, n)
		numbers := map[string]int32{}
		for i := range n {
			at := slices.IndexFunc(c.Nodes[i].Labels, func(l hare.Label) bool { return l.Name == label })
			value := ""
			if at >= 0 {
				value = c.Nodes[i].Labels[at].Value
			}
			key := fmt.Sprint(tp.domain[level+1][i], " ", value)
			number, ok := numbers[key]
			if !ok {
				number = int32(len(numbers))
				numbers[key] = number
			}
			tp.domain[level][i] = number
		}
	}
	return tp
}

// levelOf returns the number of a level, or −1. A job without within has the coarsest.
func (tp *topology) levelOf(name string) int {
	if name == "" {
		return len(tp.names) - 1
	}
	return slices.Index(tp.names, name)
}

// spreadOf returns the finest level that has all nodes in one domain.
func (tp *topology) spreadOf(nodes []int32) int {
	level := 0
	for _, n := range nodes {
		for tp.domain[level][n] != tp.domain[level][nodes[0]] {
			level++
		}
	}
	return level
}

// syncAt returns the synchronisation time of a round of a spread: that of the finest level in
// the profile that is no finer.
func (tp *topology) syncAt(p *hare.Profile, spread int) int64 {
	if p.SyncAt == nil {
		return p.SyncUs
	}
	for _, name := range tp.names[spread:] {
		at := slices.IndexFunc(p.SyncAt, func(s hare.LevelSync) bool { return s.Level == name })
		if at >= 0 {
			return p.SyncAt[at].SyncUs
		}
	}
	return p.SyncUs
}

// modeLevels returns the levels of the modes of a job on a type, from fine to coarse: that of
// within, and each finer one with less time than the next coarser one.
//
// Proof that these suffice. Let a round have the spread λ₀. The coarsest level up to within whose time is that of λ₀
// is the level of a mode, and one domain of it holds the round too. ∎
func (tp *topology) modeLevels(job *hare.Job, p *hare.Profile) []int {
	within := tp.levelOf(job.Within)
	var out []int
	for level := range within {
		if tp.syncAt(p, level) < tp.syncAt(p, level+1) {
			out = append(out, level)
		}
	}
	return append(out, within)
}
