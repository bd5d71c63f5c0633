package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// longTask is how long a task computes before the agent is told that it runs.
const longTask = time.Second

// compute is a task of a round on a device of the node.
type compute struct {
	pool  *Pool
	key   key
	order *clusterdoc.Compute
	entry *entry
	// since is when the device has begun to compute; the zero time says that it does not. said says that the agent
	// knows. The pool's mu guards them.
	since time.Time
	said  bool
}

// source is where a task takes the parameters from, and where it brings the gradient.
type source interface {
	// bring has the parameters of the task's round in the node. stale says that the round is over.
	bring(ctx context.Context, c *compute) (stale bool, err error)
	// deliver has the gradient of a task that has run at the home.
	deliver(ctx context.Context, t worker.Task, r worker.Result) error
}

func (c *compute) task() worker.Task {
	return worker.Task{Job: c.key.name(), Round: c.order.Round, Task: c.order.Task}
}

// startCompute begins to compute a task.
func (p *Pool) startCompute(o *clusterdoc.Order) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &compute{pool: p, key: keyOf(o.TaskID), order: o.Compute}
	stop := func(grace time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !c.since.IsZero() { // which only the end of the worker would break off
			time.AfterFunc(grace, cancel)
		} else {
			cancel()
		}
	}
	c.entry = &entry{stop: stop, kill: cancel}
	if !p.add(o.TaskID, c.entry) {
		cancel()
		return
	}
	p.mu.Lock()
	d := p.turns.devices[c.order.Device]
	d.orders = append(d.orders, c)
	from, leave := p.sourceOf(c)
	p.mu.Unlock()
	go func() {
		defer cancel()
		var ran, sync time.Duration
		err := func() error {
			stale, err := from.bring(ctx, c)
			if err != nil || stale {
				return err
			}
			result, err := c.run(ctx, &ran)
			if err != nil {
				return err
			}
			begun := time.Now()
			err = from.deliver(ctx, c.task(), result)
			sync = time.Since(begun)
			return err
		}()
		// What the home has made a step of is there.
		var stale *worker.StaleError
		if errors.As(err, &stale) && stale.Current > c.order.Round {
			err = nil
		}
		if errors.Is(err, worker.ErrUnknownJob) { // its home has ended meanwhile
			err = errGone
		}
		signal := ""
		if ctx.Err() != nil {
			signal = unix.SignalName(unix.SIGKILL)
		}
		p.mu.Lock()
		d.orders = slices.DeleteFunc(d.orders, func(x *compute) bool { return x == c })
		if ran > 0 {
			d.undelivered--
			p.turns.give()
		}
		p.mu.Unlock()
		leave()
		p.say(c.entry, func(r *clusterdoc.TaskReport) {
			ended(r, err, signal)
			r.RanS, r.SyncS = ran.Seconds(), sync.Seconds()
		})
	}()
}

// run computes the gradient on the device of the task, and says for how long the device was busy.
func (c *compute) run(ctx context.Context, ran *time.Duration) (result worker.Result, err error) {
	p, t := c.pool, c.task()
	err = p.use(ctx, &wait{device: c.order.Device, job: t.Job, task: true}, func(device int) error {
		p.mu.Lock()
		d := p.turns.devices[device]
		begun := time.Now()
		c.since = begun
		p.computing[c] = true
		d.undelivered++
		d.began(t.Job)
		d.orders = slices.DeleteFunc(d.orders, func(x *compute) bool { return x == c })
		next := d.next(c)
		p.mu.Unlock()
		err := worker.Again(ctx, maxCrashes, func() error {
			if p.heldNow(device) {
				return &lostError{"another program has the device"}
			}
			r, err := p.node.Run(ctx, device, t, next)
			result = r
			return err
		})
		*ran = max(time.Since(begun), 1)
		p.mu.Lock()
		c.since = time.Time{}
		delete(p.computing, c)
		p.mu.Unlock()
		return err
	})
	return result, err
}

// tellLong tells the agent of tasks that compute for long. Tasks have no timers of their own, because short ones come
// through sooner without.
func (p *Pool) tellLong() {
	for range time.Tick(longTask / 2) {
		var long []*entry
		p.mu.Lock()
		for c := range p.computing {
			if !c.said && time.Since(c.since) > longTask {
				c.said = true
				long = append(long, c.entry)
			}
		}
		p.mu.Unlock()
		for _, e := range long {
			p.say(e, func(r *clusterdoc.TaskReport) { r.State = clusterdoc.TaskRunning })
		}
	}
}

// sourceOf finds where a task takes its parameters from, and keeps the job in the node until leave is called. The
// caller holds p.mu.
func (p *Pool) sourceOf(c *compute) (from source, leave func()) {
	if h := p.homes[c.key]; h != nil {
		return h, func() {}
	}
	h := p.helpers[c.key]
	if h == nil {
		h = newHelper(p, c)
		p.helpers[c.key] = h
	}
	h.tasks++
	return h, h.leave
}

var _ source = (*home)(nil)

// bring waits for the home of the same node, whose parameters the node has.
func (h *home) bring(ctx context.Context, c *compute) (stale bool, err error) {
	version, err := h.await(ctx, c.order.Round)
	return version > c.order.Round, err
}

// deliver says that the gradient is there, in the memory of the node.
func (h *home) deliver(_ context.Context, t worker.Task, r worker.Result) error {
	h.took(t, r.Loss)
	return nil
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}
