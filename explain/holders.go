package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// longestSetup returns for how long a GPU of a pool is set up for a job, at most.
func (v *laneView) longestSetup(job int, p *waitPool) (longest hare.Seconds) {
	for kind := range p.each {
		longest = max(longest, hare.Seconds(v.modes[job][kind].SwitchUs))
	}
	return longest
}

// holders returns the jobs other than job with work in the spans that holds counts, those that hold it longest first,
// and the number of further such jobs.
func (v *laneView) holders(job int, spans []interval, holds func(g int, other *model.Job) bool) (
	[]explaindoc.Holder, int) {
	type held struct {
		explaindoc.Holder
		time int64
		last int // the GPU that was counted last
	}
	by := map[int]*held{}
	for g := range v.model.GPUs {
		l := v.lanes[g]
		if l == nil {
			continue
		}
		x := 0
		for e := v.first(g, spans[0].from); e < len(l.Job); {
			start := v.taken(g, e)
			if x < len(spans) && spans[x].to <= start {
				x++
				continue
			}
			if x == len(spans) {
				break
			}
			end := v.until(g, e)
			if other := v.jobOf[l.Job[e]]; other != job && end > spans[x].from && holds(g, &v.model.Jobs[other]) {
				h := by[other]
				if h == nil {
					h = &held{Holder: explaindoc.Holder{Job: v.inst.Jobs[other].ID}, last: -1}
					by[other] = h
				}
				if h.last != g {
					h.last = g
					h.GPUs++
				}
				for y := x; y < len(spans) && spans[y].from < end; y++ {
					h.time += min(end, spans[y].to) - max(start, spans[y].from)
				}
				h.UntilS = max(h.UntilS, hare.Seconds(end))
			}
			e++
		}
	}
	all := make([]*held, 0, len(by))
	for _, h := range by {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *held) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.Job, b.Job))
	})
	var out []explaindoc.Holder
	for _, h := range all[:min(len(all), maxHolders)] {
		out = append(out, h.Holder)
	}
	return out, len(all) - len(out)
}

// back returns the first time from t on at which one of the windows of some GPUs starts; nil where none does.
func (v *laneView) back(t int64, of func(g int) bool, windows func(g int, f func(hare.Window))) *hare.Seconds {
	first := int64(math.MaxInt64)
	for g := range v.model.GPUs {
		if of(g) {
			windows(g, func(w hare.Window) {
				if w.StartUs >= t {
					first = min(first, w.StartUs)
				}
			})
		}
	}
	if first == math.MaxInt64 {
		return nil
	}
	s := hare.Seconds(first)
	return &s
}

// maxWhere is how many nodes are listed for a wait, at most.
const maxWhere = 6

// where returns what is free at t on the nodes that the job may use, those with the most
// free GPUs of the pool first, and the number of further nodes with free GPUs.
func (v *laneView) where(job int, p *waitPool, t int64) ([]explaindoc.NodeFree, int) {
	var all []explaindoc.NodeFree
	for ni := range v.inst.Cluster.Nodes {
		if !v.mayUse(job, ni) {
			continue
		}
		n := &v.inst.Cluster.Nodes[ni]
		x := explaindoc.NodeFree{Node: n.Name}
		for g := v.model.Nodes[ni].FirstGPU; g < v.model.Nodes[ni].FirstGPU+int(n.GPUCount()); g++ {
			if !p.has(v.model.GPUs[g].Type) {
				continue
			}
			v.open(job, g, func(w hare.Window) { v.gaps(job, g, w, t, t+1, 1, func(gap) { x.GPUs++ }) })
		}
		if x.GPUs > 0 {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b explaindoc.NodeFree) int { return cmp.Compare(b.GPUs, a.GPUs) })
	few := slices.Clone(all[:min(len(all), maxWhere)])
	for i := range few {
		ni := slices.IndexFunc(v.inst.Cluster.Nodes, func(n hare.Node) bool { return n.Name == few[i].Node })
		n := &v.inst.Cluster.Nodes[ni]
		cpus, memory := v.loadsOf(job, ni, t, t+1)
		if n.CPUMilli > 0 {
			free := hare.Seconds((n.CPUMilli - cpus.over(t, t+1)) * 1000)
			few[i].CPUs = &free
		}
		if n.MemoryMiB > 0 {
			free := n.MemoryMiB - memory.over(t, t+1)
			few[i].MemoryMiB = &free
		}
	}
	return few, len(all) - len(few)
}
