package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// newWorld draws a cluster and jobs, with rules about nodes only if they are allowed.
func newWorld(rng *rand.Rand, planned, rules bool) *world {
	w := &world{planned: planned, nodes: map[string]hare.Node{}}
	if w.rules = rules && rng.IntN(2) == 0; w.rules {
		w.drawNodes(rng)
		return w
	}
	types := []string{"A", "B", "C"}[:1+rng.IntN(3)]
	for i, t := range types {
		n := hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: t, Count: 1 + rng.IntN(4)}}}
		w.cluster.Nodes = append(w.cluster.Nodes, n)
		for g := range n.GPUs[0].Count {
			w.gpus = append(w.gpus, &gpu{name: fmt.Sprintf("%s/%d", n.Name, g), gpuType: t, here: true, task: -1})
		}
	}
	for i := range 40 {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + rng.Int64N(4)), Rounds: 1 + rng.Int64N(4),
			Tasks: 1 + rng.Int64N(4), Sync: hare.Sync(rng.IntN(3))}
		j.Mix = j.Sync == hare.Gang && rng.IntN(2) == 0
		for _, t := range []string{"A", "B", "C", "D"} {
			if rng.IntN(2) == 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: rng.Int64N(3) * 1e6, SyncUs: rng.Int64N(2) * 1e5})
			}
		}
		if j.On == nil {
			j.On = []hare.Profile{{Type: types[0], ComputeUs: 1e6}}
		}
		if planned {
			w.makeRunnable(&j)
		}
		w.specs = append(w.specs, j)
	}
	return w
}

// makeRunnable changes a job so that its profiles are complete and each type of a profile
// has GPUs for a whole round.
func (w *world) makeRunnable(j *hare.Job) {
	var on []hare.Profile
	for _, n := range w.cluster.Nodes {
		for _, p := range j.On {
			if p.Type == n.GPUs[0].Type && int64(n.GPUs[0].Count) >= j.Tasks {
				p.ComputeUs = max(1, p.ComputeUs)
				on = append(on, p)
			}
		}
	}
	if on == nil {
		j.Tasks = 1
		on = []hare.Profile{{Type: w.cluster.Nodes[0].GPUs[0].Type, ComputeUs: 1e6}}
	}
	j.On = on
}

// drawNodes draws a cluster and jobs with rules about nodes.
func (w *world) drawNodes(rng *rand.Rand) {
	w.drawTopology(rng)
	for i := range 2 + rng.IntN(3) {
		n := hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: "A", Count: 1 + rng.IntN(5)}}}
		if rng.IntN(3) == 0 {
			n.GPUs = append(n.GPUs, hare.TypeCount{Type: "B", Count: 1 + rng.IntN(3)})
		}
		w.drawDescription(rng, &n)
		w.cluster.Nodes = append(w.cluster.Nodes, n)
		w.addNode(&n)
	}
	for i := range 40 {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + rng.Int64N(4)), Rounds: 1 + rng.Int64N(4),
			Tasks: 1 + rng.Int64N(4), Sync: hare.Sync(rng.IntN(3))}
		j.Mix = j.Sync == hare.Gang && rng.IntN(3) == 0
		for _, t := range []string{"A", "B", "D"} {
			if t == "A" || rng.IntN(2) == 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: rng.Int64N(3) * 1e6, SyncUs: rng.Int64N(2) * 1e5})
			}
		}
		if rng.IntN(3) > 0 {
			drawRules(rng, &j)
		}
		w.drawLevels(rng, &j)
		w.specs = append(w.specs, j)
	}
	w.drawUsers(rng)
}

// drawDescription draws labels and limits of a node.
func (w *world) drawDescription(rng *rand.Rand, n *hare.Node) {
	if rng.IntN(2) == 0 {
		n.CPUMilli = 1000 + rng.Int64N(6000)
	}
	if rng.IntN(3) == 0 {
		n.MemoryMiB = 1 + rng.Int64N(8)
	}
	if rng.IntN(2) == 0 {
		n.Labels = []hare.Label{{Name: "disk", Value: []string{"nvme", "ssd"}[rng.IntN(2)]}}
	}
	w.place(rng, n)
}

func drawRules(rng *rand.Rand, j *hare.Job) {
	j.GPUsPerTask = []int64{0, 2, 2, 3}[rng.IntN(4)]
	if rng.IntN(2) == 0 {
		j.CPUMilliPerTask = rng.Int64N(3000)
	}
	if rng.IntN(3) == 0 {
		j.MemoryMiBPerTask = rng.Int64N(4)
	}
	j.DistinctNodes = j.Sync != hare.Relaxed && rng.IntN(3) == 0
	switch rng.IntN(6) {
	case 0:
		j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
	case 1:
		j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0", "n7"}}}
	}
}

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

// drawUsers draws the users of jobs.
func (w *world) drawUsers(rng *rand.Rand) {
	for i := range w.specs {
		w.specs[i].Users = [][]string{nil, {"ann"}, {"bob"}, {"ann", "vision"}, {"bob", "vision"}}[rng.IntN(5)]
	}
}
