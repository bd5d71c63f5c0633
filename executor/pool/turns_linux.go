package pool

import (
	"context"
	"slices"
)

// turns gives the devices of the node to one call at a time. Calls that make a step or import a module may take any
// device, and come before tasks, which have their device; the home of a job therefore never waits for more than the
// task that computes just then. The last device is the host: a worker without a GPU, for steps while other programs
// have all devices.
type turns struct {
	devices []*device
	waiting []*wait
}

// device is a device as turns see it.
type device struct {
	kind string // its GPU type
	held bool   // another program has it
	busy bool
	// undelivered counts gradients that were computed there and are not yet at their homes.
	undelivered int
	last        string // the job of the last call
	// orders are the tasks that the device was given and has not computed, in order.
	orders []*compute
	// after has for each job those that came after it on the device, the latest first.
	after map[string][]string
}

const (
	// maxUndelivered is how many gradients of a device may be on their way before the device computes the next one, so
	// that memory does not grow with a slow network.
	maxUndelivered = 2
	// maxAfter is how many jobs are remembered that came after a job.
	maxAfter = 3
	// anyDevice is in place of a device where all will do.
	anyDevice = -1
)

// wait is a call that waits for its device.
type wait struct {
	device int  // or anyDevice
	prefer int  // of several, where none has just computed for the job
	types  bool // devices of several types will do, too
	job    string
	task   bool
	turn   chan int // gets the device
}

// rank says how good a device is for a call that takes any.
func (w *wait) rank(i int, d *device) int {
	switch {
	case d.last == w.job:
		return 2
	case i == w.prefer:
		return 1
	}
	return 0
}

// ready reports whether the call can have a device now, and which.
func (t *turns) ready(w *wait) (int, bool) {
	if w.device != anyDevice {
		d := t.devices[w.device]
		return w.device, !d.busy && !d.held && (!w.task || d.undelivered < maxUndelivered)
	}
	host := len(t.devices) - 1
	kind, best := "", -1
	for i, d := range t.devices[:host] {
		// Of several types the first one makes the steps as long as it is there, because types round differently.
		if d.held || !w.types && kind != "" && d.kind != kind {
			continue
		}
		kind = d.kind
		if !d.busy && (best < 0 || w.rank(i, d) > w.rank(best, t.devices[best])) {
			best = i
		}
	}
	if kind == "" {
		return host, !t.devices[host].busy
	}
	return best, best >= 0
}

// give gives free devices to calls that wait, those without a device of their own first.
func (t *turns) give() {
	for _, tasks := range []bool{false, true} {
		t.waiting = slices.DeleteFunc(t.waiting, func(w *wait) bool {
			if w.task != tasks {
				return false
			}
			i, ok := t.ready(w)
			if ok {
				t.devices[i].busy = true
				w.turn <- i
			}
			return ok
		})
	}
}

// began notes that a task of a job begins on a device.
func (d *device) began(job string) {
	if before := d.last; before != "" && before != job {
		all := slices.DeleteFunc(d.after[before], func(j string) bool { return j == job })
		d.after[before] = slices.Insert(all, 0, job)[:min(len(all)+1, maxAfter)]
	}
	d.last = job
}

// next are the jobs whose tasks are expected on the device behind one of a job: those that it was given, then those
// that came behind the job before.
func (d *device) next(c *compute) (jobs []string) {
	add := func(j string) {
		if j != c.key.name() && !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
	}
	for _, o := range d.orders {
		add(o.key.name())
	}
	for _, j := range d.after[c.key.name()] {
		add(j)
	}
	return jobs
}

// forget forgets a job that the node does not have any more.
func (t *turns) forget(job string) {
	for _, d := range t.devices {
		if d.last == job {
			d.last = ""
		}
		delete(d.after, job)
		for before, after := range d.after {
			d.after[before] = slices.DeleteFunc(after, func(j string) bool { return j == job })
		}
	}
}

// use calls f with a device, when the device is free.
func (p *Pool) use(ctx context.Context, w *wait, f func(device int) error) error {
	w.turn = make(chan int, 1)
	p.mu.Lock()
	p.turns.waiting = append(p.turns.waiting, w)
	p.turns.give()
	p.mu.Unlock()
	select {
	case i := <-w.turn:
		defer p.free(i)
		return f(i)
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.turns.waiting = slices.DeleteFunc(p.turns.waiting, func(x *wait) bool { return x == w })
	p.mu.Unlock()
	select {
	case i := <-w.turn: // it came at the same time
		p.free(i)
	default:
	}
	return ctx.Err()
}

// free gives a device back.
func (p *Pool) free(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns.devices[i].busy = false
	p.turns.give()
	close(p.freed)
	p.freed = make(chan struct{})
}
