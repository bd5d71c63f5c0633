package brute

import (
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// Reading is one way to read docs/reference/model.md. The zero value is the right reading.
type Reading struct {
	RacksByName   bool // racks of one name in two zones are one
	WithinOfTasks bool // each task by itself is in one domain, so that within says nothing
	AfterStarts   bool // a job waits for the starts of others, not for their ends
	FirstSetups   bool // a GPU needs a setup for a job only before the first start of the job
}

// LevelNames returns the levels of a cluster from fine to coarse.
func LevelNames(inst *hare.Instance) []string {
	names := make([]string, 0, len(inst.Cluster.Topology)+2)
	names = append(names, "node")
	for _, label := range slices.Backward(inst.Cluster.Topology) {
		names = append(names, label)
	}
	return append(names, "any")
}

// rank is the place of a level in LevelNames.
func rank(inst *hare.Instance, level string) int {
	labels := inst.Cluster.Topology
	switch level {
	case "node":
		return 0
	case "any":
		return len(labels) + 1
	}
	return len(labels) - slices.Index(labels, level)
}

// Domain names the domain of a node at a level.
func (r Reading) Domain(inst *hare.Instance, level string, n int) string {
	node := &inst.Cluster.Nodes[n]
	switch level {
	case "node":
		return node.Name
	case "any":
		return ""
	}
	name := ""
	for _, label := range inst.Cluster.Topology {
		value, _ := node.Label(label)
		if label == level && r.RacksByName {
			return value
		}
		name += value + "\x00"
		if label == level {
			break
		}
	}
	return name
}

// Spread returns the finest level that has all nodes in one domain.
func (r Reading) Spread(inst *hare.Instance, nodes []int) string {
	if !slices.ContainsFunc(nodes, func(n int) bool { return n != nodes[0] }) {
		return "node"
	}
	for _, level := range LevelNames(inst) {
		if !slices.ContainsFunc(nodes, func(n int) bool {
			return r.Domain(inst, level, n) != r.Domain(inst, level, nodes[0])
		}) {
			return level
		}
	}
	return "any"
}

// SyncUs returns the time of synchronisation of a round of a spread.
func SyncUs(inst *hare.Instance, p hare.Profile, spread string) int64 {
	if p.SyncAt == nil {
		return p.SyncUs
	}
	for _, level := range LevelNames(inst)[rank(inst, spread):] {
		for _, s := range p.SyncAt {
			if s.Level == level {
				return s.SyncUs
			}
		}
	}
	return p.SyncUs
}

// Within reports whether a round of a spread is no more spread than its job allows.
func Within(inst *hare.Instance, job *hare.Job, spread string) bool {
	return job.Within == "" || rank(inst, spread) <= rank(inst, job.Within)
}

// RandomLevels returns an instance of RandomMixed whose nodes are in zones and racks, and some of
// whose gang and rigid jobs have within or times by spread.
func RandomLevels(r *rand.Rand) *hare.Instance {
	for {
		inst := RandomMixed(r)
		inst.Cluster.Topology = [][]string{{"rack"}, {"zone", "rack"}, {"zone", "rack"}, nil}[r.IntN(4)]
		for n := range inst.Cluster.Nodes {
			node := &inst.Cluster.Nodes[n]
			node.Labels = append(slices.Clone(node.Labels), hare.Label{Name: "rack", Value: []string{"r", "s"}[r.IntN(2)]},
				hare.Label{Name: "zone", Value: []string{"e", "w"}[r.IntN(2)]})
		}
		names := LevelNames(inst)
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			if j.Sync == hare.Relaxed {
				continue
			}
			if r.IntN(3) == 0 {
				j.Within = names[r.IntN(len(names)-1)]
			}
			for x := range j.On {
				if r.IntN(3) > 0 {
					randomSpread(r, names, &j.On[x])
				}
			}
		}
		inst.SettleLevels()
		if inst.Validate() == nil {
			return inst
		}
	}
}

// randomSpread gives a profile times by spread, up to any.
func randomSpread(r *rand.Rand, names []string, p *hare.Profile) {
	p.SyncUs = int64(r.IntN(2)) * tick / 2
	for x, name := range names {
		if x < len(names)-1 && r.IntN(3) == 0 {
			continue
		}
		p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: name, SyncUs: p.SyncUs})
		if x < len(names)-1 {
			p.SyncUs += int64(r.IntN(4)) * tick / 2
		}
	}
	p.SyncUs = p.SyncAt[len(p.SyncAt)-1].SyncUs
	slices.SortFunc(p.SyncAt, func(a, b hare.LevelSync) int {
		if a.Level < b.Level {
			return -1
		}
		return 1
	})
}
