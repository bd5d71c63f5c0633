package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
)

// Described are the labels and limits of nodes, also of nodes without a GPU in service. Nodes
// without labels and limits are not kept. The zero value is empty.
type Described struct {
	of map[string]*hare.Node
}

// Of describes the node of a GPU.
func (de *Described) Of(gpu string) *hare.Node {
	name := NodeName(gpu)
	if n := de.of[name]; n != nil {
		return n
	}
	return &hare.Node{Name: name}
}

// Set keeps what is said of a node.
func (de *Described) Set(n *hare.Node) {
	if n.CPUMilli == 0 && n.MemoryMiB == 0 && len(n.Labels) == 0 {
		delete(de.of, n.Name)
		return
	}
	if de.of == nil {
		de.of = map[string]*hare.Node{}
	}
	de.of[n.Name] = &hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, Labels: slices.Clone(n.Labels)}
}

// Describe keeps what an event says of a node, where it says something. A node of which
// inService reports that it has GPUs in service cannot change.
func (de *Described) Describe(n *hare.Node, inService func() bool) *hare.InvalidError {
	if n == nil || n.CPUMilli == 0 && n.MemoryMiB == 0 && len(n.Labels) == 0 {
		return nil
	}
	known := de.of[n.Name]
	if known != nil && known.CPUMilli == n.CPUMilli && known.MemoryMiB == n.MemoryMiB &&
		slices.Equal(known.Labels, n.Labels) {
		return nil
	}
	if inService() {
		return &hare.InvalidError{Pointer: "/gpu", Code: "contradiction",
			Detail: "node " + hare.Clip(n.Name) + " has GPUs in service, and was described otherwise when they joined: " +
				"leave cpus, memory_mib and labels out"}
	}
	de.Set(n)
	return nil
}

// Forget forgets what is said of a node.
func (de *Described) Forget(name string) { delete(de.of, name) }

// All lists the nodes by name.
func (de *Described) All() []*hare.Node {
	return slices.SortedFunc(maps.Values(de.of), func(a, b *hare.Node) int { return cmp.Compare(a.Name, b.Name) })
}
