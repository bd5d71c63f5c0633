package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

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

// addNode puts the GPUs of a node in service.
func (w *world) addNode(n *hare.Node) {
	w.nodes[n.Name] = hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, Labels: n.Labels}
	at := 0
	for _, k := range n.GPUs {
		for range k.Count {
			name := fmt.Sprintf("%s/%d", n.Name, at)
			at++
			g := w.gpu(name)
			if g == nil {
				g = &gpu{name: name, task: -1}
				w.gpus = append(w.gpus, g)
			}
			g.here, g.gpuType = true, k.Type
		}
	}
}

func nodeOf(gpu string) string { return gpu[:strings.IndexByte(gpu, '/')] }

// describe is what the event says of the node of a GPU that joins.
func (w *world) describe(rng *rand.Rand, gpu string) *hare.Change {
	n, known := w.nodes[nodeOf(gpu)]
	if !w.rules || !known || rng.IntN(2) == 0 {
		return nil
	}
	return &hare.Change{Node: &n}
}

// nodeEvent draws a node that joins or leaves, where that is possible.
func (w *world) nodeEvent(rng *rand.Rand) hare.Event {
	name := fmt.Sprint("n", rng.IntN(8))
	here := slices.DeleteFunc(w.inService(true), func(g *gpu) bool { return nodeOf(g.name) != name })
	switch {
	case len(here) == 0:
		n := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "A", Count: 1 + rng.IntN(5)}}}
		w.drawDescription(rng, &n)
		if _, known := w.nodes[name]; known { // and its GPUs have left one by one
			d := w.nodes[name]
			n.CPUMilli, n.MemoryMiB, n.Labels = d.CPUMilli, d.MemoryMiB, d.Labels
		}
		return hare.Event{Type: hare.EventNodeJoined, Change: &hare.Change{Node: &n}}
	case len(here) < len(w.inService(true)):
		return hare.Event{Type: hare.EventNodeLeft, Change: &hare.Change{Node: &hare.Node{Name: name}}}
	}
	return hare.Event{Type: hare.EventTick}
}

func (w *world) nodeChanged(e *hare.Event, voids map[void]bool) {
	if e.Type == hare.EventNodeJoined {
		w.addNode(e.Node())
		return
	}
	for _, g := range w.gpus {
		if g.here && nodeOf(g.name) == e.Node().Name {
			w.gpuLeft(g, voids)
		}
	}
	w.gpus = slices.DeleteFunc(w.gpus, func(g *gpu) bool { return nodeOf(g.name) == e.Node().Name })
	delete(w.nodes, e.Node().Name)
}

// leave takes the GPUs of a task from its job.
func (w *world) leave(j *job, task int64) {
	for _, name := range j.held[task] {
		w.gpu(name).leave()
	}
}

// rest notes that a task of a gang has ended, which keeps its GPUs.
func (w *world) rest(j *job, task int64) {
	for _, name := range j.held[task] {
		w.gpu(name).task = -1
	}
}

func (j *job) voidTask(task int64) void {
	return void{j.spec.ID, j.on[task], hare.OthersOf(j.held[task]), j.round, task}
}

// checkOthers checks the GPUs of a task beside its first one, g.
func (w *world) checkOthers(j *job, d *hare.Decision, g *gpu) ([]*gpu, error) {
	names := d.GPUs()
	if int64(len(names)) != j.spec.TaskGPUs() {
		return nil, fmt.Errorf("%d GPUs are named, and a task holds %d", len(names), j.spec.TaskGPUs())
	}
	others := []*gpu{}
	for _, name := range names[1:] {
		h := w.gpu(name)
		switch {
		case h == nil || !h.here:
			return nil, fmt.Errorf("%s is not in service", name)
		case h == g || slices.Contains(others, h):
			return nil, fmt.Errorf("%s is named twice", name)
		case h.task >= 0 || h.job != nil && h.job != j:
			return nil, fmt.Errorf("%s is held", name)
		case h.gpuType != g.gpuType:
			return nil, fmt.Errorf("%s is of another type", name)
		}
		others = append(others, h)
	}
	node := w.nodes[nodeOf(g.name)]
	node.Name = nodeOf(g.name)
	if !j.spec.AllowsNode(&node) {
		return nil, errors.New("the job may not use the node")
	}
	return others, nil
}

// checkNodes checks that the CPUs and the memory of each node suffice for the tasks there, and
// that tasks are on distinct nodes where their job wants that.
func (w *world) checkNodes() error {
	cpus, memory := map[string]int64{}, map[string]int64{}
	for _, j := range w.jobs {
		held := map[string]int64{}
		for _, g := range w.gpus {
			if g.job == j {
				held[nodeOf(g.name)]++
			}
		}
		for node, n := range held {
			tasks := n / j.spec.TaskGPUs()
			if n%j.spec.TaskGPUs() != 0 || j.spec.DistinctNodes && tasks > 1 {
				return fmt.Errorf("job %q holds %d GPUs of node %s", j.spec.ID, n, node)
			}
			cpus[node] += tasks * j.spec.CPUMilliPerTask
			memory[node] += tasks * j.spec.MemoryMiBPerTask
		}
	}
	for name, n := range w.nodes {
		if n.CPUMilli > 0 && cpus[name] > n.CPUMilli || n.MemoryMiB > 0 && memory[name] > n.MemoryMiB {
			return fmt.Errorf("tasks on node %s hold %d thousandths of CPUs and %d MiB, and it has %d and %d", name,
				cpus[name], memory[name], n.CPUMilli, n.MemoryMiB)
		}
	}
	return nil
}

// hasRoomOnNodes is hasRoom where nodes matter.
func (w *world) hasRoomOnNodes(j *job) bool {
	spec := &j.spec
	type place struct{ gpuType, domain string }
	byType, together := map[place]int64{}, map[string]int64{}
	gpus := map[string]map[string]int64{} // by node and type
	for _, g := range w.gpus {
		if g.here && slices.ContainsFunc(spec.On, func(p hare.Profile) bool { return p.Type == g.gpuType }) {
			name := nodeOf(g.name)
			if gpus[name] == nil {
				gpus[name] = map[string]int64{}
			}
			gpus[name][g.gpuType]++
		}
	}
	for name, types := range gpus {
		n := w.nodes[name]
		n.Name = name
		if !spec.AllowsNode(&n) {
			continue
		}
		limit := int64(1 << 40)
		if n.CPUMilli > 0 && spec.CPUMilliPerTask > 0 {
			limit = min(limit, n.CPUMilli/spec.CPUMilliPerTask)
		}
		if n.MemoryMiB > 0 && spec.MemoryMiBPerTask > 0 {
			limit = min(limit, n.MemoryMiB/spec.MemoryMiBPerTask)
		}
		if spec.DistinctNodes {
			limit = min(limit, 1)
		}
		sum := int64(0)
		in := w.domain(spec.Within, name)
		for k, count := range types {
			byType[place{k, in}] += min(limit, count/spec.TaskGPUs())
			sum += count / spec.TaskGPUs()
		}
		together[in] += min(limit, sum)
	}
	widest, all, inTypes := int64(0), int64(0), map[string]int64{}
	for at, n := range byType {
		n = min(n, w.limit(spec, at.gpuType))
		widest = max(widest, n)
		inTypes[at.domain] += n
	}
	for in, n := range together {
		all = max(all, min(n, inTypes[in], w.limit(spec, "")))
	}
	switch {
	case spec.Sync == hare.Relaxed:
		return all > 0
	case spec.Mix:
		return all >= spec.Tasks
	}
	return widest >= spec.Tasks
}
