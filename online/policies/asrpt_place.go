package policies

import (
	"errors"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/placement"
)

// placing is what asrpt knows of places: the network, and α_min of the graphs on the GPUs in service.
type placing struct {
	net      *jobgraph.Network // between nodes of l.nodes; nil without graphs
	capacity int64             // of the scheduler, when least was found
	least    map[leastKey]int64
	named    map[string]*jobgraph.Graph // of sessions
	hardware *graphHardware             // of which named was made
}

// graphHardware is what graphs need of the cluster of a session.
type graphHardware struct {
	Topology   []string              `json:"topology,omitempty"`
	Bandwidths []hare.LevelBandwidth `json:"bandwidths"`
	GPUTypes   []hare.GPUType        `json:"gpu_types,omitempty"`
	Types      []string              `json:"types"`
}

// open makes the graphs of a session on its cluster.
func (a *asrpt) open(cluster *hare.Cluster) error {
	h := &graphHardware{cluster.Topology, cluster.Bandwidths, cluster.GPUTypes, nil}
	for _, n := range cluster.Nodes {
		for _, g := range n.GPUs {
			if !slices.Contains(h.Types, g.Type) {
				h.Types = append(h.Types, g.Type)
			}
		}
	}
	return a.equip(h)
}

// equip makes the graphs for what a cluster has.
func (a *asrpt) equip(h *graphHardware) error {
	c := &hare.Cluster{Topology: h.Topology, Bandwidths: h.Bandwidths, GPUTypes: h.GPUTypes}
	n := hare.Node{Name: "n"}
	for _, t := range h.Types {
		n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: 1})
	}
	c.Nodes = append(c.Nodes, n)
	graphs, net, err := a.cfg.Named.Graphs(c)
	if err != nil {
		err = firstFault(err)
		var fault *hare.InvalidError
		if errors.As(err, &fault) {
			return &hare.InvalidError{Pointer: "/graphs" + strings.TrimPrefix(fault.Pointer, "/cluster/bandwidth_gbps"),
				Code: fault.Code, Detail: fault.Detail}
		}
		return err
	}
	a.cfg.mbps, a.placing.hardware, a.placing.named = net.Mbps(), h, map[string]*jobgraph.Graph{}
	for _, g := range graphs {
		a.placing.named[g.Name] = g
	}
	return nil
}

// leastKey is a graph on a GPU type, on the nodes that the tasks of a shape may use (placement.Nodes.Key).
type leastKey struct {
	graph   *jobgraph.Graph
	gpuType int
	shape   string
}

// maxLeast is how many values of α_min are kept.
const maxLeast = 1 << 14

// training is the graph of a job and its iterations of a round; nil where the job has none.
func (a *asrpt) training(j *list.JobState) *jobgraph.Training {
	t, ok := a.cfg.Graphs[j.Spec().ID]
	if a.placing.named != nil {
		t, ok = a.namedBy(j)
	}
	if !ok || int64(t.Graph.GPUs()) != j.Spec().Tasks || j.Spec().TaskGPUs() != 1 {
		return nil
	}
	return &t
}

// namedBy is the training of a job by its class, and by its compute time on the first type of its profile on
// which the graph has times.
func (a *asrpt) namedBy(j *list.JobState) (jobgraph.Training, bool) {
	if j.Spec().Hints == nil {
		return jobgraph.Training{}, false
	}
	at := slices.IndexFunc(j.Spec().Hints.Class, func(l hare.ClassLabel) bool { return l.Name == "graph" })
	if at < 0 || a.placing.named[j.Spec().Hints.Class[at].Value] == nil {
		return jobgraph.Training{}, false
	}
	g := a.placing.named[j.Spec().Hints.Class[at].Value]
	for i := range j.Spec().On {
		p := &j.Spec().On[i]
		if us := g.LongestComputeUs(p.Type); us > 0 && p.ComputeUs > 0 {
			return jobgraph.Training{Graph: g, Iterations: max(1, p.ComputeUs/us)}, true
		}
	}
	return jobgraph.Training{Graph: g, Iterations: 1}, true
}

// network is that of the nodes of the scheduler.
func (a *asrpt) network(l *list.Scheduler) *jobgraph.Network {
	if a.placing.net == nil {
		a.placing.net = jobgraph.NetworkOf(a.cfg.mbps, func(x, y int) int { return l.Nodes().Apart(int32(x), int32(y)) })
	}
	return a.placing.net
}

// leastUs is how long a round of a job takes with α_min, on the type on which that is least.
func (a *asrpt) leastUs(l *list.Scheduler, j *list.JobState) int64 {
	us, _ := a.leastOn(l, j)
	return us
}

// leastOn is leastUs with the type; −1 where there is none.
func (a *asrpt) leastOn(l *list.Scheduler, j *list.JobState) (us int64, gpuType int) {
	gpuType = -1
	t := a.training(j)
	if t == nil {
		us = l.RoundUs(j)
		for _, m := range j.Modes() {
			if m.DurationUs == us {
				return us, m.Type
			}
		}
		return us, -1
	}
	for _, m := range j.Modes() {
		if on := saturating.Mul(a.consolidatedUs(l, j, t.Graph, m.Type), t.Iterations); on > 0 && (gpuType < 0 || on < us) {
			us, gpuType = on, m.Type
		}
	}
	if gpuType < 0 {
		us = l.RoundUs(j)
	}
	return us, gpuType
}

