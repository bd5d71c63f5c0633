package executor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// doRelaxed does what the state asks for of a parameter server or a task of a relaxed round job.
func (a *Agent) doRelaxed(x action) {
	timer, simulated := a.simulated[x.id]
	switch x.kind {
	case actStart:
		a.startRelaxed(x.order)
	case actStop, actKill:
		switch {
		case simulated && timer.Stop():
			a.simulatedEnded(stopped(x))
		case simulated: // its end is on the way
		case x.kind == actStop:
			a.pool.stop(x.id, x.order.GraceS)
		default:
			a.pool.kill(x.id)
		}
	case actForget:
		if !simulated {
			a.pool.forget(x.id)
		}
		if p := a.processes[x.id]; p != nil {
			delete(a.processes, x.id)
			go a.remove(p)
		}
	}
}

// startRelaxed gives a parameter server or task to the pool, or simulates it.
func (a *Agent) startRelaxed(o *clusterdoc.Order) {
	pretended := a.cfg.Devices.Pretended()
	switch {
	case pretended && o.Type == clusterdoc.OrderHome && o.Home.Pretend:
		a.simulated[o.TaskID] = time.NewTimer(untilStopped)
		a.state.progressed(clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning})
		return
	case pretended && o.Type == clusterdoc.OrderCompute && o.Compute.PretendS > 0 && o.Compute.Address != "":
		a.fail(o.TaskID, "a node with real GPUs is the parameter server of the job, and this node would simulate: "+
			"name types with --on")
		return
	case pretended && o.Type == clusterdoc.OrderCompute && o.Compute.PretendS > 0:
		a.simulate(o)
		return
	case o.Type == clusterdoc.OrderCompute && o.Compute.Address == "": // a simulated parameter server has no port
		a.fail(o.TaskID, "pretended GPUs simulate the parameter server of the job, and this node would compute: "+
			"name types with --on")
		return
	case a.cfg.RunAs != nil:
		a.fail(o.TaskID, "this node runs tasks as another user (hare agent --run-as), and round jobs that share GPUs have "+
			"one process of the agent's user: give the job GPUs of its own (--gpus)")
		return
	case len(a.cfg.PoolRunner) == 0:
		a.fail(o.TaskID, "the agent runs no round jobs")
		return
	}
	q := &pool.Request{Type: pool.Compute, Order: o}
	if o.Type == clusterdoc.OrderHome {
		var checkpoints string
		p, err := a.openServer(o.TaskID)
		if err == nil {
			checkpoints, err = a.checkpointsOf(o.Job, o.Home.CheckpointDirectory)
		}
		q.Checkpoint = filepath.Join(checkpoints, o.Home.Checkpoint)
		if err == nil && o.Home.CheckpointDirectory == "" {
			err = rounds.WriteSpec(p.dir, a.copied(o, q.Checkpoint))
		}
		if err != nil {
			_ = os.RemoveAll(filepath.Join(a.tasksDir(), dirName(o.TaskID)))
			a.fail(o.TaskID, err.Error())
			return
		}
		a.processes[o.TaskID] = p
		go a.follow(p)
		go a.exchange(p)
		q.Type, q.Output = pool.Serve, p.dir
		a.cfg.Logger.Info("the node is the parameter server of a job", "job", o.Job, "attempt", o.Attempt, "name",
			o.Home.Name)
	}
	a.pool.start(q)
}

// copied says which copies of the checkpoint of a parameter server the agent gets and uploads.
func (a *Agent) copied(o *clusterdoc.Order, checkpoint string) *rounds.Spec {
	s := &rounds.Spec{Job: o.Job, Checkpoint: checkpoint, Copied: a.cfg.CopyEvery > 0}
	if o.Home.Copy != nil {
		x := rounds.Copy(*o.Home.Copy)
		s.Fetch = &x
	}
	return s
}

// fail reports that this node cannot have a parameter server or task.
func (a *Agent) fail(id clusterdoc.TaskID, why string) {
	a.cfg.Logger.Error("this node cannot run a task of a round job", "job", id.Job, "attempt", id.Attempt, "task",
		id.Task, "error", why)
	a.do(a.state.ended(clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskEnded, Error: why}))
}

