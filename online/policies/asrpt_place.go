package policies

import (
	"errors"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/jobgraph"
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
func (a *asrpt) training(j *JobState) *jobgraph.Training {
	t, ok := a.cfg.Graphs[j.spec.ID]
	if a.placing.named != nil {
		t, ok = a.namedBy(j)
	}
	if !ok || int64(t.Graph.GPUs()) != j.spec.Tasks || j.spec.TaskGPUs() != 1 {
		return nil
	}
	return &t
}

// namedBy is the training of a job by its class, and by its compute time on the first type of its profile on
// which the graph has times.
func (a *asrpt) namedBy(j *JobState) (jobgraph.Training, bool) {
	if j.spec.Hints == nil {
		return jobgraph.Training{}, false
	}
	at := slices.IndexFunc(j.spec.Hints.Class, func(l hare.ClassLabel) bool { return l.Name == "graph" })
	if at < 0 || a.placing.named[j.spec.Hints.Class[at].Value] == nil {
		return jobgraph.Training{}, false
	}
	g := a.placing.named[j.spec.Hints.Class[at].Value]
	for i := range j.spec.On {
		p := &j.spec.On[i]
		if us := g.LongestComputeUs(p.Type); us > 0 && p.ComputeUs > 0 {
			return jobgraph.Training{Graph: g, Iterations: max(1, p.ComputeUs/us)}, true
		}
	}
	return jobgraph.Training{Graph: g, Iterations: 1}, true
}

// network is that of the nodes of the scheduler.
func (a *asrpt) network(l *ListScheduler) *jobgraph.Network {
	if a.placing.net == nil {
		a.placing.net = jobgraph.NetworkOf(a.cfg.mbps, func(x, y int) int { return l.nodes.Apart(int32(x), int32(y)) })
	}
	return a.placing.net
}

// leastUs is how long a round of a job takes with α_min, on the type on which that is least.
func (a *asrpt) leastUs(l *ListScheduler, j *JobState) int64 {
	us, _ := a.leastOn(l, j)
	return us
}

// leastOn is leastUs with the type; −1 where there is none.
func (a *asrpt) leastOn(l *ListScheduler, j *JobState) (us int64, gpuType int) {
	gpuType = -1
	t := a.training(j)
	if t == nil {
		us = l.RoundUs(j)
		for _, m := range j.modes {
			if m.durationUs == us {
				return us, m.gpuType
			}
		}
		return us, -1
	}
	for _, m := range j.modes {
		if on := times(a.consolidatedUs(l, j, t.Graph, m.gpuType), t.Iterations); on > 0 && (gpuType < 0 || on < us) {
			us, gpuType = on, m.gpuType
		}
	}
	if gpuType < 0 {
		us = l.RoundUs(j)
	}
	return us, gpuType
}

// consolidatedUs is α_min of the graph of a job: α of Heavy-Edge if all GPUs of a type in service are free on the
// nodes that the job may use, or 0 where they are too few.
func (a *asrpt) consolidatedUs(l *ListScheduler, j *JobState, g *jobgraph.Graph, gpuType int) int64 {
	p := &a.placing
	if p.least == nil || p.capacity != l.capacity || len(p.least) >= maxLeast {
		p.least, p.capacity = map[leastKey]int64{}, l.capacity
	}
	key := leastKey{g, gpuType, l.nodes.Key(j.shape)}
	us, known := p.least[key]
	if !known {
		var all []int
		for i := range l.gpus {
			if x := &l.gpus[i]; x.inService && x.gpuType == gpuType {
				all = append(all, i)
			}
		}
		servers := a.servers(l, all, func(node int32) int64 { return l.nodes.MostOn(j.shape, gpuType, node) })
		if nodes := g.HeavyEdge(servers); nodes != nil {
			us = g.IterationUs(l.types[gpuType], nodes, a.network(l))
		}
		p.least[key] = us
	}
	return us
}

// servers are the nodes of GPUs, in the order of their first ones, each with as many of the GPUs as it has room for.
// It takes O(GPUs + nodes).
func (a *asrpt) servers(l *ListScheduler, gpus []int, room func(node int32) int64) (all []jobgraph.Server) {
	left := slices.Repeat([]int64{-1}, l.nodes.Len()) // room by node; −1 where no GPU of it came
	at := make([]int, l.nodes.Len())
	for _, g := range gpus {
		n := l.nodes.Node(g)
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
func (a *asrpt) pick(l *ListScheduler, j *JobState, gpuType int, avoid placement.Avoid) []int {
	t := a.training(j)
	if t == nil {
		return nil
	}
	servers := a.servers(l, l.free[gpuType], func(node int32) int64 {
		if avoid != nil && avoid(node) {
			return 0
		}
		return l.nodes.RoomOn(j.shape, gpuType, node)
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
		for int(l.nodes.Node(l.free[gpuType][at])) != n {
			at++
		}
		gpus = append(gpus, l.free[gpuType][at])
		next[n] = at + 1
	}
	if l.nodes.Check(j.shape, gpus) != "" {
		return nil
	}
	return gpus
}

// waits reports whether a job is heavy on communication and waits for GPUs that are nearer together than
// those at hand.
func (a *asrpt) waits(l *ListScheduler, j *JobState) bool {
	if a.cfg.DelayUs < 0 || l.nodes == nil || j.startedUs >= 0 || a.idle(l) ||
		srptOf(j).farUs >= 0 && l.nowUs >= a.untilUs(j) {
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
func (a *asrpt) mostUs(l *ListScheduler, j *JobState, t *jobgraph.Training, gpuType int) int64 {
	if t != nil {
		return times(t.Graph.MostUs(l.types[gpuType], a.network(l)), t.Iterations)
	}
	for i := range j.spec.On {
		if p := &j.spec.On[i]; p.Type == l.types[gpuType] {
			return p.ComputeUs + p.SyncUs
		}
	}
	return 0
}

// atHandUs is how long a round of a job takes on the free GPUs that it would get, 0 where it would get
// none.
func (a *asrpt) atHandUs(l *ListScheduler, j *JobState, t *jobgraph.Training) int64 {
	for _, m := range j.modes {
		if !l.canUse(j, m, j.spec.Tasks) {
			continue
		}
		gpus := l.pick(j, m.gpuType, j.spec.Tasks, l.avoid(j, m))
		if len(gpus) == 0 {
			continue
		}
		if t != nil {
			nodes := make([]int, len(gpus))
			for i, g := range gpus {
				nodes[i] = int(l.nodes.Node(g))
			}
			return times(t.Graph.IterationUs(l.types[m.gpuType], nodes, a.network(l)), t.Iterations)
		}
		for i := range j.spec.On {
			if p := &j.spec.On[i]; p.Type == l.types[m.gpuType] {
				return p.ComputeUs + l.nodes.SyncUs(p, l.nodes.Spread(gpus))
			}
		}
	}
	return 0
}
