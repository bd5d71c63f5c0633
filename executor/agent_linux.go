package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Agent is the agent of a node. One goroutine has its state; all others tell it what happens.
type Agent struct {
	*runners
	incarnation   string
	state         *state
	processes     map[clusterdoc.TaskID]*process
	pool          *poolOf
	simulated     map[clusterdoc.TaskID]*time.Timer // parameter servers and tasks of rounds that are simulated
	simulatedEnds chan clusterdoc.TaskReport        // their ends
	uses          map[clusterdoc.TaskID][]int       // the devices of the tasks that have processes of their own
	checkpoints   *checkpoints
	faults        map[int]string
}

// The waits of an agent.
const (
	syncWaitS = 5.0
	// releaseAfter is after how many looks at the devices without a task the memory of the program is given back.
	releaseAfter = 5
	leastRetry   = 100 * time.Millisecond
	mostRetry    = 2 * time.Second
)

// lookEvery is how often devices and the pool are looked at, a variable for tests.
var lookEvery = time.Second

// Run takes part in a cluster until ctx ends. Tasks that run then go on until their lease runs out; an agent that is
// started with the same directory before that goes on with them. An error says that the agent cannot take part at
// all: its directory is in use, its name is taken, or the server is of another version.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Speed <= 0 {
		cfg.Speed = 1
	}
	if cfg.CopyEvery == 0 {
		cfg.CopyEvery = 5 * time.Second
	}
	a := &Agent{runners: newRunners(newSession(ctx, cfg)), state: newState(),
		processes: map[clusterdoc.TaskID]*process{}, simulated: map[clusterdoc.TaskID]*time.Timer{},
		simulatedEnds: make(chan clusterdoc.TaskReport), uses: map[clusterdoc.TaskID][]int{}, faults: map[int]string{}}
	a.pool, a.checkpoints = newPoolOf(a.runners, a), newCheckpoints(a.session, a.jobs)
	unlock, err := a.open()
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.checkUser(); err != nil {
		return err
	}
	a.checkpoints.open()
	if a.faults, err = cfg.Devices.Faults(ctx); err != nil {
		return err
	}
	if err := a.adopt(); err != nil {
		return err
	}
	if err := a.pool.adopt(); err != nil {
		return err
	}
	if err := a.sweep(); err != nil {
		return err
	}
	runner.ReleaseProgram()
	go a.prepare()
	defer func() { a.dismiss(len(a.state.tasks)) }()
	go a.guard()
	for first := true; ; first = false {
		if err := a.register(first); err != nil {
			return a.end(err)
		}
		if err := a.take(); err != nil {
			return a.end(err)
		}
	}
}

// end returns nil where the agent was asked to end.
func (a *Agent) end(err error) error {
	if a.context.Err() == nil {
		return err
	}
	if n := len(a.state.tasks); n > 0 {
		a.cfg.Logger.Warn("the agent ends, and its tasks go on until their lease runs out: start it again to go on with "+
			"them", "tasks", n, "seconds", int((a.leaseUntil - runner.Now()).Seconds()))
	}
	return nil
}

// open takes the agent's directory.
func (a *Agent) open() (unlock func(), err error) {
	for _, dir := range []string{a.cfg.Directory, a.tasksDir()} {
		if err := a.makeDir(dir); err != nil {
			return nil, err
		}
	}
	lock := flock.New(filepath.Join(a.cfg.Directory, "lock"), flock.SetFlag(os.O_RDWR|os.O_CREATE))
	// A process that an agent was about to start when it ended has the lock, too, until its program runs.
	err = patiently(func() error {
		ok, err := lock.TryLock()
		if !ok && err == nil {
			err = fmt.Errorf("another agent has the directory %s: give --directory", a.cfg.Directory)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(a.cfg.Directory, "incarnation")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(strings.ToLower(rand.Text()))
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	a.incarnation = strings.TrimSpace(string(text))
	return func() { _ = lock.Close() }, nil
}

// register begins an epoch. It tries again until the server answers; a refusal ends the first registration.
func (a *Agent) register(first bool) error {
	for wait := leastRetry; ; wait = min(2*wait, mostRetry) {
		told := a.state.holds()
		sent := runner.Now()
		answer, err := a.cfg.Server.RegisterAgent(a.context, a.cfg.Cluster, a.registration(told))
		if err == nil {
			a.term.Store(&term{answer.Epoch, answer.Secret})
			// The state first: a task that the server does not confirm gets no more time.
			todo := a.state.registered(answer, told)
			a.extend(sent, answer.LeaseS)
			a.logLimit = answer.LogLimitBytes
			a.checkpoints.registered(answer.ClusterID)
			a.ready.Store(true)
			a.do(todo)
			a.cfg.Logger.Info("registered", "cluster", a.cfg.Cluster, "agent", a.cfg.Name, "epoch", answer.Epoch, "devices",
				len(a.cfg.Devices.Devices()), "tasks", len(answer.Confirmed))
			return nil
		}
		var p *client.Problem
		refused := errors.As(err, &p) && p.Status < 500 && p.Status != 429
		if a.context.Err() != nil || refused && first {
			return err
		}
		if wait == leastRetry || refused {
			a.cfg.Logger.Warn("the agent cannot register: it tries again", "error", err)
		}
		if err := a.pause(wait); err != nil {
			return err
		}
	}
}

// pause waits, and notes the ends of tasks meanwhile.
func (a *Agent) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case id := <-a.started:
			a.state.running(id)
		case r := <-a.progress:
			a.state.progressed(r)
		case end := <-a.endings:
			a.over(end)
		case e := <-a.pool.events:
			a.pool.take(e)
		case end := <-a.simulatedEnds:
			a.simulatedEnded(end)
		case <-timer.C:
			return nil
		case <-a.context.Done():
			return a.context.Err()
		}
	}
}

