package shadow

import (
	"math"
	"slices"
	"strings"

	"strconv"

	"github.com/hare-sched/hare"
)

// cluster is the nodes of an instance, with their GPUs by type.
type cluster struct {
	types []string // sorted
	nodes []node
	gpu   map[string]gpuRef // by name
}

// node is a node with what it has.
type node struct {
	name        string
	spec        *hare.Node
	count       []int64 // GPUs by type
	cpu, memory int64   // math.MaxInt64 where the node says none
}

// gpuRef is the node and the type of a GPU.
type gpuRef struct{ node, kind int32 }

// newCluster lists the nodes of an instance whose nodes carry no counts, as those of histories.
func newCluster(inst *hare.Instance) *cluster {
	c := &cluster{gpu: map[string]gpuRef{}}
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			c.types = append(c.types, g.Type)
		}
	}
	slices.Sort(c.types)
	c.types = slices.Compact(c.types)
	for i := range inst.Cluster.Nodes {
		spec := &inst.Cluster.Nodes[i]
		n := node{name: spec.Name, spec: spec, count: make([]int64, len(c.types)),
			cpu: math.MaxInt64, memory: math.MaxInt64}
		if spec.CPUMilli > 0 {
			n.cpu = spec.CPUMilli
		}
		if spec.MemoryMiB > 0 {
			n.memory = spec.MemoryMiB
		}
		at := 0
		for _, g := range spec.GPUs {
			k, _ := slices.BinarySearch(c.types, g.Type)
			n.count[k] = int64(g.Count)
			for x := range g.Count {
				c.gpu[spec.Name+"/"+itoa(at+x)] = gpuRef{int32(i), int32(k)}
			}
			at += g.Count
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// kind is the number of a GPU type, or −1 where the cluster does not have the type.
func (c *cluster) kind(name string) int {
	if k, found := slices.BinarySearch(c.types, name); found {
		return k
	}
	return -1
}

// request is what a job needs at each time at which it runs.
type request struct {
	tasks, gpus, cpu, memory int64 // gpus, cpu and memory are of a task
	distinct, mix            bool
	durationUs               []int64 // by type; 0 means that the job does not run there
	nodes                    []int32 // the nodes that the job may use, in order
	key                      string  // equal where two requests need the same, but for the durations
}

// requests lists what the jobs of an instance need. Jobs with the same rules share their lists of
// nodes.
func (c *cluster) requests(inst *hare.Instance) []request {
	lists := map[string][]int32{}
	out := make([]request, len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		r := &out[i]
		*r = request{tasks: j.Tasks, gpus: j.TaskGPUs(), cpu: j.CPUMilliPerTask, memory: j.MemoryMiBPerTask,
			distinct: j.DistinctNodes, mix: j.Mix, durationUs: make([]int64, len(c.types))}
		var key strings.Builder
		for _, list := range [][]hare.LabelValues{j.Only, j.Exclude} {
			for _, l := range list {
				key.WriteString(l.Label + "\x00" + strings.Join(l.Values, "\x01") + "\x02")
			}
			key.WriteByte(3)
		}
		rules := key.String()
		nodes, known := lists[rules]
		if !known {
			for n := range c.nodes {
				if j.AllowsNode(c.nodes[n].spec) {
					nodes = append(nodes, int32(n))
				}
			}
			lists[rules] = nodes
		}
		r.nodes = nodes
		for _, p := range j.On {
			if k := c.kind(p.Type); k >= 0 {
				r.durationUs[k] = p.DurationUs() * j.Rounds
			}
		}
		r.key = r.shape(rules)
	}
	return out
}

// shape is a text that is equal for requests that need the same on the same types and nodes.
func (r *request) shape(rules string) string {
	var b strings.Builder
	for _, n := range []int64{r.tasks, r.gpus, r.cpu, r.memory} {
		b.WriteString(itoa(int(n)) + ",")
	}
	if r.distinct {
		b.WriteByte('d')
	}
	if r.mix {
		b.WriteByte('m')
	}
	for _, us := range r.durationUs {
		if us > 0 {
			b.WriteByte('+')
		} else {
			b.WriteByte('-')
		}
	}
	b.WriteString(rules)
	return b.String()
}

// room is how much of each node is free at one time.
type room struct {
	free        [][]int64 // by node and type
	cpu, memory []int64   // by node
	open        []bool    // by node: in service
}

// newRoom is the room of the empty cluster.
func newRoom(c *cluster) *room {
	r := &room{free: make([][]int64, len(c.nodes)), cpu: make([]int64, len(c.nodes)),
		memory: make([]int64, len(c.nodes)), open: make([]bool, len(c.nodes))}
	for i := range c.nodes {
		n := &c.nodes[i]
		r.free[i], r.cpu[i], r.memory[i], r.open[i] = slices.Clone(n.count), n.cpu, n.memory, true
	}
	return r
}

// copyFrom makes r equal to another room of the same cluster.
func (r *room) copyFrom(o *room) {
	for i := range o.free {
		copy(r.free[i], o.free[i])
	}
	copy(r.cpu, o.cpu)
	copy(r.memory, o.memory)
	copy(r.open, o.open)
}

// tasks is how many tasks of a job fit on the GPUs of a type of a node.
func (r *room) tasks(req *request, node, kind int32) int64 {
	if !r.open[node] || req.durationUs[kind] == 0 {
		return 0
	}
	n := r.free[node][kind] / req.gpus
	if req.cpu > 0 {
		n = min(n, r.cpu[node]/req.cpu)
	}
	if req.memory > 0 {
		n = min(n, r.memory[node]/req.memory)
	}
	if req.distinct {
		n = min(n, 1)
	}
	return max(0, n)
}

func itoa(n int) string { return strconv.Itoa(n) }
