package whatif

import (
	"slices"

	"github.com/hare-sched/hare"
)

// placedEasier reports whether the rules of job l about nodes allow every place that those of
// t allow: tasks of no more CPUs and memory, on distinct nodes only if t's are, and
// with equal selectors.
func placedEasier(l, t *hare.Job) bool {
	return l.CPUMilliPerTask <= t.CPUMilliPerTask &&
		l.MemoryMiBPerTask <= t.MemoryMiBPerTask && (!l.DistinctNodes || t.DistinctNodes) &&
		slices.EqualFunc(l.Only, t.Only, equalValues) && slices.EqualFunc(l.Exclude, t.Exclude, equalValues)
}

func equalValues(a, b hare.LabelValues) bool {
	return a.Label == b.Label && slices.Equal(a.Values, b.Values)
}

// offersNodes is offersAll where nodes matter to one of the instances. It reports whether each
// node of tight with GPUs that some job of tight could use is in c under the same name, with
// the same labels, no fewer CPUs and no less memory, and whether its GPUs can be matched with
// those of this node of c, as in offersAll.
//
// Each task of a plan of tight then finds the g GPUs of its node in tight on the same node in
// c. The selectors of jobs allow the node, as names, labels and selectors are equal. The tasks
// that hold GPUs of a node at an instant in c are among those in tight, because jobs start
// their rounds as before and none takes longer, so that CPUs and memory suffice.
func (c *constraints) offersNodes(tight *constraints) bool {
	have := make(map[string]*hare.Node, len(c.inst.Cluster.Nodes))
	for i := range c.inst.Cluster.Nodes {
		have[c.inst.Cluster.Nodes[i].Name] = &c.inst.Cluster.Nodes[i]
	}
	for i := range tight.inst.Cluster.Nodes {
		n := &tight.inst.Cluster.Nodes[i]
		if !slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return tight.used[g.Type] }) {
			continue
		}
		l := have[n.Name]
		if l == nil || !slices.Equal(l.Labels, n.Labels) || !suffices(l.CPUMilli, n.CPUMilli) ||
			!suffices(l.MemoryMiB, n.MemoryMiB) {
			return false
		}
		if !oneNode(l, c.used).offersAll(oneNode(n, tight.used)) {
			return false
		}
	}
	return true
}

// suffices compares amounts of CPUs or memory; 0 means no limit.
func suffices(have, need int64) bool { return have == 0 || need > 0 && have >= need }

// oneNode are the constraints of one node alone.
func oneNode(n *hare.Node, used map[string]bool) *constraints {
	c := &constraints{used: used}
	c.classes = gpuClasses(&hare.Cluster{Nodes: []hare.Node{*n}})
	for key := range c.classes {
		c.order = append(c.order, key)
	}
	slices.Sort(c.order)
	return c
}
