package verify_test

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// treeReading is a reading of docs/inside/bounds.md#branch-prices-of-jobs-and-trees; each field makes it a false one.
type treeReading struct {
	hole        bool // a split by start leaves out the next microsecond
	neither     bool // the start of a split is on neither side
	otherJob    bool // the second part of a split is of the next job
	greatest    bool // the greatest leaf counts
	anyEmpty    bool // a leaf is empty if a job lacks one of its types
	coreOfTwo   bool // a job with two types has a core
	coreLong    bool // cores last from the last start to the end of the last block
	corePaid    bool // jobs pay for their cores too
	points      bool // blocks touch only the first ends of others
	noArrivals  bool // blocks do not touch GPUs that come
	noRelease   bool // blocks do not touch their release
	twinsApart  bool // equal jobs start one after another
	twinsOfSize bool // jobs of unlike weights are equal
	jobNever    bool // jobs with their own prices do not count
	jobLate     bool // jobs with their own prices count from their last start on
	otherTypes  bool // ends of blocks on other types alone are touched
}

type interval struct{ from, to int64 }

// naiveTree is a plain evaluator of trees, in floats.
type naiveTree struct {
	inst  *hare.Instance
	cert  *hare.Certificate
	r     treeReading
	kinds []string
	gpus  map[string][][2]int64 // (time, GPUs from then on)
	at    int                   // the next node of the tree
	least float64
	last  int64
}

// naiveTreeBound returns what a tree proves by a reading, in weight-seconds.
func naiveTreeBound(inst *hare.Instance, cert *hare.Certificate, r treeReading) float64 {
	n := &naiveTree{inst: inst, cert: cert, r: r, gpus: map[string][][2]int64{}, least: math.Inf(1)}
	if r.greatest {
		n.least = math.Inf(-1)
	}
	times := []int64{0}
	for _, node := range inst.Cluster.Nodes {
		for _, b := range node.Busy {
			times = append(times, b.UntilUs)
		}
		for _, w := range node.Windows {
			times = append(times, w.StartUs)
		}
		for _, g := range node.GPUs {
			n.kinds = append(n.kinds, g.Type)
		}
	}
	slices.Sort(times)
	slices.Sort(n.kinds)
	n.kinds = slices.Compact(n.kinds)
	for _, kind := range n.kinds {
		before := int64(-1)
		for _, t := range slices.Compact(slices.Clone(times)) {
			if m := n.count(kind, t); m != before {
				n.gpus[kind] = append(n.gpus[kind], [2]int64{t, m})
				before = m
				n.last = max(n.last, t)
			}
		}
	}
	sum := int64(0)
	for i := range inst.Jobs {
		longest := int64(0)
		for _, kind := range n.kinds {
			longest = max(longest, n.length(i, kind))
		}
		sum += longest
		n.last = max(n.last, inst.Jobs[i].ReleaseUs)
	}
	n.last += sum
	root := map[int]map[string]interval{}
	for i := range inst.Jobs {
		root[i] = map[string]interval{}
		for _, kind := range n.kinds {
			if n.length(i, kind) > 0 {
				root[i][kind] = interval{inst.Jobs[i].ReleaseUs, n.last}
			}
		}
	}
	n.walk(root)
	return n.least
}

func (n *naiveTree) count(kind string, t int64) (m int64) {
	for _, node := range n.inst.Cluster.Nodes {
		first := 0
		for _, g := range node.GPUs {
			for x := range g.Count {
				open := len(node.Windows) == 0 || node.Windows[0].StartUs <= t
				for _, b := range node.Busy {
					open = open && (b.GPU != first+x || b.UntilUs <= t)
				}
				if open && g.Type == kind {
					m++
				}
			}
			first += g.Count
		}
	}
	return m
}

func (n *naiveTree) length(i int, kind string) int64 {
	most := n.gpus[kind][len(n.gpus[kind])-1][1]
	for _, p := range n.inst.Jobs[i].On {
		if p.Type == kind && most >= n.inst.Jobs[i].Tasks {
			return n.inst.Jobs[i].Rounds * p.DurationUs()
		}
	}
	return 0
}

