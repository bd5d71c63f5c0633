package executor

import (
	"context"
	"crypto/rand"
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

// launch starts the process. One that ended at once waits first.
func (o *poolOf) launch() {
	o.to(poolStarting)
	o.life++
	o.killed = false
	if o.deaths > 1 {
		pause := min(100*time.Millisecond<<min(o.deaths, 10), poolPause)
		life := o.life
		time.AfterFunc(pause, func() { o.tell(poolEvent{life: life, again: true}) })
		return
	}
	o.launchNow()
}

func (o *poolOf) launchNow() {
	o.begun = time.Now()
	over, err := o.spawn()
	if err != nil {
		o.cfg.Logger.Error("the process that computes for relaxed round jobs cannot be started", "error", err)
		life := o.life
		go o.tell(poolEvent{life: life, gone: true, why: err.Error()})
		return
	}
	go o.watch(o.life, over)
	go o.connect(o.life, over, nil)
}

// spawn writes the directory of the process and starts its runner. over is closed when the runner has ended.
func (o *poolOf) spawn() (over chan struct{}, err error) {
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	spec := &pool.Spec{Python: o.cfg.Python, MemoryBytes: o.cfg.ModelBytes, LogLimit: o.logLimit}
	for i, d := range o.cfg.Devices.Devices() {
		spec.Devices = append(spec.Devices, pool.Device{Type: d.Type, Visible: o.cfg.Devices.Visible(i)})
	}
	token := strings.ToLower(rand.Text())
	run := &runner.Spec{Command: slices.Concat(o.cfg.PoolRunner, []string{o.dir}), Directory: o.dir, LogLimit: 1 << 20,
		Token: token, Cgroup: o.cgroup, Env: append(o.passedOn(nil), "HARE_TASK_TOKEN="+token)}
	err = pool.WriteSpec(o.dir, spec)
	if err == nil {
		err = runner.SetLease(o.dir, o.leaseUntil)
	}
	if err == nil {
		err = runner.WriteSpec(o.dir, run)
	}
	if err != nil {
		return nil, err
	}
	child, started, err := o.startRunner(o.dir)
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
	if o.context.Err() != nil {
		return // the next life of the agent sees to it
	}
	e, err := runner.ReadExit(o.dir)
	why := e.Error
	if err != nil {
		if err := runner.Clear(o.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			o.cfg.Logger.Error("processes of the pool may be left", "error", err)
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
		o.cfg.Logger.Warn("the directory of the pool cannot be removed", "error", err)
	}
	o.tell(poolEvent{life: life, gone: true, why: why})
}

// maxBroken is how many connections in a row may end early before the process is killed.
const maxBroken = 5

// connect connects to the process when it listens, and again where a connection ends and the process does not: another
// process of the user may have connected. One that cannot be reached for long is killed.
func (o *poolOf) connect(life int, over <-chan struct{}, c *pool.Client) {
	patience := poolStart + poolPause
	for broken := 0; ; {
		begun := time.Now()
		if c != nil {
			o.listen(life, c)
			patience = o.obeys
			if broken++; time.Since(begun) > poolPause {
				broken = 1
			}
		}
		var has []*clusterdoc.TaskReport
		if broken <= maxBroken {
			c, has = o.dial(over, patience)
		}
		select {
		case <-over:
		case <-o.context.Done():
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
		case <-o.context.Done():
			return nil, nil
		default:
		}
		if c, err := pool.Dial(o.dir); err == nil {
			stop := context.AfterFunc(o.context, c.Close)
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
			o.cfg.Logger.Error("the pool does not end")
		case <-o.context.Done():
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

// takeOver goes on with a parameter server or task. A parameter server that has not said its port is given up, because
// the server must not hear of it without.
func (o *poolOf) takeOver(c *pool.Client, r *clusterdoc.TaskReport) {
	if r.Task == 0 && r.State == clusterdoc.TaskOrdered {
		c.Send(&pool.Request{Type: pool.Kill, Task: &r.TaskID})
		return
	}
	o.has[r.TaskID] = &poolTask{round: r.Round}
	o.owner.adopted(r)
	if r.State == clusterdoc.TaskEnded || r.State == clusterdoc.TaskLost {
		go o.tell(poolEvent{life: o.life, event: &pool.Event{Type: pool.Report, Report: r}})
	}
}
