package online

import (
	"math/bits"

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