func (n *naiveTree) walk(d map[int]map[string]interval) {
	node := n.cert.Tree[n.at]
	n.at++
	ok := n.shrink(d)
	if node.Job == "" {
		if !ok {
			return
		}
		v := n.leaf(d, node.Prices)
		if n.r.greatest {
			n.least = max(n.least, v)
		} else {
			n.least = min(n.least, v)
		}
		return
	}
	i := slices.IndexFunc(n.inst.Jobs, func(j hare.Job) bool { return j.ID == node.Job })
	part := func(i int, keep func(kind string, v interval) interval) map[int]map[string]interval {
		out := map[int]map[string]interval{}
		for o, kinds := range d {
			out[o] = map[string]interval{}
			for kind, v := range kinds {
				if o == i {
					v = keep(kind, v)
				}
				if v.from <= v.to {
					out[o][kind] = v
				}
			}
		}
		return out
	}
	second := i
	if n.r.otherJob {
		second = (i + 1) % len(n.inst.Jobs)
	}
	if node.Type != "" {
		n.walk(part(i, func(kind string, v interval) interval {
			if kind != node.Type {
				return interval{0, -1}
			}
			return v
		}))
		n.walk(part(second, func(kind string, v interval) interval {
			if kind == node.Type {
				return interval{0, -1}
			}
			return v
		}))
		return
	}
	last, next := node.StartUs, node.StartUs+1
	if n.r.neither {
		last--
	}
	if n.r.hole {
		next++
	}
	n.walk(part(i, func(_ string, v interval) interval { return interval{v.from, min(v.to, last)} }))
	n.walk(part(second, func(_ string, v interval) interval { return interval{max(v.from, next), v.to} }))
}

// core returns when job i surely runs on a type.
func (n *naiveTree) core(d map[int]map[string]interval, i int, kind string) interval {
	v, ok := d[i][kind]
	if !ok || len(d[i]) != 1 && !n.r.coreOfTwo {
		return interval{}
	}
	to := v.from + n.length(i, kind)
	if n.r.coreLong {
		to = v.to + n.length(i, kind)
	}
	return interval{v.to, to}
}

// free returns the GPUs of a type that are free at t beside the cores of all jobs but one.
func (n *naiveTree) free(d map[int]map[string]interval, kind string, t int64, but int) (m int64) {
	for _, step := range n.gpus[kind] {
		if step[0] <= t {
			m = step[1]
		}
	}
	for i := range n.inst.Jobs {
		if c := n.core(d, i, kind); i != but && c.from <= t && t < c.to {
			m -= n.inst.Jobs[i].Tasks
		}
	}
	return m
}

