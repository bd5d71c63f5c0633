package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// limits is an instance, prepared to be compared with others.
type limits struct {
	inst    *hare.Instance
	jobs    map[string]*hare.Job
	classes map[string]gpuClass
	order   []string        // the keys of classes, sorted
	used    map[string]bool // the types that some job has times for
}

func newLimits(inst *hare.Instance) *limits {
	c := &limits{inst: inst, jobs: make(map[string]*hare.Job, len(inst.Jobs)), classes: gpuClasses(&inst.Cluster), used: map[string]bool{}}
	for i := range inst.Jobs {
		c.jobs[inst.Jobs[i].ID] = &inst.Jobs[i]
		for _, p := range inst.Jobs[i].On {
			c.used[p.Type] = true
		}
	}
	c.order = slices.Sorted(maps.Keys(c.classes))
	return c
}

// looserThan reports whether the best plan of c is proved to cost no more than
// the best plan of tight.
//
// That is so where every plan of tight can be followed in c: each GPU of tight
// that its jobs could use has a GPU of its own in c, of the same type and available whenever the first
// one is, and each job of c is in tight with the same release, as many tasks, no
// fewer rounds, no less weight, no looser rule and no shorter times. Then each
// job of c ends in c no later than in tight.
//
// The answer may be false although no plan of c costs more: GPUs are matched
// greedily. O(jobs + classes²), where a class is GPUs of one type that are
// available at the same times.
func (c *limits) looserThan(tight *limits) bool {
	if len(c.jobs) > len(tight.jobs) {
		return false
	}
	for id, l := range c.jobs {
		if t := tight.jobs[id]; t == nil || !easier(l, t) {
			return false
		}
	}
	return c.offersAll(tight)
}

// slackOver is by how much less than the best plan of tight the best plan of c
// costs at least, where c is looser: a lower bound, in tight, of the part of the
// objective that tight's weights exceed those of c by, jobs that c lacks
// included.
func (c *limits) slackOver(tight *limits) (slack hare.Amount) {
	excess := &hare.Instance{Objective: tight.inst.Objective, Cluster: tight.inst.Cluster}
	for _, j := range tight.inst.Jobs {
		if l := c.jobs[j.ID]; l != nil {
			j.WeightMicro -= l.WeightMicro
		}
		if j.WeightMicro > 0 {
			excess.Jobs = append(excess.Jobs, j)
		}
	}
	for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
		if len(excess.Jobs) == 0 {
			break
		}
		b, err := verify.Bound(excess, &hare.Certificate{Method: method, Objective: hare.ObjectiveWeightedJCT})
		if err != nil {
			continue // tight has no plan at all
		}
		if a, fits := hare.FloorAmount(b); fits && a.Cmp(slack) > 0 {
			slack = a
		}
	}
	return slack
}

// easier reports whether job l can be followed by whatever plan job t has, and
// ends no later then.
func easier(l, t *hare.Job) bool {
	if l.ReleaseUs != t.ReleaseUs || l.Tasks != t.Tasks || l.Rounds > t.Rounds || l.WeightMicro > t.WeightMicro || l.Sync > t.Sync {
		return false
	}
	if l.Sync == hare.Gang && t.Mix && !l.Mix {
		return false
	}
	for _, p := range t.On {
		at, found := slices.BinarySearchFunc(l.On, p.Type, func(q hare.Profile, kind string) int { return strings.Compare(q.Type, kind) })
		if !found || l.On[at].ComputeUs > p.ComputeUs || l.On[at].SyncUs > p.SyncUs {
			return false
		}
	}
	return true
}

// gpuClass is GPUs of one type that are available at the same times.
type gpuClass struct {
	kind    string
	windows []hare.Window
	count   int
}

// mostClasses limits the classes of GPUs that are matched with each other; what
// has more counts as not comparable.
const mostClasses = 1000

// offersAll reports whether each GPU of tight that some job of tight could use
// can be given one of c, of its type and available at least as long. GPUs that are available at the same times go
// together first, then whichever is first.
func (c *limits) offersAll(tight *limits) bool {
	left := make(map[string]int, len(c.classes))
	for key, class := range c.classes {
		left[key] = class.count
	}
	var rest []gpuClass
	for _, key := range tight.order {
		class := tight.classes[key]
		if !tight.used[class.kind] {
			continue
		}
		same := min(left[key], class.count)
		left[key] -= same
		if class.count -= same; class.count > 0 {
			rest = append(rest, class)
		}
	}
	if len(rest) > 0 && max(len(rest), len(c.order)) > mostClasses {
		return false
	}
	for _, need := range rest {
		for _, key := range c.order {
			if have := c.classes[key]; left[key] > 0 && have.kind == need.kind && coverAll(have.windows, need.windows) {
				taken := min(left[key], need.count)
				left[key] -= taken
				need.count -= taken
			}
		}
		if need.count > 0 {
			return false
		}
	}
	return true
}

func gpuClasses(c *hare.Cluster) map[string]gpuClass {
	classes := map[string]gpuClass{}
	add := func(kind string, windows []hare.Window, count int) {
		if len(windows) == 0 || count == 0 {
			return // it never serves
		}
		key := fmt.Sprint(kind, windows)
		classes[key] = gpuClass{kind, windows, classes[key].count + count}
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		open := n.Windows
		if open == nil {
			open = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
		}
		first, busy := 0, n.Busy
		for _, g := range n.GPUs {
			free := g.Count
			for len(busy) > 0 && busy[0].GPU < first+g.Count {
				add(g.Type, windowsFrom(open, busy[0].UntilUs), 1)
				free, busy = free-1, busy[1:]
			}
			add(g.Type, open, free)
			first += g.Count
		}
	}
	return classes
}

// windowsFrom is the windows from an instant on.
func windowsFrom(windows []hare.Window, from int64) (out []hare.Window) {
	for _, w := range windows {
		if w.EndUs > from {
			out = append(out, hare.Window{StartUs: max(w.StartUs, from), EndUs: w.EndUs})
		}
	}
	return out
}

// coverAll reports whether each window of inner lies inside one of outer.
func coverAll(outer, inner []hare.Window) bool {
	at := 0
	for _, w := range inner {
		for at < len(outer) && outer[at].EndUs < w.EndUs {
			at++
		}
		if at == len(outer) || outer[at].StartUs > w.StartUs {
			return false
		}
	}
	return true
}
