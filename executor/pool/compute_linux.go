package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// longTask is how long a task computes before the agent hears that it runs.
const longTask = time.Second

// computer computes tasks of rounds on the devices of the node.
type computer struct {
	workers *worker.Node
	turns   *turns
	reports *reports

	mu sync.Mutex
	// running are the tasks that devices compute now.
	running map[*compute]bool
}

// compute is a task of a round on a device of the node.
type compute struct {
	key    key
	order  *clusterdoc.Compute
	entry  *entry
	queued *queued
	// since is when the device has begun to compute; the zero time says that it does not. said says that the agent
	// knows. The computer's mu guards them.
	since time.Time
	said  bool
}

// source is where a task takes the parameters from, and where it brings the gradient.
type source interface {
	// bring has the parameters of the task's round in the node. stale says that the round is over.
	bring(ctx context.Context, o *clusterdoc.Compute) (stale bool, err error)
	// deliver has the gradient of a task that has run at the parameter server.
	deliver(ctx context.Context, t worker.Task, r worker.Result) error
	// leave says that the task is over.
	leave()
}

func (c *compute) task() worker.Task {
	return worker.Task{Job: c.key.name(), Round: c.order.Round, Task: c.order.Task}
}

// start begins to compute a task.
func (p *computer) start(o *clusterdoc.Order, sourceOf func(key, *clusterdoc.Compute) source) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &compute{key: keyOf(o.TaskID), order: o.Compute}
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
	if !p.reports.add(o.TaskID, c.entry) {
		cancel()
		return
	}
	c.queued = p.turns.queue(c.order.Device, c.key.name())
	from := sourceOf(c.key, c.order)
	go func() {
		defer cancel()
		var ran, sync time.Duration
		err := func() error {
			stale, err := from.bring(ctx, c.order)
			if err != nil || stale {
				return err
			}
			result, err := p.run(ctx, c, &ran)
			if err != nil {
				return err
			}
			begun := time.Now()
			err = from.deliver(ctx, c.task(), result)
			sync = time.Since(begun)
			return err
		}()
		// What the parameter server has made a step of is there.
		var stale *worker.StaleError
		if errors.As(err, &stale) && stale.Current > c.order.Round {
			err = nil
		}
		if errors.Is(err, worker.ErrUnknownJob) { // its parameter server has ended meanwhile
			err = errGone
		}
		signal := ""
		if ctx.Err() != nil {
			signal = unix.SignalName(unix.SIGKILL)
		}
		p.turns.done(c.order.Device, c.queued, ran > 0)
		from.leave()
		p.reports.say(c.entry, func(r *clusterdoc.TaskReport) {
			ended(r, err, signal)
			r.RanS, r.SyncS = ran.Seconds(), sync.Seconds()
		})
	}()
}

// run computes the gradient on the device of the task, and says for how long the device was busy.
func (p *computer) run(ctx context.Context, c *compute, ran *time.Duration) (result worker.Result, err error) {
	t := c.task()
	err = p.turns.use(ctx, &wait{device: c.order.Device, job: t.Job, task: true}, func(device int) error {
		next := p.turns.begin(device, c.queued)
		begun := time.Now()
		p.mu.Lock()
		c.since = begun
		p.running[c] = true
		p.mu.Unlock()
		err := worker.Again(ctx, rounds.MaxCrashes, func() error {
			if p.turns.held(device) {
				return &lostError{"another program has the device"}
			}
			r, err := p.workers.Run(ctx, device, t, next)
			result = r
			return err
		})
		*ran = max(time.Since(begun), 1)
		p.mu.Lock()
		c.since = time.Time{}
		delete(p.running, c)
		p.mu.Unlock()
		return err
	})
	return result, err
}

// tellLong tells the agent of tasks that compute for long. Tasks have no timers of their own, because short ones come
// through sooner without.
func (p *computer) tellLong() {
	for range time.Tick(longTask / 2) {
		var long []*entry
		p.mu.Lock()
		for c := range p.running {
			if !c.said && time.Since(c.since) > longTask {
				c.said = true
				long = append(long, c.entry)
			}
		}
		p.mu.Unlock()
		for _, e := range long {
			p.reports.say(e, func(r *clusterdoc.TaskReport) { r.State = clusterdoc.TaskRunning })
		}
	}
}
