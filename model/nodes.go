package model

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"github.com/hare-sched/hare"
	"slices"
	"strings"
)

// Node is a node of the cluster in a Model.
type Node struct {
	Kind     int // the index in Model.Kinds
	FirstGPU int // the index in Model.GPUs of GPU 0 of the node; its other GPUs follow
}

// NodeKind stands for equal nodes: nodes with the same GPUs at the same times, the same CPUs
// and memory, in the same sets of Model.Sets and the same reservations. The nodes of a kind are
// interchangeable. Where levels matter, the nodes of a kind are in one domain of each level
// but the finest.
type NodeKind struct {
	CPUMilli, MemoryMiB int64 // 0 means no limit
	// GPUs are the GPUs that are available over time, for each type of the node, sorted by
	// type.
	GPUs  []TypeSteps
	Nodes []int32 // the indices in Model.Nodes, ascending
	In    []bool  // by index in Model.Sets: the nodes belong to the set
	// Reserved are the reservations that have the nodes, as indices in the cluster, ascending.
	Reserved []int32
	// Held is what work that runs at time 0 holds on each of the nodes, sorted by end.
	Held []Held
}

// Held are CPUs and memory that running work holds on a node from 0 to UntilUs.
type Held struct {
	UntilUs, CPUMilli, MemoryMiB int64
}

// TypeSteps are numbers of GPUs of one type over time.
type TypeSteps struct {
	Type  int // the index in Model.Types
	Steps []Step
}

// NodeSet is a set of nodes that some jobs may use, and the reservations that keep these jobs
// off their nodes.
type NodeSet struct {
	Nodes  []bool  // by index in Model.Nodes
	Closed []int32 // the indices in Cluster.Reservations, ascending
}

// addNodes fills in the part of a model that deals with nodes. It takes O(GPUs log GPUs +
// sets · nodes · labels + jobs · types · kinds).
func (m *Model) addNodes() {
	m.addSets()
	m.addKinds()
	fits := map[string]int64{}
	for i := range m.Jobs {
		m.Jobs[i].dropModes(func(j *Job, md Mode) bool {
			key := fmt.Sprint(md.Type, j.GPUs, j.CPUMilli, j.MemoryMiB, j.Distinct, j.Set)
			most, ok := fits[key]
			if !ok {
				most = MostRoom(m.TaskRoom(j, md.Type))
				fits[key] = most
			}
			return most == 0
		})
	}
}

// addSets finds the sets of nodes that jobs may use.
func (m *Model) addSets() {
	known := map[string]int{}
	for i := range m.Jobs {
		spec := &m.Instance.Jobs[i]
		closed := closedTo(m.Instance, spec)
		if len(spec.Only)+len(spec.Exclude)+len(closed) == 0 {
			continue
		}
		key := selectorKey(spec) + fmt.Sprint(closed)
		at, ok := known[key]
		if !ok {
			set := NodeSet{Nodes: make([]bool, len(m.Instance.Cluster.Nodes)), Closed: closed}
			for n := range set.Nodes {
				set.Nodes[n] = spec.AllowsNode(&m.Instance.Cluster.Nodes[n])
			}
			at = len(m.Sets)
			known[key] = at
			m.Sets = append(m.Sets, set)
		}
		m.Jobs[i].Set = at
	}
}

// closedTo returns the reservations that do not admit a job.
func closedTo(inst *hare.Instance, j *hare.Job) []int32 {
	var closed []int32
	for r := range inst.Cluster.Reservations {
		if !inst.Cluster.Reservations[r].Admits(j) {
			closed = append(closed, int32(r))
		}
	}
	return closed
}

// selectorKey is equal for jobs with equal selectors.
func selectorKey(j *hare.Job) string {
	var b strings.Builder
	for _, selector := range [][]hare.LabelValues{j.Only, j.Exclude} {
		fmt.Fprintf(&b, "%d;", len(selector))
		for _, lv := range selector {
			fmt.Fprintf(&b, "%q%q", lv.Label, lv.Values)
		}
	}
	return b.String()
}

