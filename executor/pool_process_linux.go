package executor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// launch starts the process. One that ended at once rests first.
func (o *poolOf) launch() {
	o.to(poolStarting)
	o.life++
	o.killed = false
	if o.deaths > 1 {
		rest := min(100*time.Millisecond<<min(o.deaths, 10), poolRest)
		life := o.life
		time.AfterFunc(rest, func() { o.tell(poolEvent{life: life, again: true}) })
		return
	}
	o.launchNow()
}

func (o *poolOf) launchNow() {
	o.begun = time.Now()
	over, err := o.spawn()
	if err != nil {
		o.agent.cfg.Logger.Error("the process that computes for relaxed round jobs cannot be started", "error", err)
		life := o.life
		go o.tell(poolEvent{life: life, gone: true, why: err.Error()})
		return
	}
	go o.watch(o.life, over)
	go o.connect(o.life, over, nil)
}

// spawn writes the directory of the process and starts its runner. over is closed when the runner has ended.
func (o *poolOf) spawn() (over chan struct{}, err error) {
	a := o.agent
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	spec := &pool.Spec{Python: a.cfg.Python, MemoryBytes: a.cfg.ModelBytes, LogLimit: a.logLimit}
	for i, d := range a.cfg.Devices.Devices() {
		spec.Devices = append(spec.Devices, pool.Device{Type: d.Type, Visible: a.cfg.Devices.Visible(i)})
	}
	token := strings.ToLower(rand.Text())
	run := &runner.Spec{Command: slices.Concat(a.cfg.PoolRunner, []string{o.dir}), Directory: o.dir, LogLimit: 1 << 20,
		Token: token, Cgroup: a.cgroup, Env: append(a.passedOn(nil), "HARE_TASK_TOKEN="+token)}
	err = pool.WriteSpec(o.dir, spec)
	if err == nil {
		err = runner.SetLease(o.dir, a.leaseUntil)
	}
	if err == nil {
		err = runner.WriteSpec(o.dir, run)
	}
	if err != nil {
		return nil, err
	}
	child, started, err := a.startRunner(o.dir)
	if err != nil {
		return nil, err
	}
	_ = started.Close()
	over = make(chan struct{})
	go func() {
		_, _ = child.Wait()
		close(over)
	}()
	return over, nil
}

// watch tells the agent when no process of the pool is left.
func (o *poolOf) watch(life int, over <-chan struct{}) {
	<-over
	if o.agent.context.Err() != nil {
		return // the next life of the agent sees to it
	}
	e, err := runner.ReadExit(o.dir)
	why := e.Error
	if err != nil {
		if err := runner.Clear(o.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			o.agent.cfg.Logger.Error("processes of the pool may be left", "error", err)
		}
		why = "the process that watches over the pool was killed"
	}
	if why == "" {
		why = "the process that computes for relaxed round jobs has ended"
		if e.Signal != "" {
			why += " by " + e.Signal
		}
		if text, _ := os.ReadFile(filepath.Join(o.dir, clusterdoc.StreamStderr)); len(text) > 0 {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			last := lines[len(lines)-1]
			why += ": " + last[:min(len(last), 200)]
		}
	}
	if err := patiently(func() error { return os.RemoveAll(o.dir) }); err != nil {
		o.agent.cfg.Logger.Warn("the directory of the pool cannot be removed", "error", err)
	}
	o.tell(poolEvent{life: life, gone: true, why: why})
}

// maxBroken is how many connections in a row may end early before the process is killed.
const maxBroken = 5

// connect connects to the process when it listens, and again where a connection ends and the process does not: another
// process of the user may have connected. One that cannot be reached for long is killed.
func (o *poolOf) connect(life int, over <-chan struct{}, c *pool.Client) {
	patience := poolStart + poolRest
	for broken := 0; ; {
		begun := time.Now()
		if c != nil {
			o.listen(life, c)
			patience = o.obeys
			if broken++; time.Since(begun) > poolRest {
				broken = 1
			}
		}
		var has []*clusterdoc.TaskReport
		if broken <= maxBroken {
			c, has = o.dial(over, patience)
		}
		select {
		case <-over:
		case <-o.agent.context.Done():
		default:
			if c != nil && broken <= maxBroken {
				o.tell(poolEvent{life: life, client: c, told: has})
				continue
			}
			o.tell(poolEvent{life: life, deaf: true})
			return
		}
		if c != nil {
			c.Close()
		}
		return
	}
}

