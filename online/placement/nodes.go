// Package placement keeps which GPUs, CPUs and memory of each node are free, and finds
// nodes with room for the tasks of a job: best fit, by the rules of docs/reference/model.md. The
// policies of sessions and simulations share it.
package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// Matters reports whether a job has rules about nodes: several GPUs a task, CPUs, memory,
// distinct nodes, nodes that it may not use, or levels.
func Matters(j *hare.Job) bool {
	return j.GPUsPerTask > 1 || j.CPUMilliPerTask > 0 || j.MemoryMiBPerTask > 0 || j.DistinctNodes ||
		len(j.Only)+len(j.Exclude) > 0 || UsesLevels(j)
}

// NodeName is the name of the node of a GPU, which is named node/index.
func NodeName(gpu string) string {
	if at := strings.IndexByte(gpu, '/'); at >= 0 {
		return gpu[:at]
	}
	return gpu
}

// Nodes are the nodes with GPUs in service. Callers number GPUs and types. No answer depends
// on the order in which GPUs have joined, only on their numbers. A Nodes is not safe for
// concurrent use.
type Nodes struct {
	nodes   []node
	vacant  []int32
	of      map[string]int32
	gpus    []gpu // by number
	shapes  []shape
	unused  []Shape
	shapeOf map[string]Shape
	version int64   // counts changes of what is in service
	order   []int32 // see inOrder
	orderAt int64   // version of order

	quotas   []quotaUse
	typeName func(gpuType int) string
	domains  domains

	candidates []candidate
	found      [][]part // in first, by type
	sums       []int64
	used       []int32
	rooms      []domainRoom
}

// node is one machine; a vacant slot has no name.
type node struct {
	spec                hare.Node // name, labels and limits
	cpuMilli, memoryMiB int64     // what is held
	types               []gpusOfType
	gpus                int     // in service
	domains             []int32 // by level of a label, the finest first
}

type gpusOfType struct {
	gpuType   int
	inService int64
	free      []int32 // ascending
}

type gpu struct {
	node, gpuType int32
	here          bool
}

// part is some tasks on the GPUs of one type of one node.
type part struct {
	node  int32
	typ   int
	tasks int64
}

// Shape numbers what a task of a job needs of a node. Jobs whose tasks need the same have
// the same shape.
type Shape int32

type shape struct {
	key       string
	jobs      int
	gpus      int64
	cpuMilli  int64
	memoryMiB int64
	distinct  bool
	quotas    []int32  // those that count the jobs
	levels    []int    // see levelsOf; nil where tasks may be on any nodes, and times do not go by their spread
	selector  hare.Job // only and exclude
	all       bool     // whether all nodes are allowed
	allowed   []bool   // by node
	most      []int64  // by type, the room of an empty cluster; −1 where it is not known yet
	mostAt    int64    // Nodes.version of most
}

// candidate is a node with room.
type candidate struct {
	free  int64 // GPUs
	first int32 // the first free GPU
	node  int32
	room  int64
	at    int // of the type
}

// domainRoom is the room in a domain.
type domainRoom struct {
	tasks, free int64 // free counts GPUs
	first       int32 // the least free GPU
}

// New makes an empty Nodes.
func New() *Nodes {
	return &Nodes{of: map[string]int32{}, shapeOf: map[string]Shape{}, domains: newDomains(nil)}
}

// SetTopology says by which labels nodes are near each other, coarse ones first, before the first
// GPU joins. Every node that joins has all of them.
func (ns *Nodes) SetTopology(labels []string) { ns.domains = newDomains(labels) }

// Join puts a GPU of a node in service, free.
func (ns *Nodes) Join(number int, gpuType int, spec *hare.Node) {
	ns.version++
	n, known := ns.of[spec.Name]
	if !known {
		n = ns.addNode(spec)
	}
	for len(ns.gpus) <= number {
		ns.gpus = append(ns.gpus, gpu{})
	}
	ns.gpus[number] = gpu{node: n, gpuType: int32(gpuType), here: true}
	x := &ns.nodes[n]
	x.gpus++
	at, ok := x.find(gpuType)
	if !ok {
		x.types = slices.Insert(x.types, at, gpusOfType{gpuType: gpuType})
	}
	x.types[at].inService++
	x.types[at].put(int32(number))
}

