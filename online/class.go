package online

import (
	"math"
	"math/bits"

	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/placement"
)

// classKey says which jobs may use the same GPUs: the types, and for gangs
// the width.
type classKey struct {
	mask  uint64
	width int64 // 0 for relaxed
	mix   bool
	shape placement.Shape // of jobs with rules about nodes or in quotas, from 1; 0 for the others
}

// class is the ready queue of the jobs of one key: a heap of the jobs that have
// tasks to start.
type class struct {
	classKey
	fits   uint64 // types with enough GPUs in service, together where they may mix
	jobs   int    // active jobs, in the ready queue or not
	ready  jobHeap
	listed uint64 // the key of the class in the ready queues of types; 0: it is in none
}

// classHeap is a heap of classes; at is the index of each class in it, or −1.
type classHeap struct {
	jobHeap
	at []int32
}

// put inserts a class, moves it to its new key, or removes it where key is 0.
func (ch *classHeap) put(x int32, key, width uint64) {
	for int(x) >= len(ch.at) {
		ch.at = append(ch.at, none)
	}
	switch i := ch.at[x]; {
	case key == 0 && i >= 0:
		ch.remove(int(i), ch.at)
	case key == 0:
	case i < 0:
		ch.push(item{key, width, x}, ch.at)
	default:
		ch.jobHeap[i].key = key
		ch.fix(int(i), ch.at)
	}
}

// joinClass counts a job under its class, and makes the class if there is none.
func (c *core) joinClass(ji int32) {
	j := &c.jobs[ji]
	key := classKey{mask: j.mask, width: j.width(), mix: j.mix}
	if c.inClassOfShape(j) {
		key.shape = j.shape + 1
	}
	x, ok := c.classOf[key]
	if !ok {
		if n := len(c.vacantClasses); n > 0 {
			x = c.vacantClasses[n-1]
			c.vacantClasses = c.vacantClasses[:n-1]
		} else {
			x = int32(len(c.classes))
			c.classes = append(c.classes, class{})
		}
		c.classes[x].classKey = key
		c.classOf[key] = x
		c.refit(x)
	}
	c.classes[x].jobs++
	j.class = x
}

func (c *core) leaveClass(ji int32) {
	x := c.jobs[ji].class
	cl := &c.classes[x]
	if cl.jobs--; cl.jobs == 0 {
		delete(c.classOf, cl.classKey)
		c.vacantClasses = append(c.vacantClasses, x)
	}
}

// refit finds the types on which jobs of a class can ever run with the GPUs in
// service. O(types).
func (c *core) refit(x int32) {
	cl := &c.classes[x]
	fits := uint64(0)
	if cl.mix {
		if c.inService(cl.mask) >= cl.width {
			fits = cl.mask
		}
	} else {
		for m := cl.mask; m != 0; m &= m - 1 {
			k := bits.TrailingZeros64(m)
			if c.types[k].total >= cl.width {
				fits |= 1 << k
			}
		}
	}
	if fits != cl.fits {
		c.list(x, 0)
		cl.fits = fits
		c.relist(x)
	}
}

// refitAll refits the classes that name a type, after a change of its GPUs in
// service. O(classes).
func (c *core) refitAll(kind int32) {
	for x := range c.classes {
		if cl := &c.classes[x]; cl.jobs > 0 && cl.mask>>kind&1 == 1 {
			c.refit(int32(x))
		}
	}
}

// relist updates the key of a class in the ready queues of its types.
func (c *core) relist(x int32) {
	key := uint64(0)
	if cl := &c.classes[x]; len(cl.ready) > 0 {
		key = cl.ready[0].key
	}
	c.list(x, key)
}

func (c *core) list(x int32, key uint64) {
	cl := &c.classes[x]
	if key == cl.listed {
		return
	}
	cl.listed = key
	for m := cl.fits; m != 0; m &= m - 1 {
		t := &c.types[bits.TrailingZeros64(m)]
		t.ready.put(x, key, uint64(cl.width))
		if cl.mix {
			t.mix.put(x, key, uint64(cl.width))
		}
	}
}

// enter puts a job that has ready tasks into the ready queue of its class.
func (c *core) enter(ji int32) {
	if c.readyAt[ji] >= 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	if len(cl.ready) == 0 && cl.mix {
		c.mixing++
	}
	cl.ready.push(item{key: j.order(), job: ji}, c.readyAt)
	c.relist(j.class)
	c.countReady(j, 1)
}

// leave takes a job out of the ready queue.
func (c *core) leave(ji int32) {
	at := c.readyAt[ji]
	if at < 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	cl.ready.remove(int(at), c.readyAt)
	if len(cl.ready) == 0 && cl.mix {
		c.mixing--
	}
	c.relist(j.class)
	c.countReady(j, -1)
}