// addKinds groups equal nodes.
func (m *Model) addKinds() {
	nodes := m.Instance.Cluster.Nodes
	m.Nodes = make([]Node, len(nodes))
	known := map[string]int{}
	held := m.heldOnNodes()
	var key []byte
	gpu := 0
	for ni := range nodes {
		n := &nodes[ni]
		first := gpu
		key = binary.AppendVarint(key[:0], n.CPUMilli)
		key = binary.AppendVarint(key, n.MemoryMiB)
		if m.Levels != nil {
			key = binary.AppendVarint(key, int64(m.Levels.Domain(1, ni)))
		}
		for range n.GPUCount() {
			key = binary.AppendVarint(key, int64(m.GPUs[gpu].Class))
			gpu++
		}
		for s := range m.Sets {
			if m.Sets[s].Nodes[ni] {
				key = binary.AppendVarint(append(key, 's'), int64(s))
			}
		}
		reserved := reservationsOf(&m.Instance.Cluster, n)
		for _, r := range reserved {
			key = binary.AppendVarint(append(key, 'r'), int64(r))
		}
		for _, h := range held[ni] {
			key = binary.AppendVarint(append(key, 'h'), h.UntilUs)
			key = binary.AppendVarint(binary.AppendVarint(key, h.CPUMilli), h.MemoryMiB)
		}
		at, ok := known[string(key)]
		if !ok {
			at = len(m.Kinds)
			known[string(key)] = at
			kind := m.newKind(n, ni, m.GPUs[first:gpu])
			kind.Reserved, kind.Held = reserved, held[ni]
			m.Kinds = append(m.Kinds, kind)
		}
		m.Kinds[at].Nodes = append(m.Kinds[at].Nodes, int32(ni))
		m.Nodes[ni] = Node{Kind: at, FirstGPU: first}
	}
}

func (m *Model) newKind(n *hare.Node, index int, gpus []GPU) NodeKind {
	kind := NodeKind{CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, In: make([]bool, len(m.Sets))}
	for s := range m.Sets {
		kind.In[s] = m.Sets[s].Nodes[index]
	}
	for len(gpus) > 0 {
		t, changes := gpus[0].Type, map[int64]int64{0: 0}
		for len(gpus) > 0 && gpus[0].Type == t {
			for _, w := range m.Classes[gpus[0].Class].Windows {
				changes[w.StartUs]++
				if w.EndUs != hare.Forever {
					changes[w.EndUs]--
				}
			}
			gpus = gpus[1:]
		}
		kind.GPUs = append(kind.GPUs, TypeSteps{Type: t, Steps: sumChanges(changes)})
	}
	return kind
}

// reservationsOf returns the reservations that have a node.
func reservationsOf(c *hare.Cluster, n *hare.Node) []int32 {
	var of []int32
	for r := range c.Reservations {
		if c.Reservations[r].Holds(n) {
			of = append(of, int32(r))
		}
	}
	return of
}

// heldOnNodes returns what running work holds of the CPUs and the memory of each node.
func (m *Model) heldOnNodes() map[int][]Held {
	held := map[int][]Held{}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.CPUMilli == 0 && j.MemoryMiB == 0 {
			continue
		}
		gpus := map[int]int64{}
		for _, g := range j.RunsOn {
			gpus[m.GPUs[g].Node]++
		}
		shape := m.Instance.Jobs[i].Shape(j.RunsShape)
		for n, count := range gpus {
			tasks := count / shape.TaskGPUs()
			held[n] = append(held[n], Held{j.RunsUntilUs, tasks * j.CPUMilli, tasks * j.MemoryMiB})
		}
	}
	for n := range held {
		slices.SortFunc(held[n], func(a, b Held) int {
			return cmp.Or(cmp.Compare(a.UntilUs, b.UntilUs), cmp.Compare(a.CPUMilli, b.CPUMilli),
				cmp.Compare(a.MemoryMiB, b.MemoryMiB))
		})
	}
	return held
}

// Room returns how many tasks of a job find room on a node of the kind with free GPUs of one
// type, where nothing else runs (docs/reference/model.md, "Room"). It does not go by sets.
func (nk *NodeKind) Room(j *Job, free int64) int64 { return nk.roomBeside(j, free, 0, 0) }

// roomBeside is Room where other work holds CPUs and memory.
func (nk *NodeKind) roomBeside(j *Job, free, cpuMilli, memoryMiB int64) int64 {
	room := free / j.GPUs
	if nk.CPUMilli > 0 && j.CPUMilli > 0 {
		room = min(room, (nk.CPUMilli-cpuMilli)/j.CPUMilli)
	}
	if nk.MemoryMiB > 0 && j.MemoryMiB > 0 {
		room = min(room, (nk.MemoryMiB-memoryMiB)/j.MemoryMiB)
	}
	if j.Distinct {
		room = min(room, 1)
	}
	return room
}

