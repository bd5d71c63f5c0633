package list

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Open makes a scheduler for a session on a cluster. Errors are *hare.InvalidError.
func Open(cluster *hare.Cluster, parameters []byte,
	rule func(parameters []byte) (Rule, error)) (*Scheduler, error) {
	r, err := rule(parameters)
	if err != nil {
		return nil, err
	}
	if err := online.CheckCluster(cluster); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(parameters)) > 0 {
		r.parameters = slices.Clone(parameters)
	}
	return NewOpened(cluster, r)
}

// NewOpened is New for a rule that goes by what the cluster has.
func NewOpened(cluster *hare.Cluster, r Rule) (*Scheduler, error) {
	if r.Opened != nil {
		if err := r.Opened(cluster); err != nil {
			return nil, err
		}
	}
	return New(cluster, r), nil
}

// New makes a scheduler for a valid cluster. GPUs without windows of
// service and without work are in service at once; the others when they join.
func New(cluster *hare.Cluster, r Rule) *Scheduler {
	l := &Scheduler{rule: r, typeOf: map[string]int{}, gpuOf: map[string]int{}, jobOf: map[string]*JobState{}}
	if r.LearnSizes {
		l.belief = &SizeBelief{}
	}
	if cluster == nil {
		return l
	}
	l.described.SetTopology(cluster.Topology)
	var types []string
	for _, n := range cluster.Nodes {
		for _, g := range n.GPUs {
			types = append(types, g.Type)
		}
	}
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		l.addType(t)
	}
	for node, n := range cluster.Nodes {
		l.described.Set(&cluster.Nodes[node])
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				i := l.addGPU(n.Name+"/"+strconv.Itoa(at), l.typeOf[g.Type])
				l.gpus[i].initial, l.gpus[i].node = true, node
				at++
				if n.Windows == nil && len(n.Busy) == 0 {
					l.enterService(i)
				}
			}
		}
	}
	return l
}
