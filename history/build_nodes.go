package history

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// buildNodes adds the nodes with their windows of service.
func (b *builder) buildNodes(inst *hare.Instance) {
	last := make([][]*placedJob, len(b.nodes)) // the jobs on each node, in order of start
	for _, j := range b.jobs {
		for x, ref := range j.lanes {
			if x == 0 || j.lanes[x-1].node != ref.node {
				last[ref.node] = append(last[ref.node], j)
			}
		}
	}
	b.partition, b.labelled = b.partitions(), nil
	for i := range b.nodes {
		n := &b.nodes[i]
		if len(n.GPUs) == 0 {
			b.rep.leaveOut("nodes without GPUs", n.Name)
		}
		node := hare.Node{Name: n.Name, GPUs: n.GPUs, Labels: slices.Clone(n.Labels)}
		if !b.cfg.GPUsOnly {
			node.CPUMilli, node.MemoryMiB = n.CPUMilli, n.MemoryMiB
		}
		for _, f := range n.Features {
			node.Labels = append(node.Labels, hare.Label{Name: "feature." + f, Value: "yes"})
		}
		for _, p := range n.Partitions {
			if b.partition[p] {
				node.Labels = append(node.Labels, hare.Label{Name: "partition." + p, Value: "yes"})
			}
		}
		slices.SortFunc(node.Labels, func(a, c hare.Label) int { return strings.Compare(a.Name, c.Name) })
		b.labelled = append(b.labelled, hare.Node{Name: n.Name, Labels: node.Labels})
		if n.future && len(last[i]) == 0 {
			b.rep.leaveOut("nodes that are not there yet (FUTURE)", n.Name)
			continue
		}
		node.Windows = b.windows(n, last[i])
		if len(n.Down) > 0 && len(node.Windows) == 0 {
			b.rep.leaveOut("nodes that are never in service", n.Name)
			continue
		}
		node.Normalise()
		if len(n.GPUs) > 0 {
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
		}
	}
}

// windows returns when a node is in service. A node that is drained lets its jobs end: it is out of
// service from the end of the last job that had begun.
func (b *builder) windows(n *Node, jobs []*placedJob) []hare.Window {
	if len(n.Down) == 0 {
		return nil
	}
	var out []hare.Window
	at := int64(0)
	for _, d := range n.Down {
		from, until := d.StartUs, d.EndUs
		for _, j := range jobs {
			if j.startUs < until && j.endUs > from {
				from = j.endUs
			}
		}
		if from >= until {
			continue
		}
		if from-b.originUs > at {
			out = append(out, hare.Window{StartUs: at, EndUs: from - b.originUs})
		}
		if until == hare.Forever {
			return out
		}
		at = max(at, until-b.originUs)
	}
	return append(out, hare.Window{StartUs: at, EndUs: hare.Forever})
}

// partitions says of each partition whether it leaves out a node with GPUs.
func (b *builder) partitions() map[string]bool {
	count, nodes := map[string]int{}, 0
	for i := range b.nodes {
		if len(b.nodes[i].GPUs) == 0 {
			continue
		}
		nodes++
		for _, p := range b.nodes[i].Partitions {
			count[p]++
		}
	}
	out := map[string]bool{}
	for p, n := range count {
		out[p] = n < nodes
	}
	return out
}
