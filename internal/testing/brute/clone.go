package brute

import (
	"slices"

	"github.com/hare-sched/hare"
)

// Clone returns a copy of an instance that shares no slice with it.
func Clone(inst *hare.Instance) *hare.Instance {
	c := *inst
	c.Cluster.Topology = slices.Clone(inst.Cluster.Topology)
	c.Cluster.Nodes = slices.Clone(inst.Cluster.Nodes)
	for i := range c.Cluster.Nodes {
		n := &c.Cluster.Nodes[i]
		n.GPUs, n.Windows, n.Busy = slices.Clone(n.GPUs), slices.Clone(n.Windows), slices.Clone(n.Busy)
		n.Labels = slices.Clone(n.Labels)
	}
	c.Cluster.Reservations = slices.Clone(inst.Cluster.Reservations)
	for i := range c.Cluster.Reservations {
		v := &c.Cluster.Reservations[i]
		v.Nodes, v.Users, v.Jobs = cloneLabels(v.Nodes), slices.Clone(v.Users), slices.Clone(v.Jobs)
	}
	c.Quota = slices.Clone(inst.Quota)
	for i := range c.Quota {
		c.Quota[i].Types = slices.Clone(c.Quota[i].Types)
	}
	c.Jobs = slices.Clone(inst.Jobs)
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.On, j.Users, j.After = cloneProfiles(j.On), slices.Clone(j.Users), slices.Clone(j.After)
		j.Only, j.Exclude = cloneLabels(j.Only), cloneLabels(j.Exclude)
		j.Durations, j.Shapes = slices.Clone(j.Durations), slices.Clone(j.Shapes)
		for x := range j.Shapes {
			j.Shapes[x].On = cloneProfiles(j.Shapes[x].On)
		}
		if j.Progress != nil {
			p := *j.Progress
			p.GPUs = slices.Clone(p.GPUs)
			j.Progress = &p
		}
	}
	return &c
}

func cloneLabels(in []hare.LabelValues) []hare.LabelValues {
	out := slices.Clone(in)
	for i := range out {
		out[i].Values = slices.Clone(out[i].Values)
	}
	return out
}

func cloneProfiles(in []hare.Profile) []hare.Profile {
	out := slices.Clone(in)
	for i := range out {
		out[i].SyncAt = slices.Clone(out[i].SyncAt)
	}
	return out
}
