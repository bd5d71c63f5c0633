package executor

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// startTask makes the directory of a task and starts its runner. An error of the start is written to the
// directory as its end.
func (a *Agent) startTask(o *clusterdoc.Order) (*process, error) {
	p := &process{id: o.TaskID, dir: filepath.Join(a.tasksDir(), dirName(o.TaskID)), over: make(chan struct{}),
		done: make(chan struct{})}
	work := o.Start.Directory
	if work == "" {
		work = filepath.Join(p.dir, "work")
	}
	if err := a.makeDir(p.dir); err != nil {
		return nil, err
	}
	if o.Start.Directory == "" {
		if err := a.give(work); err != nil {
			return nil, err
		}
	}
	checkpoints, err := a.checkpointsOf(o.Job, o.Start.CheckpointDirectory)
	if err != nil {
		return nil, err
	}
	if s := o.Start; s.Rank == 0 && s.WorldSize > 1 && s.PretendS == 0 {
		if err := checkPort(s.MasterPort); err != nil {
			return nil, err
		}
	}
	token := strings.ToLower(rand.Text())
	command, err := a.command(o, p.dir, work, checkpoints)
	if err != nil {
		return nil, err
	}
	spec := &runner.Spec{Command: command, Directory: work, GraceS: o.GraceS, LogLimit: a.logLimit, Token: token,
		Cgroup: a.cgroup, User: a.cfg.RunAs,
		Env: a.environment(o, checkpoints, token)}
	if a.cfg.Devices.Pretended() && o.Start.PretendS > 0 {
		spec.PretendS, spec.PretendOf = o.Start.PretendS/a.cfg.Speed, o.Start.PretendS
	}
	if spec.PretendS == 0 {
		err := a.cfg.RunAs.Do(func() error {
			info, err := os.Stat(work + "/.") // which only who may enter it can see
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("the user of the task may not enter the directory %s", work)
			}
			if err != nil || !info.IsDir() {
				return fmt.Errorf("the node has no directory %s", work)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(&kept{o.TaskID, o.Start.Devices})
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, idFile), text, 0o600)
	}
	if err == nil {
		err = runner.SetLease(p.dir, a.leaseUntil)
	}
	if err == nil {
		err = runner.WriteSpec(p.dir, spec)
	}
	if err != nil {
		return nil, err
	}
	child, started, err := a.startRunner(p.dir)
	if err != nil {
		return nil, err
	}
	go func() {
		n, _ := started.Read(make([]byte, 1))
		_ = started.Close()
		if n == 1 {
			select {
			case a.started <- p.id:
			case <-a.context.Done():
			}
		}
	}()
	go func() {
		_, _ = child.Wait()
		close(p.over)
	}()
	return p, nil
}

// command is what the runner of a task starts: the command of the job, or the program that trains a round job.
func (a *Agent) command(o *clusterdoc.Order, dir, work, checkpoints string) ([]string, error) {
	r := o.Start.Rounds
	if r == nil {
		return o.Start.Command, nil
	}
	if len(a.cfg.RoundRunner) == 0 {
		return nil, errors.New("the agent runs no round jobs")
	}
	spec := &rounds.Spec{Job: o.Job, Module: r.Module, Directory: work, Tasks: r.Tasks, Rounds: r.Rounds, Seed: r.Seed,
		Gang: r.Gang, GPUs: a.visible(o.Start.Devices), Checkpoint: filepath.Join(checkpoints, r.Checkpoint),
		Python: a.cfg.Python}
	first := o.Start.Rank == 0 && o.Start.CheckpointDirectory == ""
	spec.Copied = first && a.cfg.CopyEvery > 0
	if first && r.Copy != nil {
		x := rounds.Copy(*r.Copy)
		spec.Fetch = &x
	}
	if s := o.Start; s.WorldSize > 1 {
		spec.Peers = &rounds.Peers{Rank: s.Rank, Nodes: s.WorldSize, Secret: r.Secret,
			Address: net.JoinHostPort(s.MasterAddress, strconv.Itoa(s.MasterPort)), Shared: s.CheckpointDirectory != "",
			PatienceS: a.cfg.NodePatience.Seconds()}
	}
	if a.cfg.RunAs != nil {
		if err := a.give(filepath.Join(dir, ownDirectory)); err != nil {
			return nil, err
		}
	}
	dir = programDir(dir)
	return slices.Concat(a.cfg.RoundRunner, []string{dir}), a.cfg.RunAs.Do(func() error {
		return rounds.WriteSpec(dir, spec)
	})
}

// portError says that MASTER_PORT cannot be listened at.
type portError struct {
	port int
	err  error
}

func (e *portError) Error() string {
	return fmt.Sprintf("MASTER_PORT is %d, at which the node cannot listen: %v", e.port, e.err)
}

// checkPort says why the first process of an attempt cannot listen at a port.
func checkPort(port int) error {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return &portError{port, err}
	}
	return l.Close()
}

