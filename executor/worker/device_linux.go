package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare/executor/residency"
)

// device is one device of a node with the process that serves it.
type device struct {
	node  *Node
	index int

	// turn is held by the one call that is done.
	turn     sync.Mutex
	cache    *residency.Cache
	attached map[string]*job // that the process has mapped, by ID

	// mu guards the fields below, which are also used outside a turn.
	mu      sync.Mutex
	process *process
	failed  []string // jobs of which a prefetch failed, or that have ended
	deaths  int      // of processes since the last answer
	closed  bool
	// releasing counts calls that wait for the end of the process: none is started meanwhile. starting ends the start of
	// one that is under way, and is nil otherwise.
	releasing int
	starting  context.CancelFunc
}

// maxBackoff is the longest pause after deaths.
const maxBackoff = 30 * time.Second

// backoff is how long a device rests when its process has died a number of times without doing
// anything between.
func backoff(first time.Duration, deaths int) time.Duration {
	if deaths < 2 {
		return 0
	}
	pause := first
	for range deaths - 2 {
		if pause *= 2; pause >= maxBackoff {
			return maxBackoff
		}
	}
	return min(pause, maxBackoff)
}

// do gives f a turn with a process that runs.
func (d *device) do(ctx context.Context, f func(*process) error) error {
	d.yield(ctx)
	d.turn.Lock()
	defer d.turn.Unlock()
	p, err := d.alive(ctx)
	if err != nil {
		return err
	}
	err = f(p)
	var crash *CrashError
	var fault *FaultError
	if errors.As(err, &fault) && fault.Kind == "device" {
		p.kill()
		<-p.ended
	}
	if err == nil || !errors.As(err, &crash) && ctx.Err() == nil {
		d.mu.Lock()
		d.deaths = 0
		d.mu.Unlock()
	}
	return err
}

