package online

import (
	"cmp"
	"math/bits"
	"slices"
)

// JobRow is what lists say of an active job.
type JobRow struct {
	Job, Sync, State string // as in JobStatus
	// GPUs is how many it holds, or wants at once.
	GPUs      int64
	Types     []string // that it may use
	RunningOn []string // the GPUs that it holds
	// WeightMicro is the weight in millionths.
	WeightMicro int64
	ArrivedUs   int64
	// StartedUs is the time of the first start, −1 before it.
	StartedUs int64
	// StartUs, EndUs and EarliestEndUs are those of PlannedJob; −1 without a plan.
	StartUs, EndUs, EarliestEndUs int64
	// Reason is left out where Explain has it.
	Reason Reason
}

// Rows is Observable.Rows.
func (h *HLAS) Rows() []JobRow { return h.c.rows() }

// Rows is Observable.Rows.
func (f *FIFO) Rows() []JobRow { return f.c.rows() }

func (c *core) rows() []JobRow {
	var order []*job
	for i := range c.jobs {
		if c.jobs[i].alive {
			order = append(order, &c.jobs[i])
		}
	}
	slices.SortFunc(order, func(a, b *job) int {
		if gathers := cmp.Compare(b.owns, a.owns); (a.owns == 0) != (b.owns == 0) {
			return gathers
		}
		return cmp.Compare(a.order(), b.order())
	})
	rows := make([]JobRow, len(order))
	for at, j := range order {
		r := &rows[at]
		*r = JobRow{Job: j.id, Sync: j.sync.String(), State: c.stateOf(j), GPUs: j.atOnce() * j.taskGPUs,
			WeightMicro: j.weight, ArrivedUs: j.arrivedUs, StartedUs: j.startedUs, StartUs: -1, EndUs: -1,
			EarliestEndUs: -1}
		for i := range j.on {
			r.Types = append(r.Types, c.types[j.on[i].kind].name)
		}
		for g := j.head; g != none; g = c.gpus[g].next {
			r.RunningOn = append(r.RunningOn, c.gpus[g].name)
		}
		if len(r.RunningOn) > 0 {
			r.GPUs = int64(len(r.RunningOn))
		}
		slices.Sort(r.Types)
		slices.Sort(r.RunningOn)
	}
	return rows
}

func (c *core) stateOf(j *job) string {
	switch {
	case j.active > 0:
		return "running"
	case j.owns != 0 || c.claim.job >= 0 && &c.jobs[c.claim.job] == j:
		return "gathering"
	}
	return "waiting"
}

// reason is why, for a list.
func (c *core) reason(j *job, s *JobStatus) Reason {
	n := j.atOnce()
	if s.State == "running" {
		return Reason{}
	}
	total := c.inService(j.mask)
	var most int64
	best, lack := none, int64(0)
	for m := j.mask; m != 0; m &= m - 1 {
		k := int32(bits.TrailingZeros64(m))
		if int(k) >= len(c.types) {
			break
		}
		t := &c.types[k]
		most = max(most, t.total)
		if short := max(0, n*j.taskGPUs-int64(t.free.n)); t.total >= n*j.taskGPUs && (best == none || short < lack) {
			best, lack = k, short
		}
	}
	switch {
	case total == 0:
		var types []string
		for i := range j.on {
			types = append(types, c.types[j.on[i].kind].name)
		}
		slices.Sort(types)
		return NoneInService(types)
	case s.GPUType == "" || j.mix && total < j.tasks:
		return TooFewInService(n*j.taskGPUs, most)
	case c.nodes != nil && !c.fitsNodes(j):
		return NodesLackRoom(n * j.taskGPUs)
	case s.State == "waiting" && c.nodes != nil && len(c.lacking(j)) > 0:
		return QuotaUsedUp()
	case s.State == "gathering":
		return GathersGPUs(n*j.taskGPUs, c.freeOf(j.owns))
	case best != none && lack > 0:
		return BusyGPUs(lack, c.types[best].name)
	case c.nodes != nil:
		return NodesLackRoom(n * j.taskGPUs)
	case best == none: // it mixes types
		if lack := n*j.taskGPUs - c.freeOf(j.mask); lack > 0 {
			return BusyGPUs(lack, "GPUs")
		}
	}
	return ForOthers()
}