// Allows reports whether a job may use the nodes of the kind at some time.
func (nk *NodeKind) Allows(j *Job) bool { return j.Set < 0 || nk.In[j.Set] }

// Closed returns when reservations keep a job off the nodes of the kind, in order, disjoint
// and not touching. It takes O(r log r) for the reservations of the nodes.
func (m *Model) Closed(nk *NodeKind, j *Job) []hare.Window {
	if j.Set < 0 || len(nk.Reserved) == 0 {
		return nil
	}
	var closed []hare.Window
	for _, r := range nk.Reserved {
		if _, out := slices.BinarySearch(m.Sets[j.Set].Closed, r); out {
			res := &m.Instance.Cluster.Reservations[r]
			closed = append(closed, hare.Window{StartUs: res.FromUs, EndUs: res.UntilUs})
		}
	}
	slices.SortFunc(closed, func(a, b hare.Window) int { return cmp.Compare(a.StartUs, b.StartUs) })
	merged := closed[:0]
	for _, w := range closed {
		if n := len(merged); n > 0 && w.StartUs <= merged[n-1].EndUs {
			merged[n-1].EndUs = max(merged[n-1].EndUs, w.EndUs)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// TaskRoom returns how many tasks of job j find room at the same time on GPUs of type k over
// time, where only work that runs at time 0 holds anything. Without rules about nodes, this is
// Capacity. It takes O(S log S) for S steps, reservations and ends of running work of all
// kinds.
func (m *Model) TaskRoom(j *Job, k int) []Step {
	if !m.Placed {
		return m.Capacity(k)
	}
	changes := map[int64]int64{0: 0}
	for i := range m.Kinds {
		kind := &m.Kinds[i]
		var before int64
		for _, step := range m.KindRoom(kind, j, k) {
			room := step.Count * int64(len(kind.Nodes))
			changes[step.FromUs] += room - before
			before = room
		}
	}
	return sumChanges(changes)
}

// KindRoom returns how many tasks of a job find room at the same time on GPUs of type k of one
// node of a kind over time; nil means never.
func (m *Model) KindRoom(kind *NodeKind, j *Job, k int) []Step {
	at, ok := slices.BinarySearchFunc(kind.GPUs, k, func(t TypeSteps, k int) int { return cmp.Compare(t.Type, k) })
	if !ok || !kind.Allows(j) {
		return nil
	}
	return m.kindRoom(kind, j, kind.GPUs[at].Steps)
}

// kindRoom returns how many tasks of a job find room on one node of a kind with free GPUs over
// time.
func (m *Model) kindRoom(kind *NodeKind, j *Job, free []Step) []Step {
	closed := m.Closed(kind, j)
	if len(closed) == 0 && len(kind.Held) == 0 {
		room := make([]Step, len(free))
		for i, step := range free {
			room[i] = Step{step.FromUs, kind.Room(j, step.Count)}
		}
		return room
	}
	times := make([]int64, 0, len(free)+len(kind.Held)+2*len(closed))
	for _, step := range free {
		times = append(times, step.FromUs)
	}
	var held Held
	for _, h := range kind.Held {
		times = append(times, h.UntilUs)
		held.CPUMilli += h.CPUMilli
		held.MemoryMiB += h.MemoryMiB
	}
	for _, w := range closed {
		times = append(times, w.StartUs, w.EndUs)
	}
	slices.Sort(times)
	var room []Step
	gpus, ended, shut := 0, 0, 0
	for _, t := range slices.Compact(times) {
		for gpus+1 < len(free) && free[gpus+1].FromUs <= t {
			gpus++
		}
		for ; ended < len(kind.Held) && kind.Held[ended].UntilUs <= t; ended++ {
			held.CPUMilli -= kind.Held[ended].CPUMilli
			held.MemoryMiB -= kind.Held[ended].MemoryMiB
		}
		for shut < len(closed) && closed[shut].EndUs <= t {
			shut++
		}
		count := int64(0)
		if shut == len(closed) || t < closed[shut].StartUs {
			count = kind.roomBeside(j, free[gpus].Count, held.CPUMilli, held.MemoryMiB)
		}
		room = append(room, Step{t, count})
	}
	return room
}

// MostRoom returns the greatest count of steps, and 0 without steps.
func MostRoom(steps []Step) int64 {
	var most int64
	for _, step := range steps {
		most = max(most, step.Count)
	}
	return most
}
