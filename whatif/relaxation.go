package whatif

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// constraints is an instance, prepared for comparisons with other instances.
type constraints struct {
	inst    *hare.Instance
	jobs    map[string]*hare.Job
	classes map[string]gpuClass
	order   []string        // the keys of classes, sorted
	used    map[string]bool // the types for which some job has times
	placed  bool            // nodes matter to the instance
	others  bool            // the instance has rules that are not compared
	levels  *hare.Levels
	// levelled says that some job keeps together, or has times by spread.
	levelled bool
}

func newConstraints(inst *hare.Instance) *constraints {
	c := &constraints{inst: inst, jobs: make(map[string]*hare.Job, len(inst.Jobs)), classes: gpuClasses(&inst.Cluster),
		used: map[string]bool{}}
	_, c.placed = inst.Placed()
	c.others = inst.FirstRule(knownRules) != ""
	c.levels, c.levelled = hare.NewLevels(&inst.Cluster), inst.FirstRule(^hare.RuleLevels) != ""
	for i := range inst.Jobs {
		c.jobs[inst.Jobs[i].ID] = &inst.Jobs[i]
		for s := range inst.Jobs[i].ShapeCount() {
			for _, p := range inst.Jobs[i].Shape(s).On {
				c.used[p.Type] = true
			}
		}
	}
	c.order = slices.Sorted(maps.Keys(c.classes))
	return c
}

// relaxes reports whether c is proved to be a relaxation of tight: the best plan
// of c costs no more than the best plan of tight.
//
// c is a relaxation where every plan of tight can be followed in c. Two conditions
// are checked. First, each GPU of tight that a job of tight could use is matched
// with a GPU of c that has the same type and is available at all the same times.
// Second, each job of c is a job of tight with the same release, the same number of
// tasks, no fewer rounds in tight, no less weight, no looser sync and no shorter
// times, in each shape, at each level and with its setups. Then each job of c ends in c no later than
// in tight. Levels, setups and shapes are compared as shapesEasier says, and running work, dependencies,
// deadlines, reservations and quotas are compared as rulesEasier and limitsEasier say.
//
// relaxes matches GPUs greedily, so the result may be false for a relaxation.
// O(jobs + classes²), where a class is the GPUs of one type that are available at
// the same times.
func (c *constraints) relaxes(tight *constraints) bool {
	if len(c.jobs) > len(tight.jobs) || c.others || tight.others || c.inst.Objective != tight.inst.Objective ||
		!c.limitsEasier(tight) || !c.levelsEasier(tight) {
		return false
	}
	for id, l := range c.jobs {
		if t := tight.jobs[id]; t == nil || !c.easier(l, t) {
			return false
		}
	}
	if c.placed || tight.placed {
		return c.offersNodes(tight)
	}
	return c.offersAll(tight)
}

// slackOver returns a lower bound on the cost of the best plan of tight less the
// cost of the best plan of c, a relaxation of tight. The bound is a bound of tight
// with other weights: each job's weight in tight less its weight in c, where a job
// that c lacks has weight 0 in c.
//
// Where jobs have deadlines, tardiness is left out of the difference. There is no slack under
// makespan, which has no weights.
func (c *constraints) slackOver(tight *constraints) (slack hare.Amount) {
	if tight.inst.Objective == hare.ObjectiveMakespan {
		return slack
	}
	excess := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: tight.inst.Cluster, Quota: tight.inst.Quota}
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
			continue // tight is infeasible
		}
		if a, fits := hare.FloorAmount(b); fits && a.Cmp(slack) > 0 {
			slack = a
		}
	}
	return slack
}

// easier reports whether every plan of job t is also a plan of job l in which l
// ends no later.
func (c *constraints) easier(l, t *hare.Job) bool {
	if l.ReleaseUs != t.ReleaseUs || l.Rounds > t.Rounds || l.WeightMicro > t.WeightMicro ||
		l.Sync > t.Sync || !placedEasier(l, t) || !rulesEasier(l, t) {
		return false
	}
	if l.Sync == hare.Gang && t.Mix && !l.Mix {
		return false
	}
	return c.shapesEasier(l, t)
}

// gpuClass is the GPUs of one type that are available at the same times.
type gpuClass struct {
	kind    string
	windows []hare.Window
	count   int
}

// maxClasses limits the classes of GPUs that are matched with each other.
// Instances with more classes count as not comparable.
const maxClasses = 1000

// offersAll reports whether each GPU of tight that some job of tight could use can
// be matched with a GPU of c that has the same type and is available at all the
// same times. GPUs with equal times are matched first, and the others greedily.
func (c *constraints) offersAll(tight *constraints) bool {
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
	if len(rest) > 0 && max(len(rest), len(c.order)) > maxClasses {
		return false
	}
	for _, need := range rest {
		for _, key := range c.order {
			if have := c.classes[key]; left[key] > 0 && have.kind == need.kind &&
				coverAll(have.windows, need.windows) {
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

// gpuClasses returns the classes of a cluster's GPUs, by type and windows.
func gpuClasses(c *hare.Cluster) map[string]gpuClass {
	classes := map[string]gpuClass{}
	add := func(kind string, windows []hare.Window, count int) {
		if len(windows) == 0 || count == 0 {
			return // the GPUs are never in service
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

// windowsFrom returns the windows without the time before from.
func windowsFrom(windows []hare.Window, from int64) (out []hare.Window) {
	for _, w := range windows {
		if w.EndUs > from {
			out = append(out, hare.Window{StartUs: max(w.StartUs, from), EndUs: w.EndUs})
		}
	}
	return out
}

// coverAll reports whether each window of inner lies inside a window of outer.
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