// consolidatedUs is α_min of the graph of a job: α of Heavy-Edge if all GPUs of a type in service are free on the
// nodes that the job may use, or 0 where they are too few.
func (a *asrpt) consolidatedUs(l *list.Scheduler, j *list.JobState, g *jobgraph.Graph, gpuType int) int64 {
	p := &a.placing
	if p.least == nil || p.capacity != l.Capacity() || len(p.least) >= maxLeast {
		p.least, p.capacity = map[leastKey]int64{}, l.Capacity()
	}
	key := leastKey{g, gpuType, l.Nodes().Key(j.Shape())}
	us, known := p.least[key]
	if !known {
		var all []int
		for i := range l.Slots() {
			if x := &l.Slots()[i]; x.InService && x.Type == gpuType {
				all = append(all, i)
			}
		}
		servers := a.servers(l, all, func(node int32) int64 { return l.Nodes().MostOn(j.Shape(), gpuType, node) })
		if nodes := g.HeavyEdge(servers); nodes != nil {
			us = g.IterationUs(l.Types()[gpuType], nodes, a.network(l))
		}
		p.least[key] = us
	}
	return us
}

// servers are the nodes of GPUs, in the order of their first ones, each with as many of the GPUs as it has room for.
// It takes O(GPUs + nodes).
func (a *asrpt) servers(l *list.Scheduler, gpus []int, room func(node int32) int64) (all []jobgraph.Server) {
	left := slices.Repeat([]int64{-1}, l.Nodes().Len()) // room by node; −1 where no GPU of it came
	at := make([]int, l.Nodes().Len())
	for _, g := range gpus {
		n := l.Nodes().Node(g)
		if left[n] < 0 {
			if left[n] = room(n); left[n] > 0 {
				at[n] = len(all)
				all = append(all, jobgraph.Server{Node: int(n)})
			}
		}
		if left[n] > 0 {
			left[n]--
			all[at[n]].Free++
		}
	}
	return all
}

// pick is Rule.picks: the GPUs of a job with a graph by Heavy-Edge, or by first fit, on the nodes that the job may
// use. It takes what HeavyEdge takes, and O(free GPUs · nodes).
func (a *asrpt) pick(l *list.Scheduler, j *list.JobState, gpuType int, avoid placement.Avoid) []int {
	t := a.training(j)
	if t == nil {
		return nil
	}
	servers := a.servers(l, l.Free()[gpuType], func(node int32) int64 {
		if avoid != nil && avoid(node) {
			return 0
		}
		return l.Nodes().RoomOn(j.Shape(), gpuType, node)
	})
	nodes := []int(nil)
	if a.cfg.FirstFit {
		nodes = t.Graph.FirstFit(servers)
	} else {
		nodes = t.Graph.HeavyEdge(servers)
	}
	if nodes == nil {
		return nil
	}
	gpus, next := make([]int, 0, len(nodes)), map[int]int{} // the place among the free GPUs, by node
	for _, n := range nodes {
		at := next[n]
		for int(l.Nodes().Node(l.Free()[gpuType][at])) != n {
			at++
		}
		gpus = append(gpus, l.Free()[gpuType][at])
		next[n] = at + 1
	}
	if l.Nodes().Check(j.Shape(), gpus) != "" {
		return nil
	}
	return gpus
}

// waits reports whether a job is heavy on communication and waits for GPUs that are nearer together than
// those at hand.
func (a *asrpt) waits(l *list.Scheduler, j *list.JobState) bool {
	if a.cfg.DelayUs < 0 || l.Nodes() == nil || j.StartedUs() >= 0 || a.idle(l) ||
		srptOf(j).farUs >= 0 && l.NowUs() >= a.untilUs(j) {
		return false
	}
	t := a.training(j)
	if t == nil && !j.TimesBySpread() {
		return false
	}
	least, gpuType := a.leastOn(l, j)
	if gpuType < 0 || float64(a.mostUs(l, j, t, gpuType)) < a.cfg.Heavy*float64(least) {
		return false
	}
	return float64(a.atHandUs(l, j, t)) > a.cfg.Near*float64(least)
}

// mostUs is how long a round of a job takes on a type with α_max.
func (a *asrpt) mostUs(l *list.Scheduler, j *list.JobState, t *jobgraph.Training, gpuType int) int64 {
	if t != nil {
		return saturating.Mul(t.Graph.MostUs(l.Types()[gpuType], a.network(l)), t.Iterations)
	}
	for i := range j.Spec().On {
		if p := &j.Spec().On[i]; p.Type == l.Types()[gpuType] {
			return p.ComputeUs + p.SyncUs
		}
	}
	return 0
}

// atHandUs is how long a round of a job takes on the free GPUs that it would get, 0 where it would get
// none.
func (a *asrpt) atHandUs(l *list.Scheduler, j *list.JobState, t *jobgraph.Training) int64 {
	for _, m := range j.Modes() {
		if !l.CanUse(j, m, j.Spec().Tasks) {
			continue
		}
		gpus := l.Pick(j, m.Type, j.Spec().Tasks, l.Avoid(j, m))
		if len(gpus) == 0 {
			continue
		}
		if t != nil {
			nodes := make([]int, len(gpus))
			for i, g := range gpus {
				nodes[i] = int(l.Nodes().Node(g))
			}
			return saturating.Mul(t.Graph.IterationUs(l.Types()[m.Type], nodes, a.network(l)), t.Iterations)
		}
		for i := range j.Spec().On {
			if p := &j.Spec().On[i]; p.Type == l.Types()[m.Type] {
				return p.ComputeUs + l.Nodes().SyncUs(p, l.Nodes().Spread(gpus))
			}
		}
	}
	return 0
}
