package online

import (
	"math"
	"math/bits"
)

// million is the unit of relative speeds.
const million = 1_000_000

// learnFrom is how many completed tasks of a job on a type its speed there is
// learned from, where its profile is empty.
const learnFrom = 4

// nominalUs stands for the compute time of a job of which nothing is known, on
// a type of relative speed 1. Only ratios of such times are ever used.
const nominalUs = million

// prior is the relative speed of a type, in 1e-6 of a job's fastest type: the
// mean over the profiles given so far, or 1.
func (t *gpuType) prior() int64 {
	if t.relatives == 0 {
		return million
	}
	return max(t.relative/t.relatives, 1)
}

// fastestKnown is the profile with the least known compute time, or nil.
func (j *job) fastestKnown() *profile {
	var best *profile
	for i := range j.on {
		if p := &j.on[i]; p.computeUs > 0 && (best == nil || p.computeUs < best.computeUs) {
			best = p
		}
	}
	return best
}

// estimate is the compute time of a task of j under profile p: known, or that
// of the job's fastest known type scaled by the priors of the two types.
func (c *core) estimate(j *job, p *profile) int64 {
	if p.computeUs > 0 {
		return p.computeUs
	}
	base, from := int64(nominalUs), int64(million)
	if b := j.fastestKnown(); b != nil {
		base, from = b.computeUs, c.types[b.kind].prior()
	}
	return max(mulDiv(base, from, c.types[p.kind].prior()), 1)
}

// referenceUs is the compute time of j on its reference type: the configured
// one where it may run there, else its fastest.
func (c *core) referenceUs(j *job) int64 {
	least := int64(math.MaxInt64)
	for i := range j.on {
		p := &j.on[i]
		us := c.estimate(j, p)
		if p.kind == c.ref {
			return us
		}
		least = min(least, us)
	}
	return least
}

// credit adds heldUs of a GPU type, n times, to the service of a job, which
// may fall into a lower queue. It is rounded up, so that whatever takes time
// counts: a job of very short tasks would else stay in its queue for ever.
// O(types of the job).
func (c *core) credit(ji, kind int32, heldUs, n int64) {
	j := &c.jobs[ji]
	for i := range j.on {
		p := &j.on[i]
		if p.kind != kind {
			continue
		}
		us := mulDiv(mulDivUp(heldUs, c.referenceUs(j), c.estimate(j, p)), n, 1)
		j.attained = addUp(j.attained, us)
		j.attainedUs = addUp(j.attainedUs, us)
	}
	q := j.queue
	for int(q) < len(c.thresholds) && j.attained > c.thresholds[q] {
		q++
	}
	if q != j.queue {
		j.queue = q
		c.reorder(ji)
	}
}

func addUp(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// learn takes the measured compute time of a task into an empty profile.
func (c *core) learn(ji, kind int32, computeUs int64) {
	if computeUs <= 0 {
		return
	}
	j := &c.jobs[ji]
	for i := range j.on {
		p := &j.on[i]
		if p.kind != kind || p.given || p.count == learnFrom {
			continue
		}
		c.dirty = true
		inLine := c.lineAt[ji] >= 0
		if inLine {
			c.countWaiting(j, -1)
		}
		p.count++
		p.sumUs = addUp(p.sumUs, computeUs)
		p.computeUs = p.sumUs / p.count
		j.setSpeeds()
		if inLine {
			c.countWaiting(j, 1)
		}
	}
}

// setSpeeds derives the relative speeds from the known compute times.
func (j *job) setSpeeds() {
	best := j.fastestKnown()
	for i := range j.on {
		p := &j.on[i]
		p.speed = 0
		if p.computeUs > 0 {
			p.speed = max(mulDiv(best.computeUs, million, p.computeUs), 1)
		}
	}
}

// observe takes the given profile of a job that arrives into the priors. A
// profile with one known type says nothing of its speed.
func (c *core) observe(j *job) {
	known := 0
	for i := range j.on {
		if j.on[i].given {
			known++
		}
	}
	if known < 2 {
		return
	}
	for i := range j.on {
		if p := &j.on[i]; p.given {
			t := &c.types[p.kind]
			t.relative += p.speed
			t.relatives++
		}
	}
}

// cheapest is the type of set on which a task of j computes for the least
// time, among those with at least need free GPUs, or none. Ties go to the
// comparative advantage: equal times are equal speeds of this job, so to the
// type whose mean speed for the jobs in line is least; then to the type named
// first. Where a type is chosen to gather on, ties go by name alone, because
// that choice must not depend on which jobs left the line a moment ago.
func (c *core) cheapest(j *job, set uint64, need int64, byAdvantage bool) int32 {
	best, bestUs := none, int64(0)
	for i := range j.on {
		p := &j.on[i]
		if set>>p.kind&1 == 0 || int64(c.types[p.kind].free.n) < need {
			continue
		}
		us := c.estimate(j, p)
		if best == none || us < bestUs || us == bestUs && byAdvantage && c.scarcer(p.kind, best) {
			best, bestUs = p.kind, us
		}
	}
	return best
}

// scarcer says whether the jobs in line are slower on type a than on b, in the mean.
func (c *core) scarcer(a, b int32) bool {
	x, y := &c.types[a], &c.types[b]
	if x.waiters == 0 || y.waiters == 0 {
		return false
	}
	xh, xl := bits.Mul64(uint64(x.waiting), uint64(y.waiters))
	yh, yl := bits.Mul64(uint64(y.waiting), uint64(x.waiters))
	return xh < yh || xh == yh && xl < yl
}
