package slurm

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// forSession is the cluster as a session gets it.
func (s *State) forSession(speeds *history.Speeds) *advice.State {
	out := &advice.State{NowUs: s.NowUs}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Out {
			out.Nodes = append(out.Nodes, s.sessionNode(n))
		}
	}
	types := s.typesOf()
	for i := range s.Jobs {
		j := &s.Jobs[i]
		told := advice.Job{StartUs: j.StartUs, EndUs: j.EndUs, On: j.On, Completed: j.State == history.Completed,
			Name: j.Name, User: j.User}
		switch {
		case j.State == history.Running:
			told.State = advice.Running
		case j.State == history.Pending && len(j.Types) > 0:
			continue // a job of the session has one type
		case j.State == history.Pending && j.Ready:
			told.State = advice.Waiting
		case j.State != history.Pending && j.EndUs > 0:
			told.State = advice.Ended
		default:
			continue
		}
		if told.State == advice.Ended {
			told.Spec = &hare.Job{ID: j.ID}
		} else {
			if told.Spec = sessionJob(j, s.Nodes, types, speeds); told.Spec != nil {
				advice.Demand(told.Spec, &j.Job, s.CPUs, s.Memory)
			}
		}
		out.Jobs = append(out.Jobs, told)
	}
	return out
}

// sessionNode is a node as the session gets it.
func (s *State) sessionNode(n *Node) advice.Node {
	out := advice.Node{Name: n.Name, GPUs: n.GPUs}
	if s.CPUs {
		out.CPUMilli = n.CPUMilli
	}
	if s.Memory {
		out.MemoryMiB = n.MemoryMiB
	}
	for _, f := range n.Features {
		out.Labels = append(out.Labels, hare.Label{Name: "feature." + f, Value: "yes"})
	}
	for _, p := range n.Partitions {
		out.Labels = append(out.Labels, hare.Label{Name: "partition." + p, Value: "yes"})
	}
	return out
}

// sessionJob is a job as the session gets it; nil where no node could run it.
func sessionJob(j *Job, nodes []Node, types []string, speeds *history.Speeds) *hare.Job {
	feature, ok := parseConstraint(j.Features)
	can := map[string]bool{}
	everywhere := true // all nodes with GPUs satisfy the constraint and are in the partition
	for i := range nodes {
		n := &nodes[i]
		if len(n.GPUs) == 0 || n.Out {
			continue
		}
		if slices.Contains(j.NotNodes, n.Name) || ok && !feature.admits(n.Features) ||
			j.Partition != "" && len(n.Partitions) > 0 && !sharesPartition(j.Partition, n.Partitions) {
			everywhere = false
			continue
		}
		for _, g := range n.GPUs {
			can[g.Type] = true
		}
	}
	if j.State == history.Running { // its GPUs count, whatever was asked
		for _, h := range j.On {
			can[h.Type] = true
		}
	}
	only := int64(len(j.OnlyNodes)) >= max(1, j.Nodes) // all of its nodes are named
	for t := range can {
		if only && !slices.ContainsFunc(nodes, func(n Node) bool {
			return slices.Contains(j.OnlyNodes, n.Name) && slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool {
				return g.Type == t
			})
		}) {
			delete(can, t)
		}
	}
	out := advice.Spec(&j.Job, slices.DeleteFunc(slices.Clone(types), func(t string) bool { return !can[t] }), speeds)
	if out != nil && len(j.NotNodes) > 0 {
		out.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: j.NotNodes}}
	}
	if out != nil && only {
		out.Only = append(out.Only, hare.LabelValues{Label: hare.LabelNode, Values: j.OnlyNodes})
	}
	if out == nil || everywhere {
		return out
	}
	if !feature.either {
		for _, f := range feature.names {
			out.Only = append(out.Only, hare.LabelValues{Label: "feature." + f, Values: []string{"yes"}})
		}
	}
	if p, _, several := strings.Cut(j.Partition, ","); p != "" && !several && leavesOut(p, nodes) {
		out.Only = append(out.Only, hare.LabelValues{Label: "partition." + p, Values: []string{"yes"}})
	}
	slices.SortFunc(out.Only, func(a, b hare.LabelValues) int { return strings.Compare(a.Label, b.Label) })
	out.Only = slices.CompactFunc(out.Only, func(a, b hare.LabelValues) bool { return a.Label == b.Label })
	return out
}

func sharesPartition(wanted string, has []string) bool {
	return slices.ContainsFunc(strings.Split(wanted, ","), func(p string) bool { return slices.Contains(has, p) })
}

// leavesOut reports whether a node with GPUs is not in the partition.
func leavesOut(partition string, nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return len(n.GPUs) > 0 && !n.Out && !slices.Contains(n.Partitions, partition)
	})
}
