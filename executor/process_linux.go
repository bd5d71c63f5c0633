package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// runnerObeys is how long a runner may take to end a task beyond its grace, a variable for tests. Then the agent ends
// both.
var runnerObeys = 2 * time.Second

// process is a task with its runner.
type process struct {
	id     clusterdoc.TaskID
	dir    string
	piece  []byte   // of an output, while it is uploaded
	sent   [2]int64 // of stdout and stderr, what the server has
	full   [2]bool
	over   chan struct{}          // closed when the runner has ended
	forget atomic.Bool            // the outputs are not needed any more
	server bool                   // the parameter server of a relaxed round job: it has no runner, but outputs
	end    *clusterdoc.TaskReport // of a parameter server that has ended
	said   rounds.Progress        // of a round job, what was last reported to the server
	done   chan struct{}          // closed when the outputs were uploaded, or given up
}

// idFile keeps which task a directory belongs to, and which devices the task has. serverFile is in place of it for
// the parameter server of a relaxed round job.
const (
	idFile     = "task.json"
	serverFile = "home.json"
)

// kept is the content of idFile.
type kept struct {
	clusterdoc.TaskID
	Devices []int `json:"devices,omitempty"`
}

// dirName is the name of the directory of a task.
func dirName(id clusterdoc.TaskID) string {
	return fmt.Sprintf("%s.%d.%d", id.Job, id.Attempt, id.Task)
}

// await waits for the end of a runner that is not a child of this process.
func await(dir string) {
	for range 100 { // the runner may be about to say its number
		if _, ok := runner.Find(dir); ok {
			break
		}
		if _, err := runner.ReadExit(dir); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	for {
		p, ok := runner.Find(dir)
		if !ok {
			return
		}
		fd, err := unix.PidfdOpen(p.PID, 0)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if p.Alive() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		}
		_ = unix.Close(fd)
	}
}

// signalRunner sends a signal to a runner, which may only be starting.
func signalRunner(p *process, sig unix.Signal, log *slog.Logger) {
	for {
		if r, ok := runner.Find(p.dir); ok {
			if err := r.Signal(sig); err != nil && !errors.Is(err, unix.ESRCH) {
				log.Error("a task cannot be asked to end", "error", err)
			}
			return
		}
		select {
		case <-p.over:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// insist ends a task that was asked to end, and is still there some time after its grace.
func (s *session) insist(p *process, grace time.Duration, log *slog.Logger) {
	wait := grace + runnerObeys
	for {
		select {
		case <-p.over:
			return
		case <-s.context.Done():
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

// remove removes the directory of a task, once its outputs are uploaded, or after a minute.
func (s *session) remove(p *process) {
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.forget.Store(true)
	case <-s.context.Done():
		return
	}
	if err := os.RemoveAll(p.dir); err != nil {
		s.cfg.Logger.Warn("the directory of a task cannot be removed", "directory", p.dir, "error", err)
	}
}