// visible is how CUDA calls each of the devices; "" where it does not know one.
func (a *Agent) visible(devices []int) []string {
	names := make([]string, len(devices))
	for k, i := range devices {
		names[k] = a.cfg.Devices.Visible(i)
	}
	return names
}

// environment is the whole environment of a task.
func (a *Agent) environment(o *clusterdoc.Order, checkpoints, token string) []string {
	env := a.passedOn(o.Start.Env)
	devices := o.Start.LocalDevices
	if len(devices) == 0 {
		devices = o.Start.Devices
	}
	visible := slices.DeleteFunc(a.visible(devices), func(v string) bool { return v == "" })
	s := o.Start
	return append(env, "RANK="+strconv.Itoa(s.Rank), "WORLD_SIZE="+strconv.Itoa(s.WorldSize),
		"LOCAL_RANK="+strconv.Itoa(s.LocalRank), "LOCAL_WORLD_SIZE="+strconv.Itoa(s.LocalWorldSize),
		"MASTER_ADDR="+s.MasterAddress, "MASTER_PORT="+strconv.Itoa(s.MasterPort),
		"CUDA_VISIBLE_DEVICES="+strings.Join(visible, ","),
		"HARE_CLUSTER="+a.cfg.Cluster, "HARE_JOB="+o.Job, "HARE_ATTEMPT="+strconv.FormatInt(o.Attempt, 10),
		"HARE_TASK="+strconv.Itoa(o.Task), "HARE_GPU_TYPE="+s.GPUType, "HARE_CHECKPOINT_DIR="+checkpoints,
		"HARE_TASK_TOKEN="+token)
}

// adopt finds the tasks of an earlier life of the agent. A task whose runner was never started, or was killed, has
// nothing left after adopt.
func (a *Agent) adopt() error {
	entries, err := os.ReadDir(a.tasksDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(a.tasksDir(), e.Name())
		if _, err := os.Stat(filepath.Join(dir, serverFile)); err == nil {
			continue
		}
		var task kept
		text, err := os.ReadFile(filepath.Join(dir, idFile))
		if err == nil {
			err = json.Unmarshal(text, &task)
		}
		id := task.TaskID
		_, ended := runner.ReadExit(dir)
		if err != nil || runner.Claim(dir) && ended != nil {
			// The agent was killed before the runner ran; from here on it does not run any more. A runner that sees so
			// just now may still write a line into the directory.
			if err := patiently(func() error { return os.RemoveAll(dir) }); err != nil {
				return err
			}
			continue
		}
		p := &process{id: id, dir: dir, over: make(chan struct{}), done: make(chan struct{})}
		a.state.adopt(id, clusterdoc.OrderStart)
		a.processes[id], a.uses[id] = p, task.Devices
		go func() {
			await(dir)
			close(p.over)
		}()
		go a.follow(p)
		go a.exchangeAsUser(p)
		a.cfg.Logger.Info("a task of the agent's earlier life goes on", "job", id.Job, "attempt", id.Attempt, "task",
			id.Task)
	}
	return nil
}

// do does what the state asks for.
func (a *Agent) do(todo []action) {
	for _, x := range todo {
		if x.began != clusterdoc.OrderStart {
			a.doRelaxed(x)
			continue
		}
		p := a.processes[x.id]
		log := a.cfg.Logger.With("job", x.id.Job, "attempt", x.id.Attempt, "task", x.id.Task)
		switch x.kind {
		case actStart:
			a.uses[x.id] = x.order.Start.Devices
			if !a.pool.makeWay(x.order) {
				a.begin(x.order)
			}
		case actStop, actKill:
			if p == nil && a.pool.giveUp(x.id) {
				a.free(x.id)
				a.state.ended(clusterdoc.TaskReport{TaskID: x.id, State: clusterdoc.TaskEnded, Signal: "SIGTERM"})
				continue
			}
			sig := unix.SIGTERM
			if x.kind == actKill {
				sig = unix.SIGINT // the runner ends the task at once
			}
			log.Info("asked to end", "signal", unix.SignalName(sig))
			if p != nil {
				go signalRunner(p, sig, log)
				go a.insist(p, x.grace(), log)
			}
		case actForget:
			delete(a.processes, x.id)
			if p != nil {
				go a.remove(p)
			}
		}
	}
}

// begin starts a task that has a process of its own.
func (a *Agent) begin(o *clusterdoc.Order) {
	log := a.cfg.Logger.With("job", o.Job, "attempt", o.Attempt, "task", o.Task)
	p, err := a.startTask(o)
	if err != nil {
		log.Error("a task cannot be started", "error", err)
		a.free(o.TaskID)
		end := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, Error: err.Error()}
		if errors.As(err, new(*portError)) {
			end.State = clusterdoc.TaskLost // the next attempt has another port
		}
		a.state.ended(end)
		_ = os.RemoveAll(filepath.Join(a.tasksDir(), dirName(o.TaskID)))
		return
	}
	log.Info("started", "name", o.Start.Name)
	a.processes[o.TaskID] = p
	go a.follow(p)
	go a.exchangeAsUser(p)
}
