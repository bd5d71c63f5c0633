package online

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// describe writes the nodes with labels or limits.
func (wr *writer) describe(nodes []*hare.Node) {
	wr.uint(uint64(len(nodes)))
	for _, n := range nodes {
		wr.text(n.Name)
		wr.int(n.CPUMilli)
		wr.int(n.MemoryMiB)
		wr.uint(uint64(len(n.Labels)))
		for _, l := range n.Labels {
			wr.text(l.Name)
			wr.text(l.Value)
		}
	}
}

func (r *reader) describe(c *core) {
	last := ""
	for n := r.count(); n > 0 && r.err == nil; n-- {
		node := &hare.Node{Name: r.text(), CPUMilli: r.int(hare.MaxPerTask), MemoryMiB: r.int(hare.MaxPerTask)}
		for l := r.count(); l > 0 && r.err == nil; l-- {
			node.Labels = append(node.Labels, hare.Label{Name: r.text(), Value: r.text()})
		}
		var faults hare.InvalidErrors
		if faults.CheckNode("", node, false); len(faults) > 0 || node.Name <= last {
			r.fail("nodes")
			return
		}
		last = node.Name
		c.described.Set(node)
	}
	for name := range c.gpuOf {
		if c.described.CheckLabels(name, nil) != nil {
			r.fail("nodes")
			return
		}
	}
}

// rules writes the rules of a job about nodes.
func (wr *writer) rules(j *job, levels []string) {
	wr.bool(j.rules != nil)
	if j.rules == nil {
		return
	}
	wr.int(j.rules.GPUsPerTask)
	wr.int(j.rules.CPUMilliPerTask)
	wr.int(j.rules.MemoryMiBPerTask)
	wr.bool(j.rules.DistinctNodes)
	for _, selector := range [][]hare.LabelValues{j.rules.Only, j.rules.Exclude} {
		wr.uint(uint64(len(selector)))
		for _, lv := range selector {
			wr.text(lv.Label)
			wr.uint(uint64(len(lv.Values)))
			for _, v := range lv.Values {
				wr.text(v)
			}
		}
	}
	wr.names(j.rules.Users)
	wr.names(levels)
}

// topology reads the topology of the cluster.
func (r *reader) topology(c *core) {
	cluster := hare.Cluster{Topology: r.names()}
	var faults hare.InvalidErrors
	if faults.CheckTopology("", &cluster, nil); len(faults) > 0 {
		r.fail("topology")
		return
	}
	c.described.SetTopology(cluster.Topology)
}

// levelsOf reads the levels of a job's rules.
func (r *reader) levelsOf(c *core, rules *hare.Job) {
	names := r.names()
	c.addLevels(rules, names)
	var faults hare.InvalidErrors
	if len(names) == 1 && rules.Within == "" || len(names) > hare.MaxTopology+2 {
		r.fail("levels")
	} else if faults.CheckJobLevels("", rules, c.described.Topology()); len(faults) > 0 {
		r.fail("levels")
	}
}

func (wr *writer) names(names []string) {
	wr.uint(uint64(len(names)))
	for _, name := range names {
		wr.text(name)
	}
}

func (r *reader) names() (names []string) {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		names = append(names, r.text())
	}
	return names
}

func (wr *writer) writeQuotas(quotas []hare.Quota) {
	wr.uint(uint64(len(quotas)))
	for i := range quotas {
		wr.text(quotas[i].User)
		wr.int(quotas[i].GPUs)
		wr.names(quotas[i].Types)
	}
}

func (r *reader) readQuotas(c *core) {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		c.quotas = append(c.quotas, hare.Quota{User: r.text(), GPUs: r.int(hare.MaxGPUs), Types: r.names()})
	}
	if !OrderedQuotas(c.quotas) {
		r.fail("quotas")
	}
}

func (r *reader) rules(c *core, j *job) {
	if !r.bool() {
		return
	}
	rules := &hare.Job{ID: "-", Rounds: 1, Tasks: max(1, j.tasks), Sync: j.sync,
		On:          []hare.Profile{{Type: "-", ComputeUs: 1}},
		GPUsPerTask: r.int(hare.MaxGPUs), CPUMilliPerTask: r.int(hare.MaxPerTask), MemoryMiBPerTask: r.int(hare.MaxPerTask),
		DistinctNodes: r.bool()}
	for _, to := range []*[]hare.LabelValues{&rules.Only, &rules.Exclude} {
		for n := r.count(); n > 0 && r.err == nil; n-- {
			lv := hare.LabelValues{Label: r.text()}
			for v := r.count(); v > 0 && r.err == nil; v-- {
				lv.Values = append(lv.Values, r.text())
			}
			*to = append(*to, lv)
		}
	}
	if r.quotas {
		rules.Users = r.names()
	}
	if r.levels {
		r.levelsOf(c, rules)
	}
	var faults hare.InvalidErrors
	if faults.CheckJob("", rules); len(faults) > 0 || !placement.Matters(rules) && len(rules.Users) == 0 {
		r.fail("rules")
		return
	}
	j.rules, j.taskGPUs = rules, rules.TaskGPUs()
}

// writeClaim writes the job for which nodes are kept, and their names.
func (c *core) writeClaim(w *writer) {
	if c.claim.job == none {
		w.text("")
		return
	}
	var names []string
	for n := range c.claim.nodes {
		names = append(names, c.nodes.Name(n))
	}
	slices.Sort(names)
	w.text(c.jobs[c.claim.job].id)
	w.uint(uint64(len(names)))
	for _, name := range names {
		w.text(name)
	}
}

func (r *reader) claim(c *core) (ji int32, names []string) {
	id := r.text()
	if id == "" {
		return none, nil
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		names = append(names, r.text())
	}
	ji, ok := c.jobOf[id]
	if !ok || c.placedJobs == 0 && len(c.quotas) == 0 || c.jobs[ji].ready() == 0 {
		r.fail("nodes")
		return none, nil
	}
	return ji, names
}

// compareHeld orders the GPUs of a job by task, those of one task as the decision named them.
func (c *core) compareHeld(a, b int32) int {
	x, y := &c.gpus[a], &c.gpus[b]
	if by := cmp.Compare(x.task, y.task); by != 0 || !x.follows || !y.follows {
		switch {
		case by != 0:
			return by
		case x.follows:
			return 1
		case y.follows:
			return -1
		}
	}
	return cmp.Compare(a, b)
}

// besides reports whether two GPUs are of one node and type.
func (c *core) besides(a, b int32) bool {
	x, y := &c.gpus[a], &c.gpus[b]
	return x.kind == y.kind && placement.NodeName(x.name) == placement.NodeName(y.name)
}

// nodeNames names at most three nodes that are kept, for people.
func (c *core) nodeNames() string {
	var names []string
	for n := range c.claim.nodes {
		names = append(names, c.nodes.Name(n))
	}
	slices.Sort(names)
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
