package solver

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// cluster knows the GPUs of an instance by name.
type cluster struct {
	gpus  map[string]clusterGPU
	order []string // the names in the order of nodes
}

type clusterGPU struct {
	kind    string
	node    int           // the index in Cluster.Nodes
	index   int           // the number of the GPU on its node
	windows []hare.Window // the times in service and not busy
}

func newCluster(c *hare.Cluster) *cluster {
	out := &cluster{gpus: map[string]clusterGPU{}}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		at, busy := 0, n.Busy
		for _, g := range n.GPUs {
			for range g.Count {
				until := int64(0)
				if len(busy) > 0 && busy[0].GPU == at {
					until, busy = busy[0].UntilUs, busy[1:]
				}
				name := nameOf(n.Name, at)
				out.gpus[name] = clusterGPU{g.Type, i, at, between(n.Windows, until)}
				out.order = append(out.order, name)
				at++
			}
		}
	}
	return out
}

// between returns the windows from an instant on. Nil windows are always open.
func between(windows []hare.Window, from int64) []hare.Window {
	if windows == nil {
		return []hare.Window{{StartUs: from, EndUs: hare.Forever}}
	}
	var out []hare.Window
	for _, w := range windows {
		if w.EndUs > from {
			out = append(out, hare.Window{StartUs: max(w.StartUs, from), EndUs: w.EndUs})
		}
	}
	return out
}

// covers reports whether the cluster has the GPU, with the given type, and the GPU is
// available throughout.
func (cl *cluster) covers(name, kind string, from, to int64) bool {
	g, ok := cl.gpus[name]
	if !ok || g.kind != kind {
		return false
	}
	return slices.ContainsFunc(g.windows, func(w hare.Window) bool { return w.StartUs <= from && to <= w.EndUs })
}

// capacity builds the cluster of the rest. Windows and busy GPUs are on the clock of the
// rest, and GPUs that started work holds are busy. If a GPU is free first and started work
// holds it again later, the node is split into nodes of one GPU each, named node.index.
func (dr *deriver) capacity() error {
	if dr.placed {
		dr.inst.Cluster.Topology = dr.whole.Cluster.Topology
	}
	names := map[string]bool{}
	for i := range dr.whole.Cluster.Nodes {
		names[dr.whole.Cluster.Nodes[i].Name] = true
	}
	for i := range dr.whole.Cluster.Nodes {
		n := &dr.whole.Cluster.Nodes[i]
		if len(between(n.Windows, dr.at)) == 0 {
			continue // the node never returns to service
		}
		windows := shifted(n.Windows, dr.at)
		size := 0
		for _, g := range n.GPUs {
			size += g.Count
		}
		until := make([]int64, size)
		for _, b := range n.Busy {
			until[b.GPU] = max(0, b.UntilUs-dr.at)
		}
		later := make([][]reservation, size)
		split := false
		for at := range size {
			held := dr.held[n.Name+"/"+strconv.Itoa(at)]
			slices.SortFunc(held, func(a, b reservation) int { return cmp.Compare(a.from, b.from) })
			for _, h := range held {
				if h.from-dr.at <= until[at] {
					until[at] = max(until[at], h.to-dr.at)
				} else {
					later[at] = append(later[at], reservation{h.from - dr.at, h.to - dr.at})
					split = true
				}
			}
		}
		if !split {
			node := hare.Node{Name: n.Name, GPUs: slices.Clone(n.GPUs), Windows: windows, Busy: busyOf(until)}
			if dr.placed {
				node.CPUMilli, node.MemoryMiB, node.Labels = n.CPUMilli, n.MemoryMiB, n.Labels
			}
			dr.inst.Cluster.Nodes = append(dr.inst.Cluster.Nodes, node)
			continue
		}
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				dr.single(n.Name, at, g.Type, windows, until[at], later[at], names)
				at++
			}
		}
	}
	if len(dr.inst.Cluster.Nodes) == 0 {
		return &hare.InvalidError{Pointer: "/instance/cluster", Code: "no_gpus",
			Detail: "no GPU is in service from at_s on: give a node that is"}
	}
	return nil
}

