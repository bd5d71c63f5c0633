// Package placement keeps which GPUs, CPUs and memory of each node are free, and finds
// nodes with room for the tasks of a job: best fit, by the rules of docs/reference/model.md. The
// policies of sessions and simulations share it.
package placement

import (
	"fmt"
	"math"
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
	version int64 // counts changes of what is in service

	quotas   []quotaUse
	typeName func(gpuType int) string
	domains  domains

	candidates []candidate
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

// New makes an empty Nodes.
func New() *Nodes {
	return &Nodes{of: map[string]int32{}, shapeOf: map[string]Shape{}, domains: newDomains(nil)}
}

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

// Avoid says which nodes may not be used; nil means none. It is asked by number of a node.
type Avoid func(node int32) bool

// Room is how many tasks of a shape fit on free GPUs of a type now, or most if there are more:
// of a gang that keeps within a level, how many fit in one domain. It takes O(nodes).
func (ns *Nodes) Room(s Shape, gpuType int, most int64, avoid Avoid) int64 {
	sh, sum := &ns.shapes[s], int64(0)
	if len(sh.quotas) > 0 {
		most = min(most, ns.QuotaRoom(s, gpuType))
	}
	if sh.levels != nil && sh.within() < ns.domains.levels.Any() {
		return min(most, ns.roomWithin(s, gpuType, avoid))
	}
	for n := range ns.nodes {
		x := &ns.nodes[n]
		at, ok := x.find(gpuType)
		if !ok || int64(len(x.types[at].free)) < sh.gpus || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
			continue
		}
		if sum += sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB); sum >= most {
			return most
		}
	}
	return sum
}

// RoomOn is how many tasks of a shape fit on the free GPUs of a type of one node now, beside quotas.
func (ns *Nodes) RoomOn(s Shape, gpuType int, node int32) int64 {
	sh, x := &ns.shapes[s], &ns.nodes[node]
	at, ok := x.find(gpuType)
	if !ok || !sh.allows(int(node)) {
		return 0
	}
	return sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB)
}

// MostOn is RoomOn if all GPUs of the node in service were free.
func (ns *Nodes) MostOn(s Shape, gpuType int, node int32) int64 {
	sh, x := &ns.shapes[s], &ns.nodes[node]
	at, ok := x.find(gpuType)
	if !ok || !sh.allows(int(node)) {
		return 0
	}
	return sh.room(x, x.types[at].inService, 0, 0)
}

// Key names what tasks of a shape need: two shapes with the same key need the same of the same nodes, also where
// one of them was dropped before the other was added.
func (ns *Nodes) Key(s Shape) string { return ns.shapes[s].key }

// FreeGPUs is how many GPUs of a type are free on the nodes that may be used, and how many of them are on one node
// at most. It takes O(nodes).
func (ns *Nodes) FreeGPUs(gpuType int, avoid Avoid) (sum, onOne int64) {
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if at, ok := x.find(gpuType); ok && len(x.types[at].free) > 0 && !avoid(int32(n)) {
			free := int64(len(x.types[at].free))
			sum, onOne = sum+free, max(onOne, free)
		}
	}
	return sum, onOne
}

// Most is how many tasks of a shape would fit on the GPUs of a type in service if all were
// free, in one domain of a gang that keeps within a level. It takes O(nodes) after a change of
// what is in service, else O(1).
func (ns *Nodes) Most(s Shape, gpuType int) int64 {
	sh := &ns.shapes[s]
	if sh.mostAt != ns.version {
		sh.most, sh.mostAt = sh.most[:0], ns.version
	}
	for len(sh.most) <= gpuType {
		sh.most = append(sh.most, -1)
	}
	if sh.most[gpuType] < 0 {
		sh.most[gpuType] = min(ns.mostAt(sh, gpuType, ns.withinOf(sh)), ns.quotaLimit(s, gpuType))
	}
	return sh.most[gpuType]
}

