package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// maxSplit limits GPUs × windows of the nodes that are split, so that a hostile document
// cannot make a rest that is far larger than the document.
const maxSplit = 1 << 24

// cluster builds the nodes of the rest.
func (rb *remainderBuilder) cluster() error {
	rb.reservations()
	if rb.placed {
		rb.rest.Cluster.Topology = rb.whole.Cluster.Topology
	}
	split := 0
	taken := make(map[string]bool, len(rb.nodes))
	for name := range rb.nodes {
		taken[name] = true
	}
	for i := range rb.whole.Cluster.Nodes {
		n := &rb.whole.Cluster.Nodes[i]
		windows := rb.windowsFromNow(n)
		if len(windows) == 0 {
			continue // the node never returns
		}
		busy := map[int]int64{}
		for _, b := range n.Busy {
			if b.UntilUs > rb.at {
				busy[b.GPU] = b.UntilUs - rb.at
			}
		}
		later := map[int][]span{}
		for number, spans := range rb.held[i] {
			slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
			for _, s := range spans {
				s.from, s.to = s.from-rb.at, s.to-rb.at
				if s.from <= busy[number] {
					busy[number] = max(busy[number], s.to)
				} else {
					later[number] = append(later[number], s)
				}
			}
		}
		if len(later) == 0 {
			out := hare.Node{Name: n.Name, GPUs: slices.Clone(n.GPUs), Windows: plainWindows(windows)}
			for number, until := range busy {
				out.Busy = append(out.Busy, hare.Busy{GPU: number, UntilUs: until})
			}
			slices.SortFunc(out.Busy, func(a, b hare.Busy) int { return a.GPU - b.GPU })
			if rb.placed {
				out.CPUMilli, out.MemoryMiB, out.Labels = n.CPUMilli, n.MemoryMiB, n.Labels
			}
			rb.rest.Cluster.Nodes = append(rb.rest.Cluster.Nodes, out)
			continue
		}
		gpus := 0
		for _, g := range n.GPUs {
			gpus += g.Count
		}
		if split += gpus * (1 + len(windows)); split > maxSplit {
			return fmt.Errorf("started work splits nodes into more than %d GPUs and windows, too many to check",
				maxSplit)
		}
		number := 0
		for _, g := range n.GPUs {
			for range g.Count {
				rb.addSplitGPU(n.Name, g.Type, number, cutOut(windows, later[number]), busy[number], taken)
				number++
			}
		}
	}
	return nil
}

// addSplitGPU adds one GPU of a split node as a node of its own.
func (rb *remainderBuilder) addSplitGPU(node, kind string, number int, windows []hare.Window, until int64,
	taken map[string]bool) {
	if len(windows) == 0 {
		return
	}
	name := node + "." + strconv.Itoa(number)
	for taken[name] {
		name += "'"
	}
	taken[name] = true
	out := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 1}}, Windows: plainWindows(windows)}
	if until > 0 {
		out.Busy = []hare.Busy{{GPU: 0, UntilUs: until}}
	}
	rb.rest.Cluster.Nodes = append(rb.rest.Cluster.Nodes, out)
	rb.renamed = append(rb.renamed, hare.RenamedGPU{Rest: name + "/0", Whole: node + "/" + strconv.Itoa(number)})
}

// windowsFromNow returns the windows of a node on the clock of the rest, explicit.
func (rb *remainderBuilder) windowsFromNow(n *hare.Node) []hare.Window {
	if n.Windows == nil {
		return []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	var out []hare.Window
	for _, w := range n.Windows {
		if w.EndUs <= rb.at {
			continue
		}
		w.StartUs = max(0, w.StartUs-rb.at)
		if w.EndUs != hare.Forever {
			w.EndUs -= rb.at
		}
		out = append(out, w)
	}
	return out
}

// plainWindows returns nil for windows that are always open.
func plainWindows(windows []hare.Window) []hare.Window {
	if len(windows) == 1 && windows[0] == (hare.Window{StartUs: 0, EndUs: hare.Forever}) {
		return nil
	}
	return slices.Clone(windows)
}

// cutOut returns the windows without the spans; both are in order and disjoint. It takes
// O(windows + spans).
func cutOut(windows []hare.Window, spans []span) []hare.Window {
	var out []hare.Window
	for _, w := range windows {
		for len(spans) > 0 && spans[0].to <= w.StartUs {
			spans = spans[1:]
		}
		from := w.StartUs
		for _, s := range spans {
			if s.from >= w.EndUs {
				break
			}
			if from < s.from {
				out = append(out, hare.Window{StartUs: from, EndUs: s.from})
			}
			from = max(from, s.to)
		}
		if from < w.EndUs {
			out = append(out, hare.Window{StartUs: from, EndUs: w.EndUs})
		}
	}
	return out
}

// reservations adds the reservations that have not ended, without the jobs that have.
func (rb *remainderBuilder) reservations() {
	there := map[string]bool{}
	for i := range rb.rest.Jobs {
		there[rb.rest.Jobs[i].ID] = true
	}
	for _, r := range rb.whole.Cluster.Reservations {
		if r.UntilUs <= rb.at {
			continue
		}
		r.FromUs, r.UntilUs = max(0, r.FromUs-rb.at), r.UntilUs-rb.at
		r.Jobs = slices.DeleteFunc(slices.Clone(r.Jobs), func(id string) bool { return !there[id] })
		rb.rest.Cluster.Reservations = append(rb.rest.Cluster.Reservations, r)
	}
}
