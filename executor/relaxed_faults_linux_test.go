package executor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/description"
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
		id := description.TaskID{Job: job, Attempt: 1}
		o.await("the command is ordered", time.Minute, func() bool {
			if j.round < 3 {
				return false
			}
			round = j.round
			o.tasks[id] = &placedTask{agent: "a", device: 0}
			o.order("a", description.Order{Type: description.OrderStart, TaskID: id, GraceS: 1, Start: &description.Start{
				Name: "x", Command: []string{"true"}, Directory: directory, Devices: []int{0}, WorldSize: 1,
				LocalWorldSize: 1}})
			if stop {
				o.order("a", description.Order{Type: description.OrderStop, TaskID: id, GraceS: 1})
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
		true:  {"played", "pretended GPUs play the home of the job"},
		false: {"real", "a node with real GPUs is the home of the job"},
	} {
		o := newOrders(t, 9)
		stopReal := agentOf(t, o, "real", t.TempDir(), "cpu=1", 0)
		stopPlayed := agentOf(t, o, "played", t.TempDir(), "V100=1", 0)
		o.await("both register", time.Minute, func() bool { return len(o.agents) == 2 })
		j := relaxed("j1", "line", dir, 4, 20)
		j.pretendS, j.homes = 0.1, []string{c.home}
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
