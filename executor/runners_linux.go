package executor

import (
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare/executor/runner"
)

// passed are the variables of the agent's environment that tasks get.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}

// runners start the processes that watch over tasks, and give them the lease of the agent.
type runners struct {
	*session
	logLimit   int64
	cgroup     string // the directory in which tasks get cgroups; "" where they get none
	leaseUntil time.Duration
	until      atomic.Int64 // leaseUntil, for the guard

	warm      chan *runner.Warm // at most one runner that waits for a task
	preparing sync.Mutex
	dismissed bool // no runner is to be made ready any more; guarded by preparing
}

func newRunners(s *session) *runners {
	return &runners{session: s, logLimit: 16 << 20, cgroup: runner.CgroupParent(), warm: make(chan *runner.Warm, 1)}
}

// lease is how long tasks may go on.
func (r *runners) lease(until time.Duration) {
	r.leaseUntil = until
	r.until.Store(int64(until))
}

// prepare keeps a runner ready for the next task, which watches over the others until then.
func (r *runners) prepare() {
	r.preparing.Lock()
	defer r.preparing.Unlock()
	if len(r.warm) > 0 || r.dismissed {
		return
	}
	w, err := runner.Prepare(r.cfg.Runner, r.cfg.Directory)
	if err != nil {
		r.cfg.Logger.Warn("no runner can be kept ready", "error", err)
		return
	}
	r.warm <- w
}

// lookAtWarm has another runner made ready where something has ended the one that was.
func (r *runners) lookAtWarm() {
	if !r.preparing.TryLock() {
		return
	}
	defer r.preparing.Unlock()
	select {
	case w := <-r.warm:
		if w.Ready() {
			r.warm <- w // nobody else gives it one, because preparing is locked
			return
		}
		w.Close()
	default:
	}
	go r.prepare()
}

// dismiss ends the runner that is ready, when the tasks have ended or another agent watches over them.
func (r *runners) dismiss(tasks int) {
	if tasks > 0 {
		r.prepare() // somebody must watch over them
	}
	r.preparing.Lock()
	defer r.preparing.Unlock()
	r.dismissed = true
	select {
	case w := <-r.warm:
		w.Close()
	default:
	}
}

// startRunner starts the runner of a directory: the one that is ready, or a new one.
func (r *runners) startRunner(dir string) (*os.Process, *os.File, error) {
	defer func() { go r.prepare() }()
	select {
	case w := <-r.warm:
		child, started, err := w.Run(dir)
		if err == nil {
			return child, started, nil
		}
		r.cfg.Logger.Warn("the runner that was kept ready is gone", "error", err)
	default:
	}
	return runner.Start(r.cfg.Runner, dir)
}

// passedOn are the variables of the agent's environment that all tasks get, with those of a job.
func (r *runners) passedOn(own map[string]string) (env []string) {
	// A name is in the list once: of two, most programs take the first.
	all := map[string]string{}
	for _, name := range slices.Concat(passed, r.cfg.PassEnv) {
		if v, ok := os.LookupEnv(name); ok {
			all[name] = v
		}
	}
	if user := r.cfg.RunAs; user != nil {
		all["HOME"], all["USER"], all["LOGNAME"], all["SHELL"] = user.Home, user.Name, user.Name, user.Shell
		if !slices.Contains(r.cfg.PassEnv, "TMPDIR") {
			delete(all, "TMPDIR") // the agent's may be closed to the user
		}
	}
	maps.Copy(all, own)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// guard ends the tasks that outlive their lease: their runners may have been stopped.
func (r *runners) guard() {
	limit := func() time.Duration {
		if until := r.until.Load(); until > 0 {
			return time.Duration(until) - runner.Now()
		}
		return math.MaxInt64 / 2 // the agent has not registered since it was started
	}
	g := runner.Guard{Directory: r.cfg.Directory, Limit: limit, Failed: func(dir string, err error) {
		r.cfg.Logger.Error("a task whose lease is over does not end", "directory", dir, "error", err)
	}}
	for {
		_, next := g.Look()
		if !pause(r.context, next) {
			return
		}
	}
}