// reorder moves a job in its ready queue after a change of its queue or ticket.
func (c *core) reorder(ji int32) {
	c.dirty = true
	if at := c.readyAt[ji]; at >= 0 {
		j := &c.jobs[ji]
		ready := &c.classes[j.class].ready
		(*ready)[at].key = j.order()
		ready.fix(int(at), c.readyAt)
		c.relist(j.class)
	}
}

// countReady adds a job to the mean speeds of the ready jobs, or takes it out
// where by is −1.
func (c *core) countReady(j *job, by int64) {
	for i := range j.on {
		if p := &j.on[i]; p.speed > 0 {
			c.types[p.kind].readySum += by * p.speed
			c.types[p.kind].readyCount += by
		}
	}
}

// million is the unit of relative speeds.
const million = 1_000_000

// learnFrom is the number of completed tasks from which the speed of a job on a type
// is learned where its profile is empty.
const learnFrom = 4

// nominalUs is taken as the compute time, on a type of relative speed 1, of a job of
// which no time is known. Only ratios of such times are ever used.
const nominalUs = million

// prior is the relative speed of a type, in 1e-6 of a job's fastest type: the
// mean over the profiles given so far, or 1.
func (gt *gpuType) prior() int64 {
	if gt.priorCount == 0 {
		return million
	}
	return max(gt.priorSum/gt.priorCount, 1)
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

// estimate is the compute time of a task of j under profile p: the known time, or
// the time on the job's fastest known type scaled by the priors of the two types.
func (c *core) estimate(j *job, p *profile) int64 {
	if p.computeUs > 0 {
		return p.computeUs
	}
	base, from := int64(nominalUs), int64(million)
	if b := j.fastestKnown(); b != nil {
		base, from = b.computeUs, c.types[b.kind].prior()
	}
	return max(saturating.MulDiv(base, from, c.types[p.kind].prior()), 1)
}

// referenceUs is the compute time of j on its reference type: the configured type
// where j may run on that, else the job's fastest type.
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

// credit adds heldUs of a GPU type, n times, to the service of a job, which may fall
// into a lower queue. The service is rounded up, so that whatever takes time counts:
// a job of very short tasks would otherwise stay in its queue for ever. The cost is
// O(types of the job).
func (c *core) credit(ji, kind int32, heldUs, n int64) {
	j := &c.jobs[ji]
	for i := range j.on {
		p := &j.on[i]
		if p.kind != kind {
			continue
		}
		us := saturating.MulDiv(saturating.MulDivUp(heldUs, c.referenceUs(j), c.estimate(j, p)), n, 1)
		j.attained = saturating.Add(j.attained, us)
		j.attainedUs = saturating.Add(j.attainedUs, us)
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

// learn adds the measured compute time of a task to a profile that was given empty.
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
		wasReady := c.readyAt[ji] >= 0
		if wasReady {
			c.countReady(j, -1)
		}
		p.count++
		p.sumUs = saturating.Add(p.sumUs, computeUs)
		p.computeUs = p.sumUs / p.count
		j.setSpeeds()
		if wasReady {
			c.countReady(j, 1)
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
			p.speed = max(saturating.MulDiv(best.computeUs, million, p.computeUs), 1)
		}
	}
}

// observe adds the given profiles of an arriving job to the priors. A job with one
// known type says nothing about relative speeds.
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
			t.priorSum += p.speed
			t.priorCount++
		}
	}
}

// cheapest is the type of set with the least compute time for a task of j, among
// the types with at least need free GPUs, or none. Ties go by comparative advantage:
// to the type whose mean speed for the ready jobs is least, and then to the type
// that was named first. Where the choice is which type to gather, byAdvantage is
// false and ties go to the type that was named first, because that choice must not
// depend on which jobs left the ready queue a moment ago.
func (c *core) cheapest(j *job, set uint64, need int64, byAdvantage bool) int32 {
	best, bestUs := none, int64(0)
	for i := range j.on {
		p := &j.on[i]
		if set>>p.kind&1 == 0 || int64(c.types[p.kind].free.n) < need {
			continue
		}
		us := c.estimate(j, p)
		if best == none || us < bestUs || us == bestUs && byAdvantage && c.slowerForReady(p.kind, best) {
			best, bestUs = p.kind, us
		}
	}
	return best
}

// slowerForReady reports whether the mean speed of the ready jobs is less on type a than
// on type b.
func (c *core) slowerForReady(a, b int32) bool {
	x, y := &c.types[a], &c.types[b]
	if x.readyCount == 0 || y.readyCount == 0 {
		return false
	}
	xh, xl := bits.Mul64(uint64(x.readySum), uint64(y.readyCount))
	yh, yl := bits.Mul64(uint64(y.readySum), uint64(x.readyCount))
	return xh < yh || xh == yh && xl < yl
}
