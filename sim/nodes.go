package sim

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// startPlaced begins a task of an instance to which nodes matter, or says why that is not
// possible.
func (e *engine) startPlaced(ji int32, d *hare.Decision) (gpus []int32, reason string) {
	spec := &e.inst.Jobs[ji]
	if spec.TaskGPUs() == 1 && d.Others != "" {
		return nil, "a task holds one GPU"
	}
	for _, name := range d.GPUs() {
		g, ok := e.gpuOf[name]
		if !ok {
			return nil, fmt.Sprintf("there is no GPU %.60q", name)
		}
		if slices.Contains(gpus, g) {
			return nil, "it names a GPU twice"
		}
		gpus = append(gpus, g)
	}
	if n := int64(len(gpus)); n != spec.TaskGPUs() {
		return nil, fmt.Sprintf("it names %d GPUs, and a task holds %d", n, spec.TaskGPUs())
	}
	first := &e.model.GPUs[gpus[0]]
	for _, g := range gpus[1:] {
		if m := &e.model.GPUs[g]; m.Node != first.Node {
			return nil, "the GPUs of a task are on one node"
		} else if m.Type != first.Type {
			return nil, "the GPUs of a task are of one type"
		}
	}
	n := first.Node
	switch {
	case !e.allows(ji, n):
		return nil, fmt.Sprintf("the job may not use node %.60q", e.inst.Cluster.Nodes[n].Name)
	case spec.DistinctNodes && e.hasTaskOn(ji, n):
		return nil, "the tasks of a round are on distinct nodes"
	}
	if e.gpus[gpus[0]].job == ji { // it holds the CPUs and the memory already
		return gpus, ""
	}
	node := &e.inst.Cluster.Nodes[n]
	switch {
	case node.CPUMilli > 0 && e.nodes.cpuMilli[n]+spec.CPUMilliPerTask > node.CPUMilli:
		return nil, fmt.Sprintf("%s of the %s CPUs of the node are held, and a task needs %s",
			hare.FormatMillis(e.nodes.cpuMilli[n]), hare.FormatMillis(node.CPUMilli), hare.FormatMillis(spec.CPUMilliPerTask))
	case node.MemoryMiB > 0 && e.nodes.memoryMiB[n]+spec.MemoryMiBPerTask > node.MemoryMiB:
		return nil, fmt.Sprintf("%d of the %d MiB of the node are held, and a task needs %d", e.nodes.memoryMiB[n],
			node.MemoryMiB, spec.MemoryMiBPerTask)
	}
	for _, q := range e.quotasOn(ji, gpus[0]) {
		if x := &e.inst.Quota[q]; e.nodes.quotaHeld[q]+spec.TaskGPUs() > x.GPUs {
			return nil, fmt.Sprintf("the jobs of %.60q hold %d GPUs of their quota of %d, and a task holds %d", x.User,
				e.nodes.quotaHeld[q], x.GPUs, spec.TaskGPUs())
		}
	}
	return gpus, ""
}

// allows reports whether a job may use a node.
func (e *engine) allows(ji int32, node int) bool {
	spec := &e.inst.Jobs[ji]
	if len(spec.Only)+len(spec.Exclude) == 0 {
		return true
	}
	allowed := e.nodes.allowed[ji]
	if allowed == nil {
		for n := range e.inst.Cluster.Nodes {
			allowed = append(allowed, spec.AllowsNode(&e.inst.Cluster.Nodes[n]))
		}
		e.nodes.allowed[ji] = allowed
	}
	return allowed[node]
}

// hasTaskOn reports whether a task of a job's round that has started in this answer is on a node.
func (e *engine) hasTaskOn(ji int32, node int) bool {
	j := &e.jobs[ji]
	if j.batch != e.seq {
		return false
	}
	for _, s := range j.tasks {
		if s > 0 && e.model.GPUs[e.slots[s-1].gpu].Node == node {
			return true
		}
	}
	return false
}

// describedNode is what gpu_joined says of the node of a GPU; nil where nodes do not matter or
// nothing is to be said.
func (e *engine) describedNode(g int32) *hare.Change {
	if e.nodes == nil {
		return nil
	}
	n := &e.inst.Cluster.Nodes[e.model.GPUs[g].Node]
	if n.CPUMilli == 0 && n.MemoryMiB == 0 && len(n.Labels) == 0 {
		return nil
	}
	return &hare.Change{Node: &hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, Labels: n.Labels}}
}

// launchPlaced is launch for all GPUs of a task.
func (e *engine) launchPlaced(ji int32, gpus []int32, task int64, p *model.Mode) (slot int32, reason string) {
	gang, held := e.inst.Jobs[ji].Sync != hare.Relaxed, e.gpus[gpus[0]].job == ji
	for _, g := range gpus[1:] {
		if (e.gpus[g].job == ji) != held {
			return none, "a task keeps all of its GPUs, or none"
		}
		if gang {
			if reason := e.checkGang(ji, g); reason != "" {
				return none, reason
			}
		}
	}
	if !held {
		e.hold(ji, gpus[0], 1)
	}
	return e.launchOn(ji, gpus, task, p), ""
}

// launchOn gives GPUs to a task.
func (e *engine) launchOn(ji int32, gpus []int32, task int64, p *model.Mode) (slot int32) {
	slot = e.launch(ji, gpus[0], task, p)
	for len(e.nodes.others) <= int(slot) {
		e.nodes.others = append(e.nodes.others, nil)
	}
	e.nodes.others[slot] = gpus[1:]
	for _, g := range gpus[1:] {
		x := &e.gpus[g]
		x.job, x.slot, x.heldUs, x.sinceUs = ji, slot, e.nowUs, e.nowUs
	}
	return slot
}
