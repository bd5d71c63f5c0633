package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A runner can be stopped by what it runs, where both have one user. So somebody else watches over runners: the agent
// while it lives, and the runner that waits for a task, which goes on when the agent has ended (Guard). Both do with
// End what a runner does not.

const (
	// endPatience is how long a runner may take to write down the end of a task that has no processes any more.
	endPatience = 5 * time.Second
	// LateEnd is how long after the end of a lease a task is ended by others than its runner.
	LateEnd = 500 * time.Millisecond
	// guardEvery is how often leases are looked at, at the least.
	guardEvery = time.Second
)

// End ends a task whose runner does not: all of its processes, and then the runner, which writes down the end where
// it goes on. It returns nil when nothing of the task is left.
func End(dir string) error {
	var spec Spec
	if err := readFile(dir, specFile, &spec); err != nil {
		return err
	}
	f := family{-1, spec.Token, spec.cgroup()}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, alive := Find(dir)
		if f.ancestor = -1; alive {
			f.ancestor = r.PID
		}
		if err := f.kill(killTime); err != nil {
			return err
		}
		if !alive {
			break
		}
		sig := unix.SIGCONT
		if time.Since(begun) > endPatience {
			sig = unix.SIGKILL
		}
		if err := r.Signal(sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("the runner %d cannot be ended: %w", r.PID, err)
		}
	}
	removeCgroup(f.cgroup)
	return nil
}

// Guard watches over the tasks of an agent's directory. Only one goroutine uses it.
type Guard struct {
	// Directory is that of the agent: its tasks are in tasks/*, and its pool is in pool.
	Directory string
	// Limit is how much longer any task may go on, whatever the file of its lease says; nil means no limit.
	Limit func() time.Duration
	// Failed gets why a task could not be ended, which is tried again; nil means nobody.
	Failed func(dir string, err error)

	ends map[string]chan error // of tasks that are being ended
	over map[string]bool       // of which nothing is left
}

// Look ends the tasks whose lease is over and whose runners have not ended them, and lets runners go on that were
// stopped. It does not wait for the ends. left is how many tasks have not ended, and next when to look again.
func (g *Guard) Look() (left int, next time.Duration) {
	if g.ends == nil {
		g.ends, g.over = map[string]chan error{}, map[string]bool{}
	}
	next = guardEvery
	dirs := []string{filepath.Join(g.Directory, "pool")}
	tasks, _ := os.ReadDir(filepath.Join(g.Directory, "tasks")) // none is not an error
	for _, t := range tasks {
		dirs = append(dirs, filepath.Join(g.Directory, "tasks", t.Name()))
	}
	seen := map[string]bool{}
	for _, dir := range dirs {
		seen[dir] = true
		if g.over[dir] {
			if Lease(dir) <= -LateEnd {
				continue
			}
			delete(g.over, dir) // the directory of the pool is that of the next one, too
		}
		if done, ending := g.ends[dir]; ending {
			select {
			case err := <-done:
				delete(g.ends, dir)
				if g.over[dir] = err == nil || errors.Is(err, fs.ErrNotExist); !g.over[dir] && g.Failed != nil {
					g.Failed(dir, err)
				}
			default:
			}
			left++
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, leaseFile)); err != nil {
			continue // no task, or one that has not begun
		}
		r, alive := Find(dir)
		if _, err := ReadExit(dir); err == nil && !alive {
			continue
		}
		left++
		lease := Lease(dir)
		if g.Limit != nil {
			lease = min(lease, g.Limit())
		}
		if lease += LateEnd; lease > 0 {
			next = min(next, lease)
			if alive && r.stopped() {
				_ = r.Signal(unix.SIGCONT)
			}
			continue
		}
		done := make(chan error, 1)
		g.ends[dir] = done
		go func() { done <- End(dir) }()
	}
	for dir := range g.over {
		if !seen[dir] {
			delete(g.over, dir)
		}
	}
	return left, max(next, 10*time.Millisecond)
}

// The name of the file of an agent's directory that says which process watches over its tasks.
const guardFile = "guard.json"

// guardVariable gives a warm runner the directory that it watches over.
const guardVariable = "HARE_RUNNER_GUARDS"

// replaced reports whether another process watches over the tasks of a directory.
func replaced(directory string) bool {
	var p Process
	return readFile(directory, guardFile, &p) == nil && p.PID != os.Getpid() && p.Alive()
}