// single adds one GPU of a split node as a node of its own.
func (dr *deriver) single(node string, at int, kind string, windows []hare.Window, until int64, later []reservation,
	names map[string]bool) {
	open := without(windows, later)
	if open != nil && len(open) == 0 {
		return
	}
	name := node + "." + strconv.Itoa(at)
	for names[name] {
		name += "'"
	}
	names[name] = true
	dr.inst.Cluster.Nodes = append(dr.inst.Cluster.Nodes, hare.Node{
		Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 1}}, Windows: open, Busy: busyOf([]int64{until}),
	})
	dr.report.Renamed = append(dr.report.Renamed,
		hare.RenamedGPU{Rest: name + "/0", Whole: node + "/" + strconv.Itoa(at)})
}

func busyOf(until []int64) (busy []hare.Busy) {
	for at, t := range until {
		if t > 0 {
			busy = append(busy, hare.Busy{GPU: at, UntilUs: t})
		}
	}
	return busy
}

// shifted returns the windows on a clock that starts at an instant. Nil, which means always
// open, stays nil.
func shifted(windows []hare.Window, at int64) []hare.Window {
	if windows == nil {
		return nil
	}
	out := between(windows, at)
	for i := range out {
		out[i].StartUs -= at
		if out[i].EndUs != hare.Forever {
			out[i].EndUs -= at
		}
	}
	if len(out) == 1 && out[0] == (hare.Window{StartUs: 0, EndUs: hare.Forever}) {
		return nil
	}
	return out
}

// without cuts reservations, which are in order, out of windows. Nil windows are always open;
// a result that is empty and not nil is never open.
func without(windows []hare.Window, held []reservation) []hare.Window {
	if len(held) == 0 {
		return windows
	}
	left := windows
	if left == nil {
		left = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	for _, h := range held {
		var next []hare.Window
		for _, w := range left {
			if h.to <= w.StartUs || w.EndUs <= h.from {
				next = append(next, w)
				continue
			}
			if w.StartUs < h.from {
				next = append(next, hare.Window{StartUs: w.StartUs, EndUs: h.from})
			}
			if h.to < w.EndUs {
				next = append(next, hare.Window{StartUs: h.to, EndUs: w.EndUs})
			}
		}
		left = next
	}
	if left == nil {
		return []hare.Window{}
	}
	return left
}

// lanesOf makes lanes of entries, with the GPUs in the given order.
func lanesOf(all []pastEntry, order []string) []hare.Lane {
	by := map[string][]pastEntry{}
	for _, e := range all {
		by[e.gpu] = append(by[e.gpu], e)
	}
	var out []hare.Lane
	for _, gpu := range order {
		entries := by[gpu]
		delete(by, gpu)
		if len(entries) == 0 {
			continue
		}
		out = append(out, laneOf(gpu, entries))
	}
	// GPUs that are no longer in the cluster get lanes, too, so that a checker names them.
	var gone []string
	for gpu := range by {
		gone = append(gone, gpu)
	}
	slices.Sort(gone)
	for _, gpu := range gone {
		out = append(out, laneOf(gpu, by[gpu]))
	}
	return out
}

func laneOf(gpu string, entries []pastEntry) hare.Lane {
	slices.SortStableFunc(entries, func(a, b pastEntry) int { return cmp.Compare(a.StartUs, b.StartUs) })
	l := hare.Lane{GPU: gpu}
	for _, e := range entries {
		l.Job = append(l.Job, e.job)
		l.Round = append(l.Round, e.Round)
		l.Rounds = append(l.Rounds, e.Rounds)
		l.Tasks = append(l.Tasks, e.Tasks)
		l.PeriodUs = append(l.PeriodUs, e.PeriodUs)
		l.StartUs = append(l.StartUs, e.StartUs)
		l.Shape = append(l.Shape, e.Shape)
	}
	if !slices.ContainsFunc(l.Shape, func(s int64) bool { return s > 0 }) {
		l.Shape = nil
	}
	return l
}
