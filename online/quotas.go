package online

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// A core with quotas goes by nodes, and package placement counts what the jobs of each quota
// hold. A job that waits for a quota alone has no nodes kept for it, and no later job that the
// quota counts passes it; jobs of other users do.

// CheckQuota checks a set_quota event by itself.
func CheckQuota(e *hare.Event) *hare.InvalidError {
	q := e.Quota()
	if q == nil {
		return Invalid("/quota", "missing_field", "set_quota needs the quota")
	}
	var faults hare.InvalidErrors
	if faults.CheckQuota("/quota", q); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// WithQuota are quotas, ordered by user and types, in which one replaces that of its user and
// types. A quota of MaxGPUs is left out, because it limits nothing.
func WithQuota(quotas []hare.Quota, q *hare.Quota) []hare.Quota {
	at, found := slices.BinarySearchFunc(quotas, q, func(a hare.Quota,
		b *hare.Quota) int {
		return compareQuotas(&a, b)
	})
	out := slices.Clone(quotas)
	if found {
		out = slices.Delete(out, at, at+1)
	}
	if q.GPUs < hare.MaxGPUs {
		out = slices.Insert(out, at, hare.Quota{User: q.User, GPUs: q.GPUs, Types: slices.Clone(q.Types)})
	}
	return out
}

func compareQuotas(a, b *hare.Quota) int {
	return cmp.Or(cmp.Compare(a.User, b.User), slices.Compare(a.Types, b.Types))
}

// OrderedQuotas reports whether quotas are valid, limit something and are in the order of WithQuota.
func OrderedQuotas(quotas []hare.Quota) bool {
	for i := range quotas {
		var faults hare.InvalidErrors
		if faults.CheckQuota("", &quotas[i]); len(faults) > 0 || quotas[i].GPUs == hare.MaxGPUs ||
			i > 0 && compareQuotas(&quotas[i-1], &quotas[i]) >= 0 {
			return false
		}
	}
	return true
}

// setQuota replaces a quota. It takes O(jobs + GPUs).
func (c *core) setQuota(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := CheckNewQuota(e, c.quotas); err != nil {
		return err
	}
	c.advance(nowUs)
	c.ungatherAll()
	ready := make([]bool, len(c.jobs))
	for i := range c.jobs {
		if c.jobs[i].alive {
			ready[i] = c.readyAt[i] >= 0
			c.leave(int32(i))
			c.leaveClass(int32(i))
		}
	}
	c.quotas = WithQuota(c.quotas, e.Quota())
	c.nodes, c.claim = nil, nodeClaim{job: none}
	if c.placedJobs > 0 || len(c.quotas) > 0 {
		c.goByNodes()
	}
	for i := range c.jobs {
		if !c.jobs[i].alive {
			continue
		}
		c.joinClass(int32(i))
		if ready[i] {
			c.enter(int32(i))
		}
	}
	return nil
}

// ungatherAll gives all types free that are gathered for a job.
func (c *core) ungatherAll() {
	for i := range c.types {
		if ji := c.types[i].owner; ji != none {
			c.ungather(&c.jobs[ji])
			c.enter(ji)
		}
	}
}

// lacking are the quotas that have no room for a start of a job which nodes have room for when
// they are empty; nil where the quotas have room, or nodes never do.
func (c *core) lacking(j *job) (lacking []int32) {
	if len(c.quotas) == 0 || j.rules == nil {
		return nil
	}
	s, n := j.shape, j.atOnce()
	var kinds []int
	for m := j.mask; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m)
		kinds = append(kinds, k)
		if c.nodes.Most(s, k) < n {
			continue
		}
		if c.nodes.QuotaRoom(s, k) >= n {
			return nil
		}
		lacking = append(lacking, c.nodes.Lacking(s, k, n)...)
	}
	if j.mix && c.nodes.MostTogether(s, kinds) >= n {
		if c.nodes.QuotaRoomTogether(s, kinds) >= n {
			return nil
		}
		for _, k := range kinds {
			lacking = append(lacking, c.nodes.Lacking(s, k, n)...)
		}
	}
	return lacking
}

// close lets nothing start that some quotas count.
func (c *core) close(quotas []int32) {
	for _, q := range quotas {
		c.nodes.CloseQuota(q)
	}
}

// dropHeldClaim gives the nodes free that are kept for a job which a quota holds back.
func (c *core) dropHeldClaim() {
	if ji := c.claim.job; ji != none && len(c.lacking(&c.jobs[ji])) > 0 {
		c.claim = nodeClaim{job: none}
	}
}

// keepQuotas keeps GPUs of the quotas of a job for which nodes are kept.
func (c *core) keepQuotas(j *job) {
	if j.rules == nil {
		return
	}
	var kinds []int
	for m := j.mask; m != 0; m &= m - 1 {
		kinds = append(kinds, bits.TrailingZeros64(m))
	}
	c.nodes.KeepQuotas(j.shape, kinds, j.atOnce())
}

// checkProgress checks what a job that arrives says of its progress, and finds its GPUs.
func (c *core) checkProgress(a *hare.Job) (gpus []int, err *hare.InvalidError) {
	return placement.CheckRunning(a, func(name string) placement.Found {
		g, ok := c.gpuOf[name]
		if !ok {
			return placement.Found{}
		}
		x := &c.gpus[g]
		found := placement.Found{GPU: int(g), Type: c.types[x.kind].name, Here: true, Held: x.job != none}
		if found.Held {
			found.By = c.jobs[x.job].id
		}
		return found
	}, func() *placement.Nodes {
		if c.nodes != nil {
			return c.nodes
		}
		nodes := placement.New()
		nodes.SetTopology(c.described.Topology())
		for g := range c.gpus {
			if x := &c.gpus[g]; x.name != "" {
				nodes.Join(g, int(x.kind), c.described.Of(x.name))
			}
		}
		return nodes
	})
}

// resume starts the round of a job that runs when it arrives, without a decision.
func (c *core) resume(ji int32, gpus []int, elapsedUs int64) {
	j := &c.jobs[ji]
	for len(gpus) > 0 {
		if j.active == 0 {
			c.execute(ji)
		}
		task := j.take()
		for i, g := range gpus[:j.taskGPUs] {
			c.hold(ji, int32(g), task)
			x := &c.gpus[g]
			x.follows, x.ended, x.sinceUs = i > 0, i > 0, c.nowUs-elapsedUs
		}
		if c.nodes != nil {
			c.nodes.Hold(gpus[0], c.shapeOf(j), 1)
		}
		gpus = gpus[j.taskGPUs:]
	}
}
