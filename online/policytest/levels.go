package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// drawTopology draws the topology of a cluster.
func (w *world) drawTopology(rng *rand.Rand) {
	w.cluster.Topology = [][]string{nil, {"rack"}, {"zone", "rack"}}[rng.IntN(3)]
}

// place draws where a node stands.
func (w *world) place(rng *rand.Rand, n *hare.Node) {
	for _, label := range w.cluster.Topology {
		n.Labels = append(n.Labels, hare.Label{Name: label, Value: fmt.Sprint(rng.IntN(2))})
	}
	slices.SortFunc(n.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
}

// drawLevels draws levels of a gang or rigid job.
func (w *world) drawLevels(rng *rand.Rand, j *hare.Job) {
	if j.Sync == hare.Relaxed {
		return
	}
	levels := []string{"node"}
	for i := len(w.cluster.Topology) - 1; i >= 0; i-- {
		levels = append(levels, w.cluster.Topology[i])
	}
	if rng.IntN(2) == 0 {
		j.Within = levels[rng.IntN(len(levels))]
	}
	for x := range j.On {
		p := &j.On[x]
		if p.ComputeUs == 0 || rng.IntN(3) > 0 {
			continue
		}
		for i, level := range append(levels, "any") {
			p.SyncUs = int64(i) * 1e5
			p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: level, SyncUs: p.SyncUs})
		}
		slices.SortFunc(p.SyncAt, func(a, b hare.LevelSync) int { return strings.Compare(a.Level, b.Level) })
	}
}

// domain names the domain of a node at a level.
func (w *world) domain(level, node string) string {
	switch level {
	case "":
		return ""
	case "node":
		return node
	}
	n, name := w.nodes[node], ""
	for _, label := range w.cluster.Topology { // racks of one name in two zones are two
		value, _ := n.Label(label)
		if name += value + ";"; label == level {
			break
		}
	}
	return name
}

// checkLevels checks that the tasks of each round are in one domain.
func (w *world) checkLevels() error {
	for _, j := range w.jobs {
		first := ""
		for _, g := range w.gpus {
			if g.job != j || j.spec.Within == "" {
				continue
			}
			if at := "in " + w.domain(j.spec.Within, nodeOf(g.name)); first == "" {
				first = at
			} else if at != first {
				return fmt.Errorf("job %q holds GPUs in several domains of %s", j.spec.ID, j.spec.Within)
			}
		}
	}
	return nil
}

// unplaced draws an event that cannot be true: a job of an unknown level, or a node without a label of
// the topology.
func (w *world) unplaced(rng *rand.Rand) hare.Event {
	bad := []hare.Job{
		{ID: "bad", Tasks: 2, Sync: hare.Gang, Within: "row", On: []hare.Profile{{Type: "A"}}},
		{ID: "bad", Tasks: 2, Within: "node", On: []hare.Profile{{Type: "A"}}},
		{ID: "bad", Tasks: 2, Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: 1, SyncUs: 2,
			SyncAt: []hare.LevelSync{{Level: "any", SyncUs: 1}, {Level: "node", SyncUs: 2}}}}},
		{ID: "bad", Tasks: 2, Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: 1, SyncUs: 2,
			SyncAt: []hare.LevelSync{{Level: "node", SyncUs: 2}}}}},
	}
	n := rng.IntN(len(bad) + 2)
	switch {
	case n < len(bad):
		return hare.Event{Type: hare.EventJobArrived, Job: "bad", Arrived: &bad[n]}
	case len(w.cluster.Topology) == 0:
		return hare.Event{Type: hare.EventJobEnded, Job: "nobody"}
	case n == len(bad):
		return hare.Event{Type: hare.EventGPUJoined, GPU: "unplaced/0", GPUType: "A"}
	}
	return hare.Event{Type: hare.EventNodeJoined, Change: &hare.Change{Node: &hare.Node{Name: "unplaced",
		GPUs: []hare.TypeCount{{Type: "A", Count: 1}}, Labels: []hare.Label{{Name: "disk", Value: "ssd"}}}}}
}
