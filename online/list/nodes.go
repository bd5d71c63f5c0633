package list

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// Where some job that is there has rules about nodes (docs/reference/model.md), a Scheduler keeps
// what is free on each node in nodes, and starts every job on nodes with room, by best fit.
// Otherwise nodes is nil, and GPUs of a type are all alike.

// arriveOnNodes counts a job that arrives and is not among the others yet, and begins to go by
// nodes where the job is the first one with rules about them.
func (l *Scheduler) arriveOnNodes(j *JobState) {
	matters := l.placedByNode(j)
	if matters {
		l.placedJobs++
	}
	if l.nodes == nil && !matters {
		return
	}
	if l.nodes == nil {
		l.goByNodes()
	}
	j.shape = l.nodes.Add(j.spec)
}

// placedByNode reports whether a job has rules about nodes, or the rule places it by node.
func (l *Scheduler) placedByNode(j *JobState) bool {
	return placement.Matters(j.spec) || l.rule.Picks != nil
}

// leaveNodes forgets a job that holds nothing.
func (l *Scheduler) leaveNodes(j *JobState) {
	if l.nodes == nil {
		return
	}
	l.nodes.Drop(j.shape)
	if !l.placedByNode(j) {
		return
	}
	if l.placedJobs--; l.placedJobs == 0 && len(l.quotas) == 0 {
		l.nodes = nil
		l.nodesChanged()
	}
}

// nodesChanged forgets what depends on whether the scheduler goes by nodes.
func (l *Scheduler) nodesChanged() {
	l.waiting.stale = true
	l.capacity++
	l.guardResized()
}

// goByNodes fills nodes.
func (l *Scheduler) goByNodes() {
	l.nodesChanged()
	l.nodes = l.described.Nodes(len(l.gpus), l.gpuAt)
	l.nodes.SetQuotas(l.quotas, func(t int) string { return l.types[t] })
	for _, j := range l.jobs {
		j.shape = l.nodes.Add(j.spec)
		j.togetherAt = 0
		for at, g := range j.gpus {
			l.nodes.Take(g)
			if l.gpus[g].lead = at%j.TaskGPUs() == 0; l.gpus[g].lead {
				l.nodes.Hold(g, j.shape, 1)
			}
		}
	}
}

// gpuAt says of a GPU what Described.Nodes asks.
func (l *Scheduler) gpuAt(g int) (name string, gpuType int, inService bool) {
	x := &l.gpus[g]
	return x.Name, x.Type, x.InService
}

// joinNode checks what an event says of a node, and keeps it.
func (l *Scheduler) joinNode(n *hare.Node) *hare.InvalidError {
	return l.described.Describe(n, func() bool { return l.nodeInService(n.Name) })
}

// nodeInService reports whether some GPU of a node is in service.
func (l *Scheduler) nodeInService(name string) bool {
	return slices.ContainsFunc(l.gpus, func(x GPU) bool {
		return x.InService && placement.NodeName(x.Name) == name
	})
}