func (a *Agent) registration(holds []clusterdoc.TaskReport) *clusterdoc.Registration {
	devices := a.cfg.Devices.Devices()
	for i := range devices {
		devices[i].Fault = a.faults[i]
	}
	return &clusterdoc.Registration{Protocol: clusterdoc.ProtocolVersion, Version: a.cfg.Version, Name: a.cfg.Name,
		Address: a.cfg.Address, Incarnation: a.incarnation, Labels: a.cfg.Labels, Devices: devices, Holds: holds}
}

// extend lets the tasks go on that the server still wants. The lease counts from when the request was sent.
func (a *Agent) extend(sent time.Duration, leaseS float64) {
	a.lease(sent + time.Duration(leaseS*float64(time.Second)))
	a.pool.extend(a.leaseUntil)
	for id, p := range a.processes {
		if t := a.state.tasks[id]; t != nil && t.end == nil && !t.unwanted && t.order == clusterdoc.OrderStart {
			if runner.Lease(p.dir) <= 0 {
				continue // it is being ended
			}
			if err := runner.SetLease(p.dir, a.leaseUntil); err != nil {
				a.cfg.Logger.Error("the lease of a task cannot be written: the task will end", "job", id.Job, "error", err)
			}
		}
	}
}

// answer is what came of a sync.
type answer struct {
	sent   time.Duration
	synced *clusterdoc.Synced
	err    error
}

// take takes orders until the epoch is over.
func (a *Agent) take() error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	answers := make(chan answer, 1)
	var cancel context.CancelFunc
	again := time.After(0) // when the next sync may be sent
	wait := leastRetry
	// A sync that waits for orders is broken off where there is news to tell. The one that tells the news does not wait
	// and is not broken off, so that the lease is renewed however much there is to tell.
	urgent, waits := false, true
	idle := 0 // looks at the devices since a task was there
	for {
		news := false
		select {
		case <-again:
			again = nil
			var ctx context.Context
			ctx, cancel = context.WithCancel(a.context)
			waits, urgent = !urgent, false
			waitS := syncWaitS
			if !waits {
				waitS = 0
			}
			ask := a.state.sync(waitS, a.faults)
			ask.Secret = a.term.Load().secret
			ask.Checkpoints = a.checkpoints.ask()
			go func() {
				x := answer{sent: runner.Now()}
				x.synced, x.err = a.cfg.Server.SyncAgent(ctx, a.cfg.Cluster, a.cfg.Name, ask)
				answers <- x
			}()
		case x := <-answers:
			interrupted := x.err != nil && errors.Is(x.err, context.Canceled) && a.context.Err() == nil
			cancel()
			cancel = nil
			var p *client.Problem
			switch {
			case x.err == nil:
				a.extend(x.sent, x.synced.LeaseS)
				a.checkpoints.ended(x.synced.EndedJobs)
				a.do(a.state.synced(x.synced))
				wait, again = leastRetry, time.After(0)
			case interrupted:
				urgent, again = true, time.After(0)
			case errors.As(x.err, &p) && p.Status < 500 && p.Status != 429:
				a.cfg.Logger.Warn("the agent registers again", "reason", x.err)
				return nil
			default:
				if wait == leastRetry {
					a.cfg.Logger.Warn("the server does not answer: the agent tries again", "error", x.err)
				}
				again = time.After(wait)
				wait = min(2*wait, mostRetry)
			}
		case id := <-a.started:
			a.state.running(id)
			news = true
		case r := <-a.progress:
			a.state.progressed(r)
			news = true
		case end := <-a.endings:
			a.over(end)
			news, idle = true, 0
		case e := <-a.pool.events:
			news = a.pool.take(e)
		case end := <-a.simulatedEnds:
			a.simulatedEnded(end)
			news = true
		case <-look.C:
			news = a.lookAtDevices()
			a.pool.look()
			a.lookAtWarm()
			a.checkpoints.look()
			if idle++; len(a.processes) > 0 || a.pool.phase != poolNone {
				idle = 0
			}
			if idle == releaseAfter { // what starts, registrations and tasks have touched
				runner.ReleaseProgram()
			}
		case <-a.context.Done():
			if cancel != nil {
				cancel()
				<-answers
			}
			return a.context.Err()
		}
		if news && cancel != nil && waits {
			cancel()
		}
	}
}

// over notes that no process of a task is left, nor anything of a parameter server.
func (a *Agent) over(end clusterdoc.TaskReport) {
	a.do(a.state.ended(end))
	a.free(end.TaskID)
}

// free gives the devices of a task that has, or was to have, a process of its own back to the pool.
func (a *Agent) free(id clusterdoc.TaskID) {
	if _, ok := a.uses[id]; ok {
		delete(a.uses, id)
		a.pool.hold()
	}
}

// jobs are those that have a task here.
func (a *Agent) jobs() map[string]bool {
	jobs := map[string]bool{}
	for id := range a.state.tasks {
		jobs[id.Job] = true
	}
	for id := range a.processes {
		jobs[id.Job] = true
	}
	return jobs
}

// lookAtDevices reports whether the health of a device has changed.
func (a *Agent) lookAtDevices() bool {
	faults, err := a.cfg.Devices.Faults(a.context)
	if err != nil {
		a.cfg.Logger.Warn("the devices cannot be looked at", "error", err)
		return false
	}
	changed := len(faults) != len(a.faults)
	for i, why := range faults {
		changed = changed || a.faults[i] != why
		if a.faults[i] != why {
			a.cfg.Logger.Error("a device is not well", "device", i, "reason", why)
		}
	}
	a.faults = faults
	if changed {
		a.pool.hold()
	}
	return changed
}
