package online

import "math/bits"

// classKey says which jobs may use the same GPUs: the types, and for gangs
// the width.
type classKey struct {
	mask  uint64
	width int64 // 0 for relaxed
	mix   bool
}

// class is the line of the jobs of one key.
type class struct {
	classKey
	fits   uint64 // types with enough GPUs in service, together where they may mix
	jobs   int    // active, in line or not
	line   jobHeap
	listed uint64 // the order of its first job in the lines of types; 0: not in them
}

// classHeap is a heap of classes, each with its place, or −1.
type classHeap struct {
	jobHeap
	at []int32
}

// put enters a class, moves it, or takes it out where key is 0.
func (l *classHeap) put(x int32, key, width uint64) {
	for int(x) >= len(l.at) {
		l.at = append(l.at, none)
	}
	switch i := l.at[x]; {
	case key == 0 && i >= 0:
		l.remove(int(i), l.at)
	case key == 0:
	case i < 0:
		l.push(item{key, width, x}, l.at)
	default:
		l.jobHeap[i].key = key
		l.fix(int(i), l.at)
	}
}

// joinClass counts a job under its class, which it makes known.
func (c *core) joinClass(ji int32) {
	j := &c.jobs[ji]
	key := classKey{j.mask, j.width(), j.mix}
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

// refitAll follows a change of the GPUs in service of a type. O(classes).
func (c *core) refitAll(kind int32) {
	for x := range c.classes {
		if cl := &c.classes[x]; cl.jobs > 0 && cl.mask>>kind&1 == 1 {
			c.refit(int32(x))
		}
	}
}

// relist tells the lines of types who stands first in a class.
func (c *core) relist(x int32) {
	key := uint64(0)
	if cl := &c.classes[x]; len(cl.line) > 0 {
		key = cl.line[0].key
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
		t.line.put(x, key, uint64(cl.width))
		if cl.mix {
			t.mix.put(x, key, uint64(cl.width))
		}
	}
}

// enter puts a job that has ready tasks in line.
func (c *core) enter(ji int32) {
	if c.lineAt[ji] >= 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	if len(cl.line) == 0 && cl.mix {
		c.mixing++
	}
	cl.line.push(item{key: j.order(), job: ji}, c.lineAt)
	c.relist(j.class)
	c.countWaiting(j, 1)
}

// leave takes a job out of line.
func (c *core) leave(ji int32) {
	at := c.lineAt[ji]
	if at < 0 {
		return
	}
	j := &c.jobs[ji]
	cl := &c.classes[j.class]
	cl.line.remove(int(at), c.lineAt)
	if len(cl.line) == 0 && cl.mix {
		c.mixing--
	}
	c.relist(j.class)
	c.countWaiting(j, -1)
}

// reorder follows a change of queue or ticket.
func (c *core) reorder(ji int32) {
	c.dirty = true
	if at := c.lineAt[ji]; at >= 0 {
		j := &c.jobs[ji]
		line := &c.classes[j.class].line
		(*line)[at].key = j.order()
		line.fix(int(at), c.lineAt)
		c.relist(j.class)
	}
}

func (c *core) countWaiting(j *job, by int64) {
	for i := range j.on {
		if p := &j.on[i]; p.speed > 0 {
			c.types[p.kind].waiting += by * p.speed
			c.types[p.kind].waiters += by
		}
	}
}
