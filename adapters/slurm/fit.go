package slurm

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// A constraint that no node satisfies together with the rest of a job's request stops the job for ever: Slurm takes
// it, gives the job the reason BadConstraints and the priority 0, and does not look at the job again. So the
// helper asks, before it writes a constraint and at each look afterwards, whether there are such nodes.

// has reports whether counts of a node cover counts that a job asks for.
func has(node, job map[string]int64) bool {
	for name, n := range job {
		if node[name] < n {
			return false
		}
	}
	return true
}

// typed reports whether a job's user names the types of its GPUs.
func typed(j *history.Job) bool { return j.Type != "" || len(j.Types) > 0 }

// offers reports whether a node that is in service, or that Slurm starts for jobs, satisfies what a job asks of each
// of its nodes, its constraint apart. wants is asked.ofNode.
func (n *Node) offers(j *Job, wants []map[string]int64) bool {
	if n.Out || n.Reserved || slices.Contains(j.NotNodes, n.Name) ||
		j.Partition != "" && len(n.Partitions) > 0 && !sharesPartition(j.Partition, n.Partitions) ||
		slices.ContainsFunc(wants, func(want map[string]int64) bool { return !has(n.gres, want) }) {
		return false
	}
	of := func(g hare.TypeCount) bool { return strings.EqualFold(g.Type, j.Type) }
	if j.Type != "" && !slices.ContainsFunc(n.GPUs, of) {
		return false
	}
	return gpusOf(n) >= max(1, j.PerTask)
}

func gpusOf(n *Node) (gpus int64) {
	for _, g := range n.GPUs {
		gpus += int64(g.Count)
	}
	return gpus
}

// canStart reports whether nodes that exist satisfy together all that is known of a waiting job's request and a
// constraint on features. It takes O(n log n) for n nodes.
func (s *State) canStart(r *Record, j *Job, features string) bool {
	c, ok := parseConstraint(features)
	if !ok || j.Reservation != "" { // which nodes a reservation has is not read
		return false
	}
	var nodes []*Node
	wants := r.asked.ofNode()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; c.admits(n.Features) && n.offers(j, wants) {
			nodes = append(nodes, n)
		}
	}
	must := func(n *Node) bool { return slices.Contains(j.OnlyNodes, n.Name) }
	for _, name := range j.OnlyNodes {
		if !slices.ContainsFunc(nodes, func(n *Node) bool { return n.Name == name }) {
			return false
		}
	}
	want := int(max(1, j.Nodes))
	if len(j.OnlyNodes) >= want { // all of its nodes are named
		nodes = slices.DeleteFunc(nodes, func(n *Node) bool { return !must(n) })
	}
	// A job that asks for GPUs in all or by task may have more nodes than it asks for.
	most := want
	if j.PerTask > 0 && r.asked.perNode+r.asked.perSocket == "" {
		most = len(nodes)
	}
	tasksGPUs := func(n *Node) int64 { return gpusOf(n) - gpusOf(n)%max(1, j.PerTask) }
	return len(nodes) >= want &&
		enough(nodes, most, j.GPUs, tasksGPUs) &&
		(!s.CPUs || enough(nodes, most, j.CPUMilli, func(n *Node) int64 { return n.CPUMilli })) &&
		(!s.Memory || enough(nodes, most, j.MemoryMiB, func(n *Node) int64 { return n.MemoryMiB }))
}

// enough reports whether the nodes that have the most of something, at most so many of them, have as much as is
// wanted together. A node that tells nothing has no limit.
func enough(nodes []*Node, most int, wanted int64, of func(*Node) int64) bool {
	var have []int64
	for _, n := range nodes {
		v := of(n)
		if v == 0 {
			return true
		}
		have = append(have, v)
	}
	slices.SortFunc(have, func(a, b int64) int { return int(min(1, max(-1, b-a))) })
	for _, v := range have[:min(most, len(have))] {
		wanted -= v
	}
	return wanted <= 0
}

// waitingJobs finds for each entry of the queue the first of its waiting jobs, which are alike.
func (s *State) waitingJobs() map[int64]*Job {
	out := map[int64]*Job{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == history.Pending && out[j.Entry] == nil {
			out[j.Entry] = j
		}
	}
	return out
}
