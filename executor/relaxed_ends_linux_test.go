package executor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/internal/testing/executortest"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// What a relaxed job does wrong is one line, and the pool goes on.
func TestRelaxedJobsFail(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 3)
	home := t.TempDir()
	agentOf(t, o, "a", home, "cpu=2", 0)
	want := map[string]string{
		"broken": "module: broken.py:1: ModuleNotFoundError: No module named 'no_such_module'",
		"absent": "module: ModuleNotFoundError: No module named 'absent'",
		"raises": "module: raises.py:3: ValueError: no data",
		"nan":    "",
	}
	text := "from line import *\nimport os\ndef batch(r, t): raise ValueError(os.environ['WHY'])\n"
	if err := os.WriteFile(filepath.Join(dir, "raises.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for module := range want {
		j := relaxed(module, module, dir, 2, 3)
		j.env = map[string]string{"WHY": "no data"}
		o.add(j)
	}
	lacks := relaxed("lacks", "line", dir+"/no", 2, 3)
	o.add(lacks)
	o.await("all jobs end", time.Minute, o.over)
	for _, j := range o.jobs {
		if j != lacks && j.failed != want[j.id] || j.done != (j.id == "nan") {
			t.Errorf("job %s: %q", j.id, j.failed)
		}
		if j.id == "nan" && (j.loss != "NaN" || j.saved != 3) {
			t.Errorf("%d rounds with loss %s", j.saved, j.loss)
		}
	}
	if lacks.failed != "the node has no directory "+dir+"/no" {
		t.Error(lacks.failed)
	}
	if _, err := os.Stat(filepath.Join(home, "checkpoints", "nan", "nan.hare")); err != nil {
		t.Error(err)
	}
}

func TestRelaxedJobLacksTheWorker(t *testing.T) {
	dir, _ := moduleFolder(t)
	t.Setenv("PYTHONPATH", "")
	o := newOrders(t, 4)
	agentOf(t, o, "a", t.TempDir(), "cpu=1", 0)
	o.add(relaxed("j1", "line", dir, 2, 3))
	o.await("the job fails", time.Minute, o.over)
	if why := o.jobs[0].failed; !strings.Contains(why, "has no package hare-worker: install it on this node") {
		t.Error(why)
	}
}

// A command gets a device when the worker of the pool has left it, and the steps of homes go on elsewhere.
func TestPoolMakesWayForCommands(t *testing.T) {
	dir := relaxedModules(t)
	o := newOrders(t, 5)
	home := t.TempDir()
	agentOf(t, o, "a", home, "cpu=1", 0)
	j := relaxed("j1", "slow", dir, 2, 60)
	j.checkpoints = t.TempDir()
	o.add(j)
	o.await("the job runs", time.Minute, func() bool { return j.round > 3 })
	command := clusterdoc.TaskID{Job: "j2", Attempt: 1}
	seen := filepath.Join(t.TempDir(), "seen") // the command ends when its device was looked at
	workers := func() int {
		return len(executortest.Processes(t, func(p *executortest.Process) bool {
			// The worker of the device; that of the host may stay.
			return p.HasWord("hare_worker") && p.IsIn(home) && strings.Contains(p.Arguments(), "/worker-0-")
		}))
	}
	if workers() == 0 {
		t.Error("no worker is seen while the job runs")
	}
	o.await("the command is ordered", time.Minute, func() bool {
		if o.busy("a", 0) {
			return false
		}
		o.tasks[command] = &placedTask{agent: "a", device: 0}
		o.order("a", clusterdoc.Order{Type: clusterdoc.OrderStart, TaskID: command, GraceS: 1, Start: &clusterdoc.Start{
			Name: "x", Command: []string{"sh", "-c", "echo begun; while [ ! -e " + seen + " ]; do sleep 0.01; done"},
			Devices: []int{0}, WorldSize: 1, LocalWorldSize: 1}})
		return true
	})
	o.await("the command runs", time.Minute, func() bool { return o.logs[command] != "" })
	if n := workers(); n > 0 {
		t.Errorf("%d workers of the pool are on the device of a command", n)
	}
	if !o.has("a", command) {
		t.Error("the command has ended before its device was looked at")
	}
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.await("both end", time.Minute, o.over)
	o.expectLoops(dir)
}

// A home that is told to end saves first, and the next one goes on from there. A pool without anything to do ends.
func TestHomeIsStopped(t *testing.T) {
	defer executor.SetPoolIdle(100 * time.Millisecond)()
	dir := relaxedModules(t)
	o := newOrders(t, 6)
	home := t.TempDir()
	stop := agentOf(t, o, "a", home, "cpu=2", 0)
	defer stop()
	j := relaxed("j1", "slow", dir, 3, 40)
	j.checkpoints = t.TempDir()
	o.add(j)
	o.await("the job runs", time.Minute, func() bool { return j.round > 5 })
	o.mu.Lock()
	round := j.round
	o.stop(j)
	o.mu.Unlock()
	o.await("another home goes on", time.Minute, func() bool { return j.attempt == 2 && j.port > 0 })
	o.await("the job ends", time.Minute, o.over)
	if end := o.ends; !j.done || j.saved != 40 {
		t.Errorf("%+v %+v", j, end)
	}
	for _, end := range o.ends {
		if end.Task == 0 && end.Attempt == 1 && (end.Signal != "SIGTERM" || end.Round < round) {
			t.Errorf("the home that was told to end in round %d: %+v", round, end)
		}
	}
	o.expectLoops(dir)
	if log := o.log(clusterdoc.TaskID{Job: "j1", Attempt: 2}); !strings.HasPrefix(log, "goes on from the checkpoint") {
		t.Error(log)
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(home, "pool")); err != nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the pool does not end")
		}
	}
}

// Pretended devices play the tasks and homes of jobs that say their seconds, without a pool.
func TestRelaxedJobsArePlayed(t *testing.T) {
	o := newOrders(t, 7)
	homes := map[string]string{}
	for _, name := range []string{"a", "b"} {
		homes[name] = t.TempDir()
		agentOf(t, o, name, homes[name], "V100=4", 0)
	}
	for _, id := range []string{"j1", "j2", "j3"} {
		j := relaxed(id, "nothing", "/nowhere", 3, 10)
		j.pretendS = 2
		o.add(j)
	}
	o.await("all jobs end", time.Minute, o.over)
	for _, j := range o.jobs {
		if !j.done || j.round != 10 || j.attempt != 1 {
			t.Errorf("%+v", j)
		}
	}
	for _, end := range o.ends {
		if end.Task > 0 && (end.RanS != 2 || *end.ExitCode != 0) {
			t.Errorf("%+v", end)
		}
	}
	for _, home := range homes {
		if _, err := os.Stat(filepath.Join(home, "pool")); err == nil {
			t.Error("there is a pool")
		}
	}
}
