package pool

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hare-sched/hare/executor/worker"
)

// turns gives the devices of the node to one call at a time. Calls that make a step or import a module may take any
// device, and come before tasks, which have their device; a parameter server therefore never waits for more than the
// task that computes at that time. The last device is the host: a worker without a GPU, for steps while other programs
// have all devices. Safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	devices []*device
	waiting []*wait
	freed   chan struct{} // closed when a device becomes free
}

func newTurns(devices []Device) *turns {
	t := &turns{freed: make(chan struct{})}
	for _, d := range devices {
		t.devices = append(t.devices, &device{kind: d.Type, after: map[string][]string{}})
	}
	t.devices = append(t.devices, &device{after: map[string][]string{}}) // the host
	return t
}

// device is a device as turns see it.
type device struct {
	kind string // its GPU type
	held bool   // another program has it
	busy bool
	// undelivered counts gradients that were computed there and are not yet at their parameter servers.
	undelivered int
	last        string // the job of the last call
	// orders are the tasks that the device was given and has not computed, in order.
	orders []*queued
	// after has for each job those that came after it on the device, the latest first.
	after map[string][]string
}

// queued is a task that waits for its device.
type queued struct{ job string }

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

// give gives free devices to calls that wait, those without a device of their own first. The caller holds t.mu.
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

// next are the jobs whose tasks are expected on the device after one of a job: those that it was given, then those
// that came after the job before.
func (d *device) next(job string) (jobs []string) {
	add := func(j string) {
		if j != job && !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
	}
	for _, o := range d.orders {
		add(o.job)
	}
	for _, j := range d.after[job] {
		add(j)
	}
	return jobs
}

// drop drops a task that does not wait any more.
func (d *device) drop(q *queued) {
	d.orders = slices.DeleteFunc(d.orders, func(x *queued) bool { return x == q })
}

// queue notes that a device was given a task.
func (t *turns) queue(device int, job string) *queued {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := &queued{job}
	t.devices[device].orders = append(t.devices[device].orders, q)
	return q
}

// begin notes that a task begins on its device, and returns the jobs that are expected there afterwards.
func (t *turns) begin(device int, q *queued) (next []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.devices[device]
	d.undelivered++
	d.began(q.job)
	d.drop(q)
	return d.next(q.job)
}

// done notes that a task is over, and its gradient delivered where it has begun.
func (t *turns) done(device int, q *queued, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.devices[device].drop(q)
	if begun {
		t.devices[device].undelivered--
		t.give()
	}
}

// forget forgets a job that the node does not have any more.
func (t *turns) forget(job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
func (t *turns) use(ctx context.Context, w *wait, f func(device int) error) error {
	w.turn = make(chan int, 1)
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.give()
	t.mu.Unlock()
	select {
	case i := <-w.turn:
		defer t.free(i)
		return f(i)
	case <-ctx.Done():
	}
	t.mu.Lock()
	t.waiting = slices.DeleteFunc(t.waiting, func(x *wait) bool { return x == w })
	t.mu.Unlock()
	select {
	case i := <-w.turn: // it came at the same time
		t.free(i)
	default:
	}
	return ctx.Err()
}

// free gives a device back.
func (t *turns) free(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.devices[i].busy = false
	t.give()
	close(t.freed)
	t.freed = make(chan struct{})
}

// useAny calls f with any device, and again with another one where the worker has died, at most a number of times in a
// row. A worker that had to leave its device to another program does not count. prefer is the device of the last call.
func (t *turns) useAny(ctx context.Context, crashes int, job string, prefer *int, f func(device int) error) error {
	return worker.Again(ctx, crashes, func() error {
		for {
			err := t.use(ctx, &wait{device: anyDevice, prefer: *prefer, job: job}, func(i int) error {
				*prefer = i
				return f(i)
			})
			var crash *worker.CrashError
			if !errors.As(err, &crash) || ctx.Err() != nil || !t.held(*prefer) {
				return err
			}
		}
	})
}

// hold notes which devices other programs have.
func (t *turns) hold(devices []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, d := range t.devices {
		d.held = slices.Contains(devices, i)
	}
	t.give()
}

// held reports whether another program has a device.
func (t *turns) held(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.devices[i].held
}

// left reports whether no call has a device that another program is to have, or whether a later hold has given it
// back. freed is closed when a device becomes free.
func (t *turns) left(i int) (left bool, freed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.devices[i].busy || !t.devices[i].held, t.freed
}
