package executor_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/pool"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A command that cannot be started, or is given up while the pool leaves its device, does not keep the device.
func TestDevicesOfCommandsThatNeverRun(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 8)
	agentOf(t, o, "a", t.TempDir(), "cpu=1", 0)
	j := relaxed("j1", "slow", dir, 2, 100)
	j.checkpoints = t.TempDir()
	o.add(j)
	command := func(job, directory string, stop bool) {
		t.Helper()
		round := int64(0)
		id := clusterdoc.TaskID{Job: job, Attempt: 1}
		o.await("the command is ordered", time.Minute, func() bool {
			if j.round < 3 {
				return false
			}
			round = j.round
			o.tasks[id] = &placedTask{agent: "a", device: 0}
			o.order("a", clusterdoc.Order{Type: clusterdoc.OrderStart, TaskID: id, GraceS: 1, Start: &clusterdoc.Start{
				Name: "x", Command: []string{"true"}, Directory: directory, Devices: []int{0}, WorldSize: 1,
				LocalWorldSize: 1}})
			if stop {
				o.order("a", clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: id, GraceS: 1})
			}
			return true
		})
		o.await("the job goes on behind the command", time.Minute, func() bool { return j.round > round+1 })
	}
	command("j2", "/no/such", false)
	command("j3", "", true)
	o.await("the job ends", time.Minute, o.over)
	o.expectLoops(dir)
}

// Where a node plays the home of a job, nodes with real devices cannot compute for it, and the other way round.
func TestPlayedAndRealDevicesDoNotMix(t *testing.T) {
	dir := relaxedModules(t)
	for played, c := range map[bool]struct{ home, want string }{
		true:  {"played", "pretended GPUs simulate the parameter server of the job"},
		false: {"real", "a node with real GPUs is the parameter server of the job"},
	} {
		o := newOrders(t, 9)
		stopReal := agentOf(t, o, "real", t.TempDir(), "cpu=1", 0)
		stopPlayed := agentOf(t, o, "played", t.TempDir(), "V100=1", 0)
		o.await("both register", time.Minute, func() bool { return len(o.agents) == 2 })
		j := relaxed("j1", "line", dir, 4, 20)
		j.pretendS, j.homes = 10, []string{c.home} // a task is still played when the other node refuses
		o.add(j)
		o.await("the job ends", time.Minute, o.over)
		if !strings.Contains(j.failed, c.want) {
			t.Errorf("played %v: %q", played, j.failed)
		}
		stopReal()
		stopPlayed()
	}
}

// A home that cannot begin leaves nothing on the node.
func TestHomeThatCannotBegin(t *testing.T) {
	o := newOrders(t, 10)
	home := t.TempDir()
	stop := agentOf(t, o, "a", home, "cpu=1", 0)
	j := relaxed("j1", "line", t.TempDir(), 1, 1)
	j.checkpoints = "/dev/null/no"
	o.add(j)
	o.await("the job ends", time.Minute, o.over)
	stop()
	left, err := filepath.Glob(filepath.Join(home, "tasks", "*"))
	if err != nil || len(left) > 0 || !strings.Contains(j.failed, "/dev/null") {
		t.Errorf("%q left %q %v", j.failed, left, err)
	}
	if _, err := os.Stat(filepath.Join(home, "pool")); err == nil {
		t.Error("there is a pool")
	}
}