func (ns *Nodes) addNode(spec *hare.Node) int32 {
	n := int32(len(ns.nodes))
	if last := len(ns.vacant) - 1; last >= 0 {
		n, ns.vacant = ns.vacant[last], ns.vacant[:last]
	} else {
		ns.nodes = append(ns.nodes, node{})
	}
	ns.nodes[n] = node{spec: hare.Node{Name: spec.Name, Labels: spec.Labels, CPUMilli: spec.CPUMilli,
		MemoryMiB: spec.MemoryMiB}, domains: ns.domains.join(spec)}
	ns.of[spec.Name] = n
	for i := range ns.shapes {
		ns.shapes[i].allow(n, &ns.nodes[n].spec)
	}
	return n
}

// Leave takes a free GPU out of service.
func (ns *Nodes) Leave(number int) {
	ns.version++
	g := &ns.gpus[number]
	x := &ns.nodes[g.node]
	at, _ := x.find(int(g.gpuType))
	x.types[at].take(int32(number))
	x.types[at].inService--
	g.here = false
	if x.gpus--; x.gpus == 0 {
		delete(ns.of, x.spec.Name)
		ns.domains.leave(x.domains)
		*x = node{}
		ns.vacant = append(ns.vacant, g.node)
	}
}

func (n *node) find(gpuType int) (at int, ok bool) {
	for at < len(n.types) && n.types[at].gpuType < gpuType { // a node has few types
		at++
	}
	return at, at < len(n.types) && n.types[at].gpuType == gpuType
}

func (gt *gpusOfType) put(g int32) {
	at, _ := slices.BinarySearch(gt.free, g)
	gt.free = slices.Insert(gt.free, at, g)
}

func (gt *gpusOfType) take(g int32) {
	if at, ok := slices.BinarySearch(gt.free, g); ok {
		gt.free = slices.Delete(gt.free, at, at+1)
	}
}

func (ns *Nodes) list(number int) *gpusOfType {
	g := &ns.gpus[number]
	x := &ns.nodes[g.node]
	at, _ := x.find(int(g.gpuType))
	return &x.types[at]
}

// Take takes a free GPU from the free ones, and Free gives it back.
func (ns *Nodes) Take(number int) { ns.list(number).take(int32(number)) }

// Free gives a GPU back that was taken.
func (ns *Nodes) Free(number int) { ns.list(number).put(int32(number)) }

// IsFree reports whether a GPU is in service and free.
func (ns *Nodes) IsFree(number int) bool {
	if number >= len(ns.gpus) || !ns.gpus[number].here {
		return false
	}
	_, free := slices.BinarySearch(ns.list(number).free, int32(number))
	return free
}

// Node numbers the node of a GPU in service. The number holds until the node's last GPU leaves.
func (ns *Nodes) Node(number int) int32 { return ns.gpus[number].node }

// Len is more than the number of every node.
func (ns *Nodes) Len() int { return len(ns.nodes) }

// Name is the name of a node, and Number the number of a node by its name.
func (ns *Nodes) Name(node int32) string { return ns.nodes[node].spec.Name }

// Number finds a node with GPUs in service.
func (ns *Nodes) Number(name string) (node int32, ok bool) {
	node, ok = ns.of[name]
	return node, ok
}

// Hold adds what tasks of a shape need of CPUs and memory to what is held on the node of a
// GPU, and their GPUs to what is held of quotas; a negative number gives it back.
func (ns *Nodes) Hold(number int, s Shape, tasks int64) {
	ns.HoldNode(number, s, tasks)
	ns.HoldQuota(s, int(ns.gpus[number].gpuType), tasks)
}

