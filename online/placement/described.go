package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
)

// Described are the labels and limits of nodes, also of nodes without a GPU in service. Nodes
// without labels and limits are not kept. The zero value is empty.
type Described struct {
	of       map[string]*hare.Node
	topology []string
}

// SetTopology says which labels every node has that joins.
func (de *Described) SetTopology(labels []string) { de.topology = slices.Clone(labels) }

// Topology are the labels of SetTopology.
func (de *Described) Topology() []string { return de.topology }

// CheckLabels says which label of the topology a node that joins, or a GPU of it, lacks: by what the
// event says of the node, or by what is known of it where the event says nothing.
func (de *Described) CheckLabels(gpu string, n *hare.Node) *hare.InvalidError {
	if len(de.topology) == 0 {
		return nil
	}
	if n == nil || n.CPUMilli == 0 && n.MemoryMiB == 0 && len(n.Labels) == 0 {
		n = de.Of(gpu)
	}
	for _, label := range de.topology {
		if _, ok := n.Label(label); !ok {
			return &hare.InvalidError{Pointer: "/labels", Code: "missing_field",
				Detail: fmt.Sprintf("node %q lacks the label %q of the topology: add it, e.g. {%q: \"1\"}",
					hare.Clip(NodeName(gpu)), hare.Clip(label), hare.Clip(label))}
		}
	}
	return nil
}

// Of describes the node of a GPU.
func (de *Described) Of(gpu string) *hare.Node {
	name := NodeName(gpu)
	if n := de.of[name]; n != nil {
		return n
	}
	return &hare.Node{Name: name}
}

// Nodes are those of n GPUs, all free, as far as they are in service: gpu says of each by its number.
func (de *Described) Nodes(n int, gpu func(number int) (name string, gpuType int, inService bool)) *Nodes {
	ns := New()
	ns.SetTopology(de.topology)
	for g := range n {
		if name, gpuType, inService := gpu(g); inService {
			ns.Join(g, gpuType, de.Of(name))
		}
	}
	return ns
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
	de.of[n.Name] = &hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB,
		Labels: slices.Clone(n.Labels)}
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