// openServer makes the directory of a parameter server's outputs.
func (a *Agent) openServer(id clusterdoc.TaskID) (*process, error) {
	p := &process{id: id, dir: filepath.Join(a.tasksDir(), dirName(id)), server: true, over: make(chan struct{}),
		done: make(chan struct{})}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(id)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, serverFile), text, 0o600)
	}
	return p, err
}

// untilStopped is the duration of a simulated parameter server, which ends only when the server stops it.
const untilStopped = 1 << 62

// simulate has a pretended device hold a task of a round for as long as the task is said to take.
func (a *Agent) simulate(o *clusterdoc.Order) {
	seconds := o.Compute.PretendS
	code := 0
	end := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, ExitCode: &code, RanS: seconds}
	a.simulated[o.TaskID] = time.AfterFunc(time.Duration(seconds/a.cfg.Speed*float64(time.Second)), func() {
		select {
		case a.simulatedEnds <- end:
		case <-a.context.Done():
		}
	})
}

// stopped reports the end of a simulated parameter server or task that was asked to end.
func stopped(x action) clusterdoc.TaskReport {
	end := clusterdoc.TaskReport{TaskID: x.id, State: clusterdoc.TaskEnded, Signal: "SIGTERM"}
	switch {
	case x.kind == actKill:
		end.Signal = "SIGKILL"
	case x.began == clusterdoc.OrderHome:
		code := 0
		end.Signal, end.ExitCode = "", &code
	}
	return end
}

// simulatedEnded notes the end of a parameter server or task that a pretended device simulated.
func (a *Agent) simulatedEnded(end clusterdoc.TaskReport) {
	if a.simulated[end.TaskID] == nil {
		return
	}
	delete(a.simulated, end.TaskID)
	if a.leaseUntil > 0 && runner.Now() > a.leaseUntil { // as a runner would have ended it then
		end = clusterdoc.TaskReport{TaskID: end.TaskID, State: clusterdoc.TaskLost, Error: runner.LeaseOver}
	}
	a.do(a.state.ended(end))
}

// held are the devices that the pool must leave alone: those of other programs, and those that are not well.
func (a *Agent) held() []int {
	all := []int{}
	for _, devices := range a.uses {
		all = append(all, devices...)
	}
	for i := range a.faults {
		all = append(all, i)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// told takes what the pool says of a parameter server or task. The end of a parameter server follows the remainder of
// its outputs.
func (a *Agent) told(r clusterdoc.TaskReport) (news bool) {
	if r.State != clusterdoc.TaskEnded && r.State != clusterdoc.TaskLost {
		a.state.progressed(r)
		return true
	}
	p := a.processes[r.TaskID]
	if p == nil || !p.server {
		a.do(a.state.ended(r))
		return true
	}
	if p.end == nil {
		p.end = &r
		close(p.over)
	}
	return false
}

// adopted takes over a parameter server or task of the agent's earlier life.
func (a *Agent) adopted(r *clusterdoc.TaskReport) {
	a.state.adopt(r.TaskID, clusterdoc.OrderCompute)
	if r.Task == 0 {
		a.state.tasks[r.TaskID].order = clusterdoc.OrderHome
		a.state.tasks[r.TaskID].last = r
		if p, err := a.openServer(r.TaskID); err == nil {
			a.processes[r.TaskID] = p
			go a.follow(p)
			go a.exchange(p)
		}
	}
	a.cfg.Logger.Info("a round job of the agent's earlier life goes on", "job", r.Job, "attempt", r.Attempt, "task",
		r.Task)
}

// sweep removes the outputs of parameter servers that the pool does not have, when the server has them.
func (a *Agent) sweep() error {
	dirs, err := filepath.Glob(filepath.Join(a.tasksDir(), "*", serverFile))
	if err != nil {
		return err
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		mine := false
		for _, p := range a.processes {
			mine = mine || p.server && p.dir == dir
		}
		if mine {
			continue
		}
		p := &process{dir: dir, server: true, over: make(chan struct{}), done: make(chan struct{})}
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
