package sim

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// nodeUse is what tasks hold of the nodes of an instance to which nodes matter.
type nodeUse struct {
	cpuMilli, memoryMiB []int64          // held, by node
	allowed             map[int32][]bool // by job, its nodes, where it may not use all
	others              [][]int32        // by slot, the GPUs of a task behind its first
	quotaHeld           []int64          // GPUs, by quota
	quotas              [][]int32        // by job, those that count it; nil where there are none
}

func newNodeUse(inst *hare.Instance) *nodeUse {
	n := len(inst.Cluster.Nodes)
	use := &nodeUse{cpuMilli: make([]int64, n), memoryMiB: make([]int64, n), allowed: map[int32][]bool{}}
	if len(inst.Quota) == 0 {
		return use
	}
	use.quotaHeld, use.quotas = make([]int64, len(inst.Quota)), make([][]int32, len(inst.Jobs))
	byUser := map[string][]int32{}
	for q := range inst.Quota {
		byUser[inst.Quota[q].User] = append(byUser[inst.Quota[q].User], int32(q))
	}
	for i := range inst.Jobs {
		for _, user := range inst.Jobs[i].Users {
			use.quotas[i] = append(use.quotas[i], byUser[user]...)
		}
	}
	return use
}

// quotasOn are the quotas that count what a job holds on a GPU.
func (e *engine) quotasOn(ji, g int32) (on []int32) {
	if e.nodes.quotas == nil {
		return nil
	}
	kind := e.model.Types[e.model.GPUs[g].Type]
	for _, q := range e.nodes.quotas[ji] {
		if e.inst.Quota[q].Limits(&e.inst.Jobs[ji], kind) {
			on = append(on, q)
		}
	}
	return on
}

// groupSize is how many GPUs of a job follow each other in job.held for each task.
func (e *engine) groupSize(ji int32) int {
	if e.nodes == nil || ji == none {
		return 1
	}
	return int(e.inst.Jobs[ji].TaskGPUs())
}

// hold adds what a task of a job holds of the node of a GPU, or takes it back where by is −1.
func (e *engine) hold(ji, g int32, by int64) {
	if e.nodes == nil {
		return
	}
	spec, n := &e.inst.Jobs[ji], e.model.GPUs[g].Node
	e.nodes.cpuMilli[n] += by * spec.CPUMilliPerTask
	e.nodes.memoryMiB[n] += by * spec.MemoryMiBPerTask
	for _, q := range e.quotasOn(ji, g) {
		e.nodes.quotaHeld[q] += by * spec.TaskGPUs()
	}
}

// release takes back what the task holds beside its GPU, of which it is the first.
func (e *engine) release(g int32) {
	if e.nodes != nil {
		e.hold(e.gpus[g].job, g, -1)
	}
}

// freeGroup frees the GPUs of a task.
func (e *engine) freeGroup(gpus []int32, done bool) {
	if e.nodes == nil {
		e.free(gpus[0], done)
		return
	}
	e.release(gpus[0])
	e.enterTask(gpus, done)
	for _, g := range gpus {
		e.gpus[g].job, e.gpus[g].slot = none, none
		e.freed = append(e.freed, g)
	}
}

// enterTask is enter for the GPUs of a task.
func (e *engine) enterTask(gpus []int32, done bool) {
	x := &e.gpus[gpus[0]]
	ji, round := x.job, e.jobs[x.job].round
	startUs := min(x.sinceUs, e.nowUs)
	tasks, lost := e.totals.tasks, e.totals.lost
	for _, g := range gpus {
		e.enter(g, done)
	}
	e.totals.tasks, e.totals.lost = min(e.totals.tasks, tasks+1), min(e.totals.lost, lost+1)
	if done && e.lanes != nil && e.nodes != nil && !e.jobs[ji].atStart {
		e.addPlaced(gpus, ji, round, startUs)
	}
}

// addPlaced adds a task of an instance to which nodes matter to the lanes of its GPUs. The
// entries of a task stay equal, and one entry has no times in between in which the job holds
// nothing: the CPUs and the memory of its tasks are counted from its first start to its last
// end.
func (e *engine) addPlaced(gpus []int32, ji int32, round, startUs int64) {
	computeUs := int64(0)
	if e.inst.Jobs[ji].Sync == hare.Relaxed {
		computeUs = e.nowUs - startUs
	}
	joins := true
	for _, g := range gpus {
		l, first := &e.lanes[g], &e.lanes[gpus[0]]
		joins = joins && l.joins(ji, startUs, e.nowUs-startUs) && l.last() == first.last()
	}
	for _, g := range gpus {
		l := &e.lanes[g]
		l.cut = l.cut || !joins
		l.add(ji, round, startUs, computeUs)
		l.endUs, l.spanUs = e.nowUs, e.nowUs-startUs
	}
}

// joins reports whether a stretch of spanUs of a job begins where the last entry ends, and
// has the length of its periods.
func (l *lane) joins(ji int32, startUs, spanUs int64) bool {
	if len(l.entries) == 0 || l.cut {
		return false
	}
	x := l.last()
	return x.Job == ji && l.endUs == startUs && l.spanUs == spanUs
}

func (l *lane) last() hare.Entry {
	if len(l.entries) == 0 {
		return hare.Entry{Job: none}
	}
	return l.entries[len(l.entries)-1].entry()
}

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

// otherGPUs are the GPUs of the task in a slot behind its first.
func (e *engine) otherGPUs(slot int32) []int32 {
	if e.nodes == nil {
		return nil
	}
	return e.nodes.others[slot]
}

// othersOf are the other GPUs of a task as decisions name them.
func (e *engine) othersOf(gpu int32, others []int32) hare.OtherGPUs {
	if len(others) == 0 {
		return ""
	}
	names := []string{e.model.GPUs[gpu].ID}
	for _, g := range others {
		names = append(names, e.model.GPUs[g].ID)
	}
	return hare.OthersOf(names)
}
