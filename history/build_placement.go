package history

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// shape sets tasks, GPUs of a task and how they lie.
func (b *builder) shape(j *placedJob, out *hare.Job) {
	if len(j.lanes) == 1 { // most jobs
		out.Tasks = 1
		return
	}
	count := map[int]int64{}
	var order []int
	types := map[string]bool{}
	for _, ref := range j.lanes {
		if count[ref.node] == 0 {
			order = append(order, ref.node)
		}
		count[ref.node]++
		types[ref.gpuType] = true
	}
	each, even := count[order[0]], true
	for _, n := range order {
		even = even && count[n] == each
	}
	out.Tasks, out.GPUsPerTask = int64(len(j.lanes)), 0
	switch {
	case j.PerTask == 1:
	case j.PerTask > 1 && !b.mixedNode(j) &&
		!slices.ContainsFunc(order, func(n int) bool { return count[n]%j.PerTask != 0 }):
		out.Tasks, out.GPUsPerTask = out.Tasks/j.PerTask, j.PerTask
	case even && !b.mixedNode(j):
		out.Tasks = int64(len(order))
		if each > 1 {
			out.GPUsPerTask = each
		}
		out.DistinctNodes = len(order) > 1
	default:
		b.rep.assume("had unlike numbers of GPUs on its nodes: may have its GPUs on any nodes", j.Place)
	}
	if len(types) > 1 {
		out.Sync, out.Mix = hare.Gang, true
		b.rep.assume("ran on several GPU types at once: may mix types", j.Place)
	}
}

// mixedNode reports whether a job had GPUs of two types on one node.
func (b *builder) mixedNode(j *placedJob) bool {
	for x := 1; x < len(j.lanes); x++ {
		if j.lanes[x].node == j.lanes[x-1].node && j.lanes[x].gpuType != j.lanes[x-1].gpuType {
			return true
		}
	}
	return false
}

// selectNodes keeps a job to the nodes of its partition and of its features.
func (b *builder) selectNodes(j *placedJob, out *hare.Job) {
	if strings.Contains(j.Partition, ",") {
		b.rep.assume("may run in several partitions: is not kept to their nodes", j.Place)
	}
	if j.Partition != "" && b.partition[j.Partition] {
		out.Only = append(out.Only, hare.LabelValues{Label: "partition." + j.Partition, Values: []string{"yes"}})
	}
	out.Only, out.Exclude = append(out.Only, j.Only...), append(out.Exclude, j.Exclude...)
	b.nameNodes(j, out)
	defer b.sortOnly(out)
	defer b.admitPast(j, out)
	if j.Features == "" {
		return
	}
	if strings.ContainsAny(j.Features, "|[]()*:") {
		b.rep.assume("a constraint with more than names joined by & is not kept", j.Place)
		return
	}
	for _, f := range sortedList(strings.ReplaceAll(j.Features, "&", ",")) {
		out.Only = append(out.Only, hare.LabelValues{Label: "feature." + f, Values: []string{"yes"}})
	}
}

// admitPast drops what keeps a job from a node on which it ran: nodes leave, and get other features and partitions,
// after a job has run there.
func (b *builder) admitPast(j *placedJob, out *hare.Job) {
	if len(j.lanes) == 0 || len(out.Only)+len(out.Exclude) == 0 {
		return
	}
	admits := func(only, exclude []hare.LabelValues) bool {
		probe := hare.Job{Only: only, Exclude: exclude}
		for x, ref := range j.lanes {
			if (x == 0 || j.lanes[x-1].node != ref.node) && !probe.AllowsNode(&b.labelled[ref.node]) {
				return false
			}
		}
		return true
	}
	if admits(out.Only, out.Exclude) {
		return
	}
	out.Only = slices.DeleteFunc(out.Only, func(l hare.LabelValues) bool { return !admits([]hare.LabelValues{l}, nil) })
	out.Exclude = slices.DeleteFunc(out.Exclude, func(l hare.LabelValues) bool {
		return !admits(nil, []hare.LabelValues{l})
	})
	b.rep.doubt(
		"ran on a node that its features, partition or labels exclude by what the node has today: is not kept to "+
			"these", j.Place)
}

// nameNodes keeps a job to the nodes that it must have and off those that it must not have, as far as
// where it ran does not speak against it: limits of a job may be changed while it waits.
func (b *builder) nameNodes(j *placedJob, out *hare.Job) {
	if len(j.NotNodes)+len(j.OnlyNodes) == 0 {
		return
	}
	only, not := b.nodeNames(j, j.OnlyNodes), b.nodeNames(j, j.NotNodes)
	for _, ref := range j.lanes {
		name := b.nodes[ref.node].Name
		if slices.Contains(not, name) || int64(len(only)) >= max(1, j.Nodes) && !slices.Contains(only, name) {
			b.rep.doubt("ran on a node that its submission excludes: is not kept to the nodes that its submission names",
				j.Place)
			return
		}
	}
	if len(not) > 0 {
		out.Exclude = append(out.Exclude, hare.LabelValues{Label: hare.LabelNode, Values: not})
	}
	switch n := len(only); {
	case n > 0 && int64(n) >= j.Nodes:
		out.Only = append(out.Only, hare.LabelValues{Label: hare.LabelNode, Values: only})
	case len(j.OnlyNodes) > 0:
		b.rep.assume("must have some nodes among others: is not kept to these nodes", j.Place)
	}
}

// nodeNames returns those of the names that nodes have.
func (b *builder) nodeNames(j *placedJob, names []string) (known []string) {
	for _, name := range names {
		if _, ok := b.index[name]; ok {
			known = append(known, name)
			continue
		}
		b.rep.leaveOut("a node that a job excludes or must have is none of the cluster's", j.Place)
	}
	return known
}

// sortOnly orders the labels to which a job is kept, and those from which it is kept.
func (b *builder) sortOnly(out *hare.Job) {
	byLabel := func(a, c hare.LabelValues) int { return strings.Compare(a.Label, c.Label) }
	slices.SortFunc(out.Only, byLabel)
	slices.SortFunc(out.Exclude, byLabel)
}
