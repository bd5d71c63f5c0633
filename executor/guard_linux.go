package executor

import (
	"log/slog"
	"math"
	"time"

	"github.com/hare-sched/hare/executor/runner"
)

// runnerObeys is how long a runner may take to end a task beyond its grace, a variable for tests. Then the agent ends
// both.
var runnerObeys = 2 * time.Second

// guard ends the tasks that outlive their lease: their runners may have been stopped.
func (a *Agent) guard() {
	limit := func() time.Duration {
		if until := a.until.Load(); until > 0 {
			return time.Duration(until) - runner.Now()
		}
		return math.MaxInt64 / 2 // the agent has not registered since it was started
	}
	g := runner.Guard{Directory: a.cfg.Directory, Limit: limit, Failed: func(dir string, err error) {
		a.cfg.Logger.Error("a task whose lease is over does not end", "directory", dir, "error", err)
	}}
	for {
		_, next := g.Look()
		if !pause(a.context, next) {
			return
		}
	}
}

// insist ends a task that was told to end, and has not some time after its grace.
func (a *Agent) insist(p *process, grace time.Duration, log *slog.Logger) {
	wait := grace + runnerObeys
	for {
		select {
		case <-p.over:
			return
		case <-a.context.Done():
			return
		case <-time.After(wait):
		}
		log.Warn("the runner has not ended the task: the agent ends both")
		if err := runner.End(p.dir); err != nil {
			log.Error("a task does not end", "error", err)
		}
		wait = time.Second
	}
}