// listen gives the events of the process to the agent, until the connection ends.
func (o *poolOf) listen(life int, c *pool.Client) {
	defer c.Close()
	for {
		e, err := c.Receive()
		if err != nil {
			return
		}
		o.tell(poolEvent{life: life, event: e})
	}
}

// dial connects to a process, and hears what it has; nil where it has ended, or does not answer.
func (o *poolOf) dial(over <-chan struct{}, patience time.Duration) (*pool.Client, []*clusterdoc.TaskReport) {
	for begun := time.Now(); ; {
		select {
		case <-over:
			return nil, nil
		case <-o.agent.context.Done():
			return nil, nil
		default:
		}
		if c, err := pool.Dial(o.dir); err == nil {
			stop := context.AfterFunc(o.agent.context, c.Close)
			has, err := c.Greeting(patience - time.Since(begun))
			if stop(); err == nil {
				return c, has
			}
			c.Close()
		}
		if time.Since(begun) > patience {
			return nil, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// adopt connects to the process of an earlier life of the agent, and takes over what it has.
func (o *poolOf) adopt() error {
	_, ended := runner.ReadExit(o.dir)
	if _, err := os.Stat(o.dir); err != nil || runner.Claim(o.dir) && ended != nil {
		// There is none, or the agent was killed before it ran.
		return patiently(func() error { return os.RemoveAll(o.dir) })
	}
	over := make(chan struct{})
	go func() {
		await(o.dir)
		close(over)
	}()
	o.to(poolEnding)
	o.life++
	go o.watch(o.life, over)
	c, has := o.dial(over, o.obeys)
	if c == nil {
		// The server hears of the tasks as lost when the agent registers: they must not run any more then.
		o.killPool("it does not answer the agent that was started again")
		select {
		case <-over:
		case <-time.After(poolStart):
			o.agent.cfg.Logger.Error("the pool does not end")
		case <-o.agent.context.Done():
		}
		return nil
	}
	for _, r := range has {
		o.takeOver(c, r)
	}
	o.client = c
	o.to(poolUp)
	o.hold()
	go o.connect(o.life, over, c)
	return nil
}

// takeOver goes on with a home or task. A home that has not said its port is given up, because the server must not
// hear of it without.
func (o *poolOf) takeOver(c *pool.Client, r *clusterdoc.TaskReport) {
	home := r.Task == 0
	if home && r.State == clusterdoc.TaskOrdered {
		c.Send(&pool.Request{Type: pool.Kill, Task: &r.TaskID})
		return
	}
	a := o.agent
	o.has[r.TaskID] = true
	a.state.adopt(r.TaskID, clusterdoc.OrderCompute)
	if home {
		a.state.tasks[r.TaskID].order = clusterdoc.OrderHome
		a.state.tasks[r.TaskID].last = r
		if p, err := a.openHome(r.TaskID); err == nil {
			a.processes[r.TaskID] = p
			go a.follow(p)
			go a.exchange(p)
		}
	}
	if r.State == clusterdoc.TaskEnded || r.State == clusterdoc.TaskLost {
		go o.tell(poolEvent{life: o.life, event: &pool.Event{Type: pool.Report, Report: r}})
	}
	a.cfg.Logger.Info("a round job of the agent's earlier life goes on", "job", r.Job, "attempt", r.Attempt, "task",
		r.Task)
}

// sweep removes the outputs of homes that the pool does not have, when the server has them.
func (a *Agent) sweep() error {
	dirs, err := filepath.Glob(filepath.Join(a.tasksDir(), "*", homeFile))
	if err != nil {
		return err
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		mine := false
		for _, p := range a.processes {
			mine = mine || p.home && p.dir == dir
		}
		if mine {
			continue
		}
		p := &process{dir: dir, home: true, over: make(chan struct{}), done: make(chan struct{})}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &p.id)
		}
		if err != nil || filepath.Base(dir) != dirName(p.id) { // the agent was killed before it was written
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		p.end = &clusterdoc.TaskReport{TaskID: p.id, State: clusterdoc.TaskLost}
		close(p.over)
		go a.follow(p)
		go a.remove(p)
	}
	return nil
}
