package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// stopsRunner is a job that stops its runner again and again, ignores SIGTERM, and writes its number to a file once it
// has begun with that. A child in another session goes on with it.
const stopsRunner = `trap "" TERM; cd %s; R=$PPID; ` +
	`setsid sh -c "trap '' TERM; while :; do kill -STOP $R; done" & ` +
	`kill -STOP $R; echo $$ > part; mv part pid.$HARE_ATTEMPT; while :; do kill -STOP $R; done`

// pidIn waits for the number of a process in a file.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil {
			if _, err := fmt.Sscan(string(text), &pid); err == nil {
				return pid
			}
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s never came", path)
		}
	}
}

func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// goneWithin waits until a process has ended, and says how long that took.
func goneWithin(t *testing.T, limit time.Duration, pid int) time.Duration {
	t.Helper()
	begun := time.Now()
	for lives(pid) {
		if time.Since(begun) > limit {
			_ = unix.Kill(-pid, unix.SIGKILL)
			t.Fatalf("process %d lives on after %v", pid, limit)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begun)
}

// guardOf is the process that watches over the tasks of an agent's directory.
func guardOf(t *testing.T, dir string) (p runner.Process) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "guard.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A job that stops its runner is ended by the agent when it is cancelled, and one that ends by itself is seen to end.
func TestStoppedRunnerIsCancelled(t *testing.T) {
	t.Cleanup(executor.SetRunnerObeys(100 * time.Millisecond))
	s := newServer(t, time.Minute)
	dir, files := t.TempDir(), t.TempDir()
	agent(t, s, "a", dir, "cpu=2")
	id := submit(t, s, clusterdoc.NewJob{GraceS: new(0.1)}, fmt.Sprintf(stopsRunner, files))
	ended := submit(t, s, clusterdoc.NewJob{}, `kill -STOP $PPID; exit 0`)
	pid := pidIn(t, filepath.Join(files, "pid.1"))
	if _, err := s.Cancel(t.Context(), id, "ann"); err != nil {
		t.Fatal(err)
	}
	t.Logf("ended after %v", goneWithin(t, 20*time.Second, pid))
	await(t, s, id, clusterdoc.JobCancelled)
	await(t, s, ended, clusterdoc.JobSucceeded)
	for _, dir := range tasksOf(t, dir) {
		if p, ok := runner.Find(dir); ok && strings.Contains(dir, id+".") {
			t.Errorf("the runner %d lives on", p.PID)
		}
	}
}

// The agent has ended, the job has stopped its runner: what watches over the tasks ends it with the lease, before
// another node starts it. No two attempts run at once.
func TestStoppedRunnerWithoutAgent(t *testing.T) {
	s := newServer(t, time.Second)
	files := t.TempDir()
	stop := agent(t, s, "a", t.TempDir(), "V100=1")
	id := submit(t, s, clusterdoc.NewJob{}, `if [ $HARE_ATTEMPT = 2 ]; then kill -0 $(cat `+files+
		`/pid.1); exit $?; fi; `+
		fmt.Sprintf(stopsRunner, files))
	pid := pidIn(t, filepath.Join(files, "pid.1"))
	stop()
	agent(t, s, "b", t.TempDir(), "V100=1")
	t.Logf("ended after %v", goneWithin(t, 20*time.Second, pid))
	// kill -0 has failed: the first attempt had no process any more.
	job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if job.State != clusterdoc.JobFailed || job.Lost != 1 || job.Reason != "exit code 1" {
		t.Errorf("%s: %s; lost %d times", job.State, job.Reason, job.Lost)
	}
}

// Where nothing watched over the tasks, the agent that comes back ends what has outlived its lease, also where a
// job has lengthened it.
func TestStoppedRunnerAndAgentComesBack(t *testing.T) {
	s := newServer(t, time.Second)
	dir, files := t.TempDir(), t.TempDir()
	stop := agent(t, s, "a", dir, "cpu=1")
	id := submit(t, s, clusterdoc.NewJob{}, fmt.Sprintf(stopsRunner, files))
	pid := pidIn(t, filepath.Join(files, "pid.1"))
	guard := guardOf(t, dir)
	stop()
	if err := guard.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lease := filepath.Join(dir, "tasks", id+".1.0")
	for runner.Lease(lease) > -runner.LateEnd {
		time.Sleep(10 * time.Millisecond)
	}
	if !lives(pid) {
		t.Fatal("the job has ended although nothing watched over it")
	}
	agent(t, s, "a", dir, "cpu=1")
	t.Logf("ended after %v", goneWithin(t, 20*time.Second, pid))
}

// An agent that is cut off ends a job that has stopped its runner and lengthened its lease.
func TestStoppedRunnerLengthensItsLease(t *testing.T) {
	s := newServer(t, time.Second)
	dir, files := t.TempDir(), t.TempDir()
	agent(t, s, "a", dir, "cpu=1")
	submit(t, s, clusterdoc.NewJob{}, `echo 99999999999999999 > ../lease; `+fmt.Sprintf(stopsRunner, files))
	pid := pidIn(t, filepath.Join(files, "pid.1"))
	s.cut.Store(true)
	t.Logf("ended after %v", goneWithin(t, 20*time.Second, pid))
}

// A module that stops the pool and its runner again and again is ended by the agent, and the job goes on in another
// pool.
func TestStoppedPoolIsEnded(t *testing.T) {
	t.Cleanup(executor.SetRunnerObeys(100 * time.Millisecond))
	t.Cleanup(executor.SetLookEvery(50 * time.Millisecond))
	t.Cleanup(executor.SetPoolObeys(time.Second))
	dir := relaxedModules(t)
	const text = `import os, signal
from line import build, optimiser, loss
import line

BACKEND = "plain"

def batch(round, task):
    try:
        os.close(os.open(os.environ["MARK"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return line.batch(round, task)
    pool = os.getppid()
    runner = int(open(f"/proc/{pool}/stat").read().rpartition(")")[2].split()[1])
    if os.fork() == 0:
        os.setsid()
    while True:
        os.kill(runner, signal.SIGSTOP)
        os.kill(pool, signal.SIGSTOP)
`
	if err := os.WriteFile(filepath.Join(dir, "stops.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := newOrders(t, 5)
	agentOf(t, o, "a", t.TempDir(), "cpu=1", 0)
	j := relaxed("j1", "stops", dir, 1, 2)
	j.env = map[string]string{"MARK": filepath.Join(t.TempDir(), "mark")}
	o.add(j)
	o.await("the job goes on", time.Minute, o.over)
	if !j.done {
		t.Errorf("the job failed: %s", j.failed)
	}
}