// Other processes that connect to the pool end neither the job nor the pool.
func TestAgentConnectsAgain(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 11)
	home := t.TempDir()
	agentOf(t, o, "a", home, "cpu=2", 0)
	j := relaxed("j1", "slow", dir, 3, 80)
	j.checkpoints = t.TempDir()
	const ahead = 10
	j.hold = ahead
	o.add(j)
	round := int64(0)
	for range 4 {
		// The job does not end before, however long a connection takes.
		o.await("the job goes on", 20*time.Second, func() bool {
			if j.round <= round+2 {
				return false
			}
			j.hold = j.round + ahead
			return true
		})
		o.mu.Lock()
		round = j.round
		o.mu.Unlock()
		c, err := pool.Dial(filepath.Join(home, "pool"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Greeting(20 * time.Second); err != nil {
			t.Error(err)
		}
		for err == nil { // until the agent is back
			_, err = c.Receive()
		}
		c.Close()
	}
	o.letGo()
	o.await("the job ends", time.Minute, o.over)
	if !j.done || j.attempt != 1 {
		t.Errorf("%d attempts; %s", j.attempt, j.failed)
	}
	o.expectLoops(dir)
}

// An agent that finds a pool that does not answer ends it before the server gives its tasks to others.
func TestPoolThatDoesNotAnswer(t *testing.T) {
	defer executor.SetPoolObeys(300 * time.Millisecond)()
	dir := relaxedModules(t)
	o := newOrders(t, 12)
	home := t.TempDir()
	stop := agentOf(t, o, "a", home, "cpu=2", 0)
	j := relaxed("j1", "slow", dir, 3, 60)
	j.checkpoints = t.TempDir()
	o.add(j)
	o.await("the job runs", time.Minute, func() bool { return j.round > 3 })
	stop()
	pids := poolProcesses(t, home, "run-pool")
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		awaitStop(t, pid)
	}
	epoch := o.agents["a"].epoch
	stop = agentOf(t, o, "a", home, "cpu=2", 0)
	defer stop()
	o.await("the agent registers", 20*time.Second, func() bool {
		if o.agents["a"].epoch == epoch {
			return false
		}
		for _, pid := range pids {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				t.Error("the pool is there when the agent registers")
			}
		}
		return true
	})
	o.await("the job ends", time.Minute, o.over)
	if len(pids) == 0 || !j.done || j.attempt < 2 {
		t.Errorf("%v %d attempts; %s", pids, j.attempt, j.failed)
	}
	o.expectLoops(dir)
}

// A pool that has nothing to say is left alone. One that does not answer is killed, though nothing is asked of it, and
// its job goes on in another attempt.
func TestPoolThatHangs(t *testing.T) {
	const obeys = 2 * time.Second
	defer executor.SetPoolObeys(obeys)()
	defer executor.SetLookEvery(obeys / 10)()
	dir := relaxedModules(t)
	o := newOrders(t, 14)
	home := t.TempDir()
	stop := agentOf(t, o, "a", home, "cpu=2", 0)
	defer stop()
	j := relaxed("j1", "slow", dir, 3, 20)
	j.checkpoints, j.hold = t.TempDir(), 5
	o.add(j)
	o.await("the job waits", time.Minute, func() bool { return j.round == 5 })
	time.Sleep(2*obeys + obeys/2) // it is asked after one of them, and would be killed after the second
	pids := poolProcesses(t, home, "run-pool")
	o.mu.Lock()
	attempt := j.attempt
	o.mu.Unlock()
	if len(pids) == 0 || attempt != 1 {
		t.Fatalf("%d processes of the pool, attempt %d", len(pids), attempt)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		awaitStop(t, pid)
	}
	o.await("the job has another attempt", time.Minute, func() bool { return j.attempt > 1 })
	o.letGo()
	o.await("the job ends", time.Minute, o.over)
	if !j.done {
		t.Errorf("%d attempts; %s", j.attempt, j.failed)
	}
	o.expectLoops(dir)
}

// awaitStop waits until all threads of a process have stopped: on a busy machine they go on for a while after SIGSTOP.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
		runs := slices.ContainsFunc(threads, func(thread string) bool {
			text, err := os.ReadFile(thread)
			return err == nil && !bytes.Contains(text, []byte(") T "))
		})
		if err != nil || len(threads) == 0 || time.Since(begun) > time.Minute {
			t.Fatalf("process %d does not stop: %v", pid, err)
		}
		if !runs {
			return
		}
	}
}

// What a home printed before the node was killed comes to the server when the agent is started again.
func TestOutputOfALostHome(t *testing.T) {
	o := newOrders(t, 13)
	home := t.TempDir()
	dir := filepath.Join(home, "tasks", "j1.1.0")
	broken := filepath.Join(home, "tasks", "j2.1.0")
	for at, text := range map[string]string{dir: `{"job":"j1","attempt":1,"task":0}`, broken: "{"} {
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"home.json": text, "stdout": "round 0\n"} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	agentOf(t, o, "a", home, "cpu=1", 0)
	o.await("the output is there and the directories are gone", 20*time.Second, func() bool {
		left, err := os.ReadDir(filepath.Join(home, "tasks"))
		return err == nil && len(left) == 0 && o.logs[clusterdoc.TaskID{Job: "j1", Attempt: 1}] == "round 0\n"
	})
}