// HoldNode is Hold without quotas.
func (ns *Nodes) HoldNode(number int, s Shape, tasks int64) {
	x, sh := &ns.nodes[ns.gpus[number].node], &ns.shapes[s]
	x.cpuMilli += tasks * sh.cpuMilli
	x.memoryMiB += tasks * sh.memoryMiB
}

// Add finds the shape of a job; Drop forgets it.
func (ns *Nodes) Add(j *hare.Job) Shape {
	key := fmt.Sprint(j.TaskGPUs(), j.CPUMilliPerTask, j.MemoryMiBPerTask, j.DistinctNodes)
	for _, selector := range [][]hare.LabelValues{j.Only, j.Exclude} {
		key += fmt.Sprint(";", len(selector))
		for _, lv := range selector {
			key += fmt.Sprintf("%q%q", lv.Label, lv.Values)
		}
	}
	quotas := ns.quotasOf(j.Users)
	if len(quotas) > 0 {
		key += fmt.Sprint(";", quotas)
	}
	levels := levelsOf(ns.domains.levels, j)
	if levels != nil {
		key += fmt.Sprint(";levels", levels)
	}
	if s, ok := ns.shapeOf[key]; ok {
		ns.shapes[s].jobs++
		return s
	}
	s := Shape(len(ns.shapes))
	if last := len(ns.unused) - 1; last >= 0 {
		s, ns.unused = ns.unused[last], ns.unused[:last]
	} else {
		ns.shapes = append(ns.shapes, shape{})
	}
	sh := &ns.shapes[s]
	*sh = shape{key: key, jobs: 1, gpus: j.TaskGPUs(), cpuMilli: j.CPUMilliPerTask, memoryMiB: j.MemoryMiBPerTask,
		distinct: j.DistinctNodes, quotas: quotas, levels: levels, all: len(j.Only)+len(j.Exclude) == 0,
		selector: hare.Job{Only: j.Only, Exclude: j.Exclude}}
	ns.shapeOf[key] = s
	for n := range ns.nodes {
		if ns.nodes[n].gpus > 0 {
			sh.allow(int32(n), &ns.nodes[n].spec)
		}
	}
	return s
}

// Drop forgets the shape of a job that has gone.
func (ns *Nodes) Drop(s Shape) {
	sh := &ns.shapes[s]
	if sh.jobs--; sh.jobs == 0 {
		delete(ns.shapeOf, sh.key)
		*sh = shape{}
		ns.unused = append(ns.unused, s)
	}
}

func (sh *shape) allow(n int32, spec *hare.Node) {
	if sh.all {
		return
	}
	for len(sh.allowed) <= int(n) {
		sh.allowed = append(sh.allowed, false)
	}
	sh.allowed[n] = sh.selector.AllowsNode(spec)
}

func (sh *shape) allows(n int) bool { return sh.all || n < len(sh.allowed) && sh.allowed[n] }

// room is how many tasks fit on a node with so many free GPUs of one type, where so many
// CPUs and so much memory are held.
func (sh *shape) room(x *node, free, cpuMilli, memoryMiB int64) int64 {
	room := free / sh.gpus
	if x.spec.CPUMilli > 0 && sh.cpuMilli > 0 {
		room = min(room, max(0, x.spec.CPUMilli-cpuMilli)/sh.cpuMilli)
	}
	if x.spec.MemoryMiB > 0 && sh.memoryMiB > 0 {
		room = min(room, max(0, x.spec.MemoryMiB-memoryMiB)/sh.memoryMiB)
	}
	if sh.distinct {
		room = min(room, 1)
	}
	return room
}

// within is the level of which one domain holds all tasks; there must be levels.
func (sh *shape) within() int { return sh.levels[len(sh.levels)-1] }

// Key names what tasks of a shape need: two shapes with the same key need the same of the same nodes, also where
// one of them was dropped before the other was added.
func (ns *Nodes) Key(s Shape) string { return ns.shapes[s].key }

// Avoid says which nodes may not be used; nil means none. It is asked by number of a node.
type Avoid func(node int32) bool