// changes returns the times at which free changes, and 0.
func (n *naiveTree) changes(d map[int]map[string]interval, kind string) []int64 {
	times := []int64{0}
	for _, step := range n.gpus[kind] {
		times = append(times, step[0])
	}
	for i := range n.inst.Jobs {
		if c := n.core(d, i, kind); c.from < c.to {
			times = append(times, c.from, c.to)
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}

func (n *naiveTree) shrink(d map[int]map[string]interval) bool {
	for range 8 {
		changed := false
		for i := range n.inst.Jobs {
			for _, kind := range n.kinds {
				v, ok := d[i][kind]
				if !ok {
					if n.r.anyEmpty && n.length(i, kind) > 0 {
						return false
					}
					continue
				}
				w := n.closer(d, i, kind, v)
				if w != v {
					changed = true
					d[i][kind] = w
				}
				if w.from > w.to {
					delete(d[i], kind)
				}
			}
			if len(d[i]) == 0 {
				return false
			}
		}
		if !changed {
			return true
		}
	}
	return true
}

func (n *naiveTree) closer(d map[int]map[string]interval, i int, kind string, v interval) interval {
	length, need := n.length(i, kind), n.inst.Jobs[i].Tasks
	times := n.changes(d, kind)
	fits := func(s int64) bool {
		for _, t := range append(slices.Clone(times), s) {
			if s <= t && t < s+length && n.free(d, kind, t, i) < need {
				return false
			}
		}
		return true
	}
	// Blocks begin to fit where something changes, and cease to fit before their end meets a change.
	for v.from <= v.to && !fits(v.from) {
		next := v.to + 1
		for _, t := range times {
			if t > v.from {
				next = min(next, t)
			}
		}
		v.from = next
	}
	for v.from <= v.to && !fits(v.to) {
		before := v.from - 1
		for _, t := range times {
			if t-length < v.to {
				before = max(before, t-length)
			}
		}
		v.to = before
	}
	for o := range n.inst.Jobs {
		if o == i || !n.equal(i, o) {
			continue
		}
		first, last := int64(math.MaxInt64), int64(-1)
		for _, x := range d[o] {
			first, last = min(first, x.from), max(last, x.to)
		}
		apart := int64(0)
		if n.r.twinsApart {
			apart = 1
		}
		if o < i {
			v.from = max(v.from, first+apart)
		} else {
			v.to = min(v.to, last-apart)
		}
	}
	var touch []interval
	if !n.r.noRelease {
		touch = append(touch, interval{n.inst.Jobs[i].ReleaseUs, n.inst.Jobs[i].ReleaseUs})
	}
	for _, step := range n.gpus[kind] {
		if !n.r.noArrivals {
			touch = append(touch, interval{step[0], step[0]})
		}
	}
	for o := range n.inst.Jobs {
		for other, x := range d[o] {
			if o == i || (other != kind) != n.r.otherTypes {
				continue
			}
			if n.r.points {
				x.to = x.from
			}
			touch = append(touch, interval{x.from + n.length(o, other), x.to + n.length(o, other)})
		}
	}
	out := interval{math.MaxInt64, -1}
	for _, x := range touch {
		if from, to := max(x.from, v.from), min(x.to, v.to); from <= to {
			out = interval{min(out.from, from), max(out.to, to)}
		}
	}
	return out
}

func (n *naiveTree) equal(i, o int) bool {
	a, b := &n.inst.Jobs[i], &n.inst.Jobs[o]
	for _, kind := range n.kinds {
		if n.length(i, kind) != n.length(o, kind) {
			return false
		}
	}
	return (a.WeightMicro == b.WeightMicro || n.r.twinsOfSize) && a.ReleaseUs == b.ReleaseUs && a.Tasks == b.Tasks
}

// leaf returns what the prices prove in a leaf.
func (n *naiveTree) leaf(d map[int]map[string]interval, number int) float64 {
	set := hare.PriceSet{GridUs: n.cert.GridUs, Prices: n.cert.Prices, Sizes: n.cert.Sizes}
	if number > 0 {
		set = n.cert.PriceSets[number-1]
	}
	single := func(kind string, g int) float64 {
		for _, p := range set.Prices {
			if p.Type == kind {
				return float64(p.Nanos[g])
			}
		}
		return 0
	}
	own := func(i int, kind string) []int64 {
		for _, p := range set.Jobs {
			if p.Job == n.inst.Jobs[i].ID && p.Type == kind {
				return p.Nanos
			}
		}
		return nil
	}
	pays := func(i int, kind string, g int) float64 {
		if row := own(i, kind); row != nil {
			return float64(row[g])
		}
		tasks := n.inst.Jobs[i].Tasks
		for _, p := range set.Sizes {
			if p.Type == kind && p.Tasks == tasks {
				return float64(p.Nanos[g])
			}
		}
		return float64(tasks) * single(kind, g)
	}
	over := func(from, to int64, price func(g int) float64) (sum float64) {
		for g := range len(set.GridUs) - 1 {
			if l := min(to, set.GridUs[g+1]) - max(from, set.GridUs[g]); l > 0 {
				sum += price(g) * float64(l)
			}
		}
		return sum
	}
	total := 0.0
	for i := range n.inst.Jobs {
		j := &n.inst.Jobs[i]
		best := math.Inf(1)
		for kind, v := range d[i] {
			length := n.length(i, kind)
			price := func(g int) float64 { return pays(i, kind, g) }
			starts := []int64{v.from, v.to}
			for _, t := range set.GridUs {
				starts = append(starts, t, t-length)
			}
			for _, s := range starts {
				if s < v.from || s > v.to {
					continue
				}
				cost := float64(j.WeightMicro)*1000*float64(s+length-j.ReleaseUs) + over(s, s+length, price)
				if c := n.core(d, i, kind); !n.r.corePaid && c.from < c.to {
					cost -= over(c.from, c.to, price)
				}
				best = min(best, cost)
			}
		}
		total += best
	}
	for _, kind := range n.kinds {
		times := append(n.changes(d, kind), math.MaxInt64)
		for i := range n.inst.Jobs {
			if v, ok := d[i][kind]; ok {
				times = append(times, v.from, v.to, v.to+n.length(i, kind))
			}
		}
		slices.Sort(times)
		for x := range len(times) - 1 {
			m := max(0, n.free(d, kind, times[x], -1))
			total -= over(times[x], times[x+1], func(g int) float64 {
				best := make([]float64, m+1)
				for c := int64(1); c <= m; c++ {
					best[c] = best[c-1] + single(kind, g)
					for _, p := range set.Sizes {
						if p.Type == kind && p.Tasks <= c {
							best[c] = max(best[c], best[c-p.Tasks]+float64(p.Nanos[g]))
						}
					}
				}
				for i := range n.inst.Jobs {
					v, ok := d[i][kind]
					row, t, need := own(i, kind), times[x], n.inst.Jobs[i].Tasks
					if n.r.jobLate {
						v.from = v.to
					}
					if c := n.core(d, i, kind); !ok || row == nil || n.r.jobNever || t < v.from || t >= v.to+n.length(i, kind) ||
						c.from <= t && t < c.to {
						continue
					}
					for c := m; c >= need; c-- {
						best[c] = max(best[c], best[c-need]+float64(row[g]))
					}
				}
				return best[m]
			})
		}
	}
	return total / 1e15
}