// yield lets releases have their turns first. Calls that are made again at once would take all turns, and fail each
// time.
func (d *device) yield(ctx context.Context) {
	for ctx.Err() == nil {
		d.mu.Lock()
		waits := d.releasing > 0
		d.mu.Unlock()
		if !waits {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// alive returns the process of the device, a new one where the last has ended.
func (d *device) alive(ctx context.Context) (*process, error) {
	d.mu.Lock()
	p, closed := d.process, d.closed
	failed := d.failed
	d.failed = nil
	d.mu.Unlock()
	if closed {
		return nil, errors.New("worker: the node is closed")
	}
	if p != nil && !p.dead() {
		for _, id := range failed {
			d.forgetCopy(p, id)
		}
		return p, nil
	}
	start, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.process = nil
	if p != nil {
		d.deaths++
	}
	pause := backoff(d.node.cfg.Backoff, d.deaths)
	d.starting = cancel
	if d.releasing > 0 || d.closed {
		cancel()
	}
	d.mu.Unlock()
	d.cache.Lost()
	d.attached = map[string]*job{}
	p, err := d.start(start, pause)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting = nil
	switch {
	case d.closed:
		if err == nil {
			p.kill()
		}
		return nil, errors.New("worker: the node is closed")
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && start.Err() != nil:
		return nil, &CrashError{Reason: "its device was released before it had started"}
	case err != nil:
		d.deaths++
		return nil, err
	}
	d.process = p
	return p, nil
}

// start starts a process after a pause.
func (d *device) start(ctx context.Context, pause time.Duration) (*process, error) {
	wait := time.NewTimer(pause)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d.node.mu.Lock()
	d.node.epoch++
	epoch := d.node.epoch
	d.node.mu.Unlock()
	return startProcess(ctx, &d.node.cfg, d.index, epoch)
}

// attach makes the job known to the process and its shared memory mapped there.
func (d *device) attach(ctx context.Context, p *process, j *job) error {
	was := d.attached[j.ID]
	if was == j {
		return nil
	}
	if was != nil { // a job with this ID that has ended
		d.detach(p, was)
	}
	m, err := p.call(ctx, &Message{Type: Register, Job: j.ID, Module: j.Module, Directory: j.Directory,
		Tasks: j.Tasks, Seed: j.Seed, Environment: j.Environment}, nil)
	if err != nil {
		return err
	}
	j.mu.Lock()
	if j.segment == nil {
		j.segment, err = newSegment(j.ID, m.StateBytes, m.GradientBytes, j.Tasks)
	} else if m.StateBytes != j.segment.stateBytes {
		err = &FaultError{Job: j.ID, Kind: "module", Reason: fmt.Sprintf("build() made a state of %d bytes, "+
			"and of %d bytes before", m.StateBytes, j.segment.stateBytes)}
	}
	initialised := j.initialised
	j.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = p.call(ctx, &Message{Type: Attach, Job: j.ID, Initialise: !initialised}, j.segment.file)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.initialised = true
	j.mu.Unlock()
	d.attached[j.ID] = j
	return nil
}

// room has the memory's policy make room for a job and keep what is needed next. before is what the
// worker must do before the job runs, after is what may be done after it. The worker copies
// the state of the job itself when it needs it.
func (d *device) room(j *job, version int64, next []residency.Model) (before, after []residency.Action, err error) {
	actions, err := d.cache.Run(d.model(j, version), next)
	var big *residency.TooBigError
	if errors.As(err, &big) {
		return nil, nil, &FaultError{Job: j.ID, Kind: "oom", Reason: err.Error(), FootprintBytes: d.cache.UsedBytes()}
	}
	own := slices.IndexFunc(actions, func(a residency.Action) bool {
		return a.Job == j.ID && a.Type != residency.Evict
	})
	return actions[:own+1], actions[own+1:], err
}

func (d *device) model(j *job, version int64) residency.Model {
	return residency.Model{Job: j.ID, Version: version, Bytes: j.segment.stateBytes}
}

// forgetCopy has a copy dropped that a fault may have left in any state.
func (d *device) forgetCopy(p *process, id string) {
	d.cache.Forget(id)
	d.order(p, []residency.Action{{Type: residency.Evict, Job: id}})
}

// order asks the process to evict and to copy ahead, and does not wait for the answers.
func (d *device) order(p *process, actions []residency.Action) {
	for _, a := range actions {
		switch {
		case d.attached[a.Job] == nil:
		case a.Type == residency.Evict:
			p.send(&Message{Type: Evict, Job: a.Job}, nil, func(*Message, error) {})
		case a.Type == residency.Prefetch || a.Type == residency.Refresh:
			d.prefetch(p, a)
		}
	}
}

// run has the process compute a task.
func (d *device) run(ctx context.Context, p *process, j *job, t Task, next []string) (Result, error) {
	if err := d.attach(ctx, p, j); err != nil {
		return Result{}, err
	}
	expected := d.expected(next)
	for try := 0; ; try++ {
		before, after, err := d.room(j, t.Round, expected)
		if err != nil {
			return Result{}, err
		}
		d.order(p, before[:max(0, len(before)-1)])
		answer := p.begin(&Message{Type: Run, Job: j.ID, Round: t.Round, Task: t.Task, Version: t.Round}, nil)
		d.order(p, after)
		m, err := p.wait(ctx, answer)
		var fault *FaultError
		if err == nil {
			return Result{Loss: m.Loss, ComputeS: m.ComputeS}, nil
		}
		if !errors.As(err, &fault) {
			return Result{}, err
		}
		d.forgetCopy(p, j.ID)
		if fault.Kind != "oom" || try > 0 {
			return Result{}, err
		}
		d.order(p, d.cache.MakeRoom(j.ID, expected))
	}
}

// expected returns the models of the next tasks that the process knows.
func (d *device) expected(next []string) []residency.Model {
	var models []residency.Model
	for _, id := range next {
		if j, err := d.node.job(id); err == nil && d.attached[id] == j {
			models = append(models, d.model(j, j.committed()))
		}
	}
	return models
}

// prefetch asks for a copy of a job's state, unless a step is about to replace the state. The worker may make the copy
// much later, after the task of another job, and the job goes on meanwhile. The next step writes the other slot; what
// replaces the slot of the copy makes its version an old one, and workers never use a copy of another version than
// that which they are asked for.
func (d *device) prefetch(p *process, a residency.Action) {
	j := d.attached[a.Job]
	fresh := j.copying.TryRLock()
	if fresh {
		j.mu.Lock()
		fresh = !j.removed && j.version == a.Version
		j.mu.Unlock()
		j.copying.RUnlock()
	}
	if !fresh {
		d.drop(a.Job)
		return
	}
	p.send(&Message{Type: Prefetch, Job: a.Job, Version: a.Version}, nil, func(_ *Message, err error) {
		if err != nil {
			d.drop(a.Job)
		}
	})
}

// drop notes, for the next turn, that a job has no copy on the device.
func (d *device) drop(id string) {
	d.mu.Lock()
	d.failed = append(d.failed, id)
	d.mu.Unlock()
}

// forget tells the process that a job has ended: at once where the device does nothing, and otherwise after that.
func (d *device) forget(j *job) {
	tell := func() {
		defer d.turn.Unlock()
		d.mu.Lock()
		p := d.process
		d.mu.Unlock()
		if p != nil && d.attached[j.ID] == j {
			d.detach(p, j)
		}
	}
	if d.turn.TryLock() {
		tell()
		return
	}
	go func() {
		d.turn.Lock()
		tell()
	}()
}

// detach has the process forget a job that it has mapped.
func (d *device) detach(p *process, j *job) {
	d.cache.Forget(j.ID)
	delete(d.attached, j.ID)
	p.send(&Message{Type: Forget, Job: j.ID}, nil, func(*Message, error) {})
}

// release ends the process, also one that is being started, which is not a death, and waits until it has ended.
func (d *device) release() {
	d.mu.Lock()
	d.releasing++
	if d.starting != nil {
		d.starting()
	}
	if d.process != nil {
		d.process.kill()
	}
	d.mu.Unlock()
	d.turn.Lock()
	defer d.turn.Unlock()
	d.mu.Lock()
	d.releasing--
	p := d.process
	d.process, d.deaths, d.failed = nil, 0, nil
	d.mu.Unlock()
	if p != nil {
		p.kill()
		<-p.ended
	}
	d.cache.Lost()
	d.attached = nil
}

// close ends the process and waits until it has ended.
func (d *device) close() {
	d.mu.Lock()
	d.closed = true
	if d.starting != nil {
		d.starting()
	}
	p := d.process
	d.mu.Unlock()
	if p != nil {
		p.kill()
		<-p.ended
	}
	// No call is under way when close returns.
	d.turn.Lock()
	defer d.turn.Unlock()
	d.attached = nil
}
