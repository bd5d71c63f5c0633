package hare

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// ModelNode is a node of the cluster in a Model.
type ModelNode struct {
	Kind     int // the index in Model.Kinds
	FirstGPU int // the index in Model.GPUs of GPU 0 of the node; its other GPUs follow
}

// NodeKind stands for equal nodes: nodes with the same GPUs at the same times, the same CPUs
// and memory, in the same sets of Model.Sets. The nodes of a kind are interchangeable.
type NodeKind struct {
	CPUMilli, MemoryMiB int64 // 0 means no limit
	// GPUs are the GPUs that are available over time, for each type of the node, sorted by
	// type.
	GPUs  []TypeSteps
	Nodes []int32 // the indices in Model.Nodes, ascending
	In    []bool  // by index in Model.Sets: the nodes belong to the set
}

// TypeSteps are numbers of GPUs of one type over time.
type TypeSteps struct {
	Type  int // the index in Model.Types
	Steps []Step
}

// NodeSet is a set of nodes that some jobs may use.
type NodeSet struct {
	Nodes []bool // by index in Model.Nodes
}

// addNodes fills in the part of a model that deals with nodes. It takes O(GPUs log GPUs +
// sets · nodes · labels + jobs · types · kinds).
func (m *Model) addNodes() {
	m.addSets()
	m.addKinds()
	fits := map[string]int64{}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		j.Modes = slices.DeleteFunc(j.Modes, func(md Mode) bool {
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
		if len(spec.Only)+len(spec.Exclude) == 0 {
			continue
		}
		key := selectorKey(spec)
		at, ok := known[key]
		if !ok {
			set := NodeSet{Nodes: make([]bool, len(m.Instance.Cluster.Nodes))}
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

// selectorKey is equal for jobs with equal selectors.
func selectorKey(j *Job) string {
	var b strings.Builder
	for _, selector := range [][]LabelValues{j.Only, j.Exclude} {
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
	m.Nodes = make([]ModelNode, len(nodes))
	known := map[string]int{}
	var key []byte
	gpu := 0
	for ni := range nodes {
		n := &nodes[ni]
		first := gpu
		key = binary.AppendVarint(key[:0], n.CPUMilli)
		key = binary.AppendVarint(key, n.MemoryMiB)
		for range n.GPUCount() {
			key = binary.AppendVarint(key, int64(m.GPUs[gpu].Class))
			gpu++
		}
		for s := range m.Sets {
			if m.Sets[s].Nodes[ni] {
				key = binary.AppendVarint(append(key, 's'), int64(s))
			}
		}
		at, ok := known[string(key)]
		if !ok {
			at = len(m.Kinds)
			known[string(key)] = at
			m.Kinds = append(m.Kinds, m.newKind(n, ni, m.GPUs[first:gpu]))
		}
		m.Kinds[at].Nodes = append(m.Kinds[at].Nodes, int32(ni))
		m.Nodes[ni] = ModelNode{Kind: at, FirstGPU: first}
	}
}

func (m *Model) newKind(n *Node, index int, gpus []GPU) NodeKind {
	kind := NodeKind{CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, In: make([]bool, len(m.Sets))}
	for s := range m.Sets {
		kind.In[s] = m.Sets[s].Nodes[index]
	}
	for len(gpus) > 0 {
		t, changes := gpus[0].Type, map[int64]int64{0: 0}
		for len(gpus) > 0 && gpus[0].Type == t {
			for _, w := range m.Classes[gpus[0].Class].Windows {
				changes[w.StartUs]++
				if w.EndUs != Forever {
					changes[w.EndUs]--
				}
			}
			gpus = gpus[1:]
		}
		kind.GPUs = append(kind.GPUs, TypeSteps{Type: t, Steps: sumChanges(changes)})
	}
	return kind
}

// Room returns how many tasks of a job find room on a node of the kind with free GPUs of one
// type, where nothing else runs (docs/nodes.md, "Room"). It does not go by sets.
func (nk *NodeKind) Room(j *ModelJob, free int64) int64 {
	room := free / j.GPUs
	if nk.CPUMilli > 0 && j.CPUMilli > 0 {
		room = min(room, nk.CPUMilli/j.CPUMilli)
	}
	if nk.MemoryMiB > 0 && j.MemoryMiB > 0 {
		room = min(room, nk.MemoryMiB/j.MemoryMiB)
	}
	if j.Distinct {
		room = min(room, 1)
	}
	return room
}

// Allows says whether a job may use the nodes of the kind.
func (nk *NodeKind) Allows(j *ModelJob) bool { return j.Set < 0 || nk.In[j.Set] }

// TaskRoom returns how many tasks of job j find room at the same time on GPUs of type k of an
// empty cluster, over time. Without rules about nodes, this is Capacity. It takes
// O(kinds + S log S) for S steps of all kinds.
func (m *Model) TaskRoom(j *ModelJob, k int) []Step {
	if !m.Placed {
		return m.Capacity(k)
	}
	changes := map[int64]int64{0: 0}
	for i := range m.Kinds {
		kind := &m.Kinds[i]
		at, ok := slices.BinarySearchFunc(kind.GPUs, k, func(t TypeSteps, k int) int { return cmp.Compare(t.Type, k) })
		if !ok || !kind.Allows(j) {
			continue
		}
		var before int64
		for _, step := range kind.GPUs[at].Steps {
			room := kind.Room(j, step.Count) * int64(len(kind.Nodes))
			changes[step.FromUs] += room - before
			before = room
		}
	}
	return sumChanges(changes)
}

// MostRoom returns the greatest count of steps, and 0 without steps.
func MostRoom(steps []Step) int64 {
	var most int64
	for _, step := range steps {
		most = max(most, step.Count)
	}
	return most
}