// mostAt is how many tasks of a shape would fit on the GPUs of a type in service in one domain
// of a level if all were free, beside quotas.
func (ns *Nodes) mostAt(sh *shape, gpuType, level int) int64 {
	most := ns.newDomainSums(level)
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if at, ok := x.find(gpuType); ok && sh.allows(n) {
			most.add(int32(n), sh.room(x, x.types[at].inService, 0, 0))
		}
	}
	return most.greatest
}

// MostTogether is how many tasks of a shape would fit on the GPUs of some types in service
// together if all were free, in one domain of a gang that keeps within a level. It takes
// O(nodes · types).
func (ns *Nodes) MostTogether(s Shape, types []int) int64 {
	sh := &ns.shapes[s]
	most := ns.newDomainSums(ns.withinOf(sh))
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if x.gpus == 0 || !sh.allows(n) {
			continue
		}
		room := int64(0)
		for _, k := range types {
			if at, ok := x.find(k); ok {
				room += x.types[at].inService / sh.gpus
			}
		}
		most.add(int32(n), min(room, sh.room(x, math.MaxInt64, 0, 0)))
	}
	sum := most.greatest
	if len(sh.quotas) == 0 {
		return sum
	}
	byQuota := int64(0)
	for _, k := range types {
		byQuota += ns.Most(s, k)
	}
	return min(sum, byQuota, ns.together(s, types, func(q *quotaUse) int64 { return q.GPUs }))
}

// Name is the name of a node, and Number the number of a node by its name.
func (ns *Nodes) Name(node int32) string { return ns.nodes[node].spec.Name }

// Number finds a node with GPUs in service.
func (ns *Nodes) Number(name string) (node int32, ok bool) {
	node, ok = ns.of[name]
	return node, ok
}

// Check says why tasks of a shape cannot start on GPUs, those of each task together; "" means
// that they can. Distinct nodes are those of the GPUs given.
func (ns *Nodes) Check(s Shape, gpus []int) string { return ns.check(s, gpus, true) }

// CheckRunning is Check for work that runs already, which may exceed quotas.
func (ns *Nodes) CheckRunning(s Shape, gpus []int) string { return ns.check(s, gpus, false) }

func (ns *Nodes) check(s Shape, gpus []int, quotas bool) string {
	sh := &ns.shapes[s]
	if int64(len(gpus))%sh.gpus != 0 {
		return fmt.Sprintf("a task holds %d GPUs", sh.gpus)
	}
	ns.used = ns.used[:0]
	reason := ""
	for from := 0; from < len(gpus) && reason == ""; from += int(sh.gpus) {
		lead := ns.gpus[gpus[from]]
		x := &ns.nodes[lead.node]
		for _, g := range gpus[from : from+int(sh.gpus)] {
			if ns.gpus[g].node != lead.node || ns.gpus[g].gpuType != lead.gpuType {
				return "the GPUs of a task are of one type, on one node"
			}
		}
		switch {
		case !sh.allows(int(lead.node)):
			reason = "the job may not use the node"
		case sh.distinct && slices.Contains(ns.used, lead.node):
			reason = "the tasks of a round are on distinct nodes"
		case len(ns.used) > 0 && ns.domain(ns.withinOf(sh), lead.node) != ns.domain(ns.withinOf(sh), ns.used[0]):
			reason = fmt.Sprintf("the tasks of a round are within one %s", ns.domains.levels.Names[ns.withinOf(sh)])
		case sh.room(x, math.MaxInt64, x.cpuMilli, x.memoryMiB) < 1:
			reason = "the CPUs or the memory of the node are held by other tasks"
		case quotas && ns.QuotaRoom(s, int(lead.gpuType)) < 1:
			reason = "a quota of the job is held by other tasks"
		default:
			ns.used = append(ns.used, lead.node)
			ns.Hold(gpus[from], s, 1)
		}
	}
	for i := range ns.used {
		ns.Hold(gpus[i*int(sh.gpus)], s, -1)
	}
	return reason
}
