package worker_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/worker"
)

// modules writes modules of Python into a folder.
func modules(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// good is a module whose parts are replaced by the tests.
const good = `
BACKEND = "plain"
def build(): return {"x": [1.0] * 1000}
def batch(round, task): return task
def loss(parameters, batch): return 0.0, {"x": [0.0] * 1000}
`

// What the user's module does wrong is said in one line, and the worker goes on.
func TestFaultsOfModulesAreSaidInALine(t *testing.T) {
	dir := modules(t, map[string]string{
		"good":     good,
		"raises":   "\n\nraise ValueError('no data\\nat all')",
		"syntax":   "def build(:\n",
		"nothing":  "",
		"backend":  good + "BACKEND = 'jax'",
		"built":    good + "def build(): return [1]",
		"json":     good,
		"pair":     good + "def loss(p, b): return 1.0",
		"names":    good + "def loss(p, b): return 1.0, {'y': []}",
		"short":    good + "def loss(p, b): return 1.0, {'x': [1.0]}",
		"batches":  good + "def batch(round, task): return [][task]",
		"infinite": good + "def loss(p, b): return float('nan'), {'x': [0.0] * 1000}",
		"optimise": good + "def optimiser(): return {'rate': 1}",
		"prints":   "print('hello')\n" + good,
		"exits":    "import os\nos._exit(7)",
		"leaves":   good + "def loss(p, b): raise SystemExit(3)",
	})
	node := newNode(t, worker.Config{Backoff: time.Microsecond})
	for module, says := range map[string]string{
		"raises":   "raises.py:3: ValueError: no data at all",
		"syntax":   "syntax.py:1: SyntaxError",
		"nothing":  "the module has no function build()",
		"backend":  "BACKEND is 'jax'",
		"built":    "build() returns no dict of lists",
		"json":     "has the name of another module: rename it",
		"missing":  "No module named 'missing'",
		"a-b":      "is not the name of a module",
		"optimise": "the setting 'rate'",
		"pair":     "loss() returns no pair",
		"names":    "loss() has gradients of ['y']",
		"short":    "the gradient of x has 1 numbers, not 1000",
		"batches":  "batches.py:6: IndexError: list index out of range",
		"exits":    "exit status 7",
		"leaves":   "SystemExit: 3",
	} {
		j := worker.Job{ID: "job of " + module, Module: module, Directory: dir, Tasks: 2}
		err := node.Add(t.Context(), 0, j)
		if err == nil {
			_, err = node.Run(t.Context(), 0, worker.Task{Job: j.ID}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, which does not say %q in a line", module, err, says)
		}
	}
	for _, module := range []string{"good", "prints", "infinite"} {
		j := worker.Job{ID: module, Module: module, Directory: dir, Tasks: 2}
		if err := node.Add(t.Context(), 0, j); err != nil {
			t.Fatal(err)
		}
		r, err := node.Run(t.Context(), 0, worker.Task{Job: module, Task: 1}, nil)
		if err != nil || (r.Loss == nil) != (module == "infinite") {
			t.Errorf("%s: %+v, %v", module, r, err)
		}
	}
}

// A task that runs out of memory is run once more when other models have left, and then fails
// with what was in memory.
func TestOutOfMemory(t *testing.T) {
	dir := modules(t, map[string]string{
		"good": good,
		"once": good + "calls = []\ndef loss(p, b):\n calls.append(1)\n if len(calls) == 1: raise MemoryError('full')\n" +
			" return 0.0, {'x': [0.0] * 1000}",
		"always": good + "def loss(p, b): raise RuntimeError('CUDA out of memory: tried 2 GiB')",
		"large":  good + "def build(): return {'x': [0.0] * 100000}",
	})
	node := newNode(t, worker.Config{MemoryBytes: 100_000})
	add := func(id, module string) {
		t.Helper()
		if err := node.Add(t.Context(), 0, worker.Job{ID: id, Module: module, Directory: dir, Tasks: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, module := range []string{"once", "always", "large"} {
		add(module, module)
	}
	add("a", "good")
	add("b", "good")
	run := func(id string) error {
		_, err := node.Run(t.Context(), 0, worker.Task{Job: id}, nil)
		return err
	}
	for _, id := range []string{"a", "b", "once"} {
		if err := run(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if c, err := node.Counts(0); err != nil || c.Evictions != 2 {
		t.Errorf("the models of a and b were to leave: %+v, %v", c, err)
	}
	for _, id := range []string{"always", "large"} {
		var fault *worker.FaultError
		if err := run(id); !errors.As(err, &fault) || fault.Kind != "oom" {
			t.Errorf("%s: %v", id, err)
		} else if id == "always" && (fault.FootprintBytes != 8000 || !strings.Contains(err.Error(), "tried 2 GiB")) {
			t.Errorf("%s: %d bytes are left: %v", id, fault.FootprintBytes, err)
		}
	}
	if err := run("a"); err != nil {
		t.Errorf("the device does not go on: %v", err)
	}
	// Both sides agree that no copy is left of a job whose task failed.
	var fault *worker.FaultError
	if err := run("always"); !errors.As(err, &fault) || fault.FootprintBytes != 8000 {
		t.Errorf("the failed task holds what it held: %v", err)
	}
}

// An error of the device itself ends the worker; the next task has a new one.
func TestFailedDeviceIsStartedAnew(t *testing.T) {
	dir := modules(t, map[string]string{
		"sticky": good + "import os\nbegun = os.environ['BEGUN']\ndef loss(p, b):\n if not os.path.exists(begun):\n" +
			"  open(begun, 'w').close()\n  raise RuntimeError('CUDA error: an illegal memory access')\n" +
			" return 0.0, {'x': [0.0] * 1000}",
	})
	node := newNode(t, worker.Config{Environment: []string{"BEGUN=" + filepath.Join(t.TempDir(), "begun")}})
	if err := node.Add(t.Context(), 0, worker.Job{ID: "j", Module: "sticky", Directory: dir, Tasks: 1}); err != nil {
		t.Fatal(err)
	}
	var fault *worker.FaultError
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil); !errors.As(err, &fault) || fault.Kind != "device" {
		t.Errorf("the error of the device is %v", err)
	}
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil); err != nil {
		t.Errorf("the new worker: %v", err)
	}
}

// A task that takes too long is ended with its worker, also where it ignores signals and has
// started other processes.
func TestTaskEndsWithItsContext(t *testing.T) {
	dir := modules(t, map[string]string{
		"good": good,
		"hangs": good + "import os, signal, time\nstarted = os.environ['STARTED']\ndef loss(p, b):\n" +
			" signal.signal(signal.SIGTERM, signal.SIG_IGN)\n pid = os.fork()\n if pid:\n" +
			"  open(started + '.part', 'w').write(str(pid))\n  os.rename(started + '.part', started)\n" +
			" while True: time.sleep(60)",
	})
	started := filepath.Join(t.TempDir(), "started")
	node := newNode(t, worker.Config{Environment: []string{"STARTED=" + started}})
	for _, m := range []string{"good", "hangs"} {
		if err := node.Add(t.Context(), 0, worker.Job{ID: m, Module: m, Directory: dir, Tasks: 1}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var child []byte
	go func() {
		for ; len(child) == 0; time.Sleep(time.Millisecond) {
			child, _ = os.ReadFile(started)
		}
		cancel()
	}()
	if _, err := node.Run(ctx, 0, worker.Task{Job: "hangs"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the task that hangs: %v", err)
	}
	waitForEnd(string(child))
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "good"}, nil); err != nil {
		t.Errorf("the next task: %v", err)
	}
}

func TestTasksOfOtherRoundsAreRefused(t *testing.T) {
	node := newNode(t, worker.Config{})
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 2}
	if err := node.Add(t.Context(), 0, j); err != nil {
		t.Fatal(err)
	}
	if err := node.Add(t.Context(), 0, j); err != nil {
		t.Errorf("the same job again: %v", err)
	}
	other := j
	other.Tasks = 3
	var invalid *hare.InvalidError
	if err := node.Add(t.Context(), 0, other); !errors.As(err, &invalid) {
		t.Errorf("another job with the ID: %v", err)
	}
	var stale *worker.StaleError
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j", Round: 1}, nil); !errors.As(err, &stale) {
		t.Errorf("a task of a later round: %v", err)
	}
	first, err := node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil)
	if err != nil || again.ComputeS != first.ComputeS {
		t.Errorf("a task that is done is computed again: %+v after %+v, %v", again, first, err)
	}
	if _, err := node.Step(t.Context(), 0, "j", 0); !errors.As(err, &stale) || stale.Missing != 1 {
		t.Errorf("a step without all gradients: %v", err)
	}
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j", Task: 2}, nil); !errors.As(err, &invalid) {
		t.Errorf("a task beyond the last: %v", err)
	}
	if _, err := node.Run(t.Context(), 1, worker.Task{Job: "j", Task: 1}, nil); !errors.As(err, &invalid) {
		t.Errorf("a device beyond the last: %v", err)
	}
	if _, err := node.Run(t.Context(), 0, worker.Task{Job: "j", Task: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := node.Step(t.Context(), 0, "j", 0); err != nil || v != 1 {
		t.Errorf("the step gives version %d, %v", v, err)
	}
	if _, err := node.Step(t.Context(), 0, "j", 0); !errors.As(err, &stale) {
		t.Errorf("the same step again: %v", err)
	}
	if v, missing, err := node.Version("j"); err != nil || v != 1 || len(missing) != 2 {
		t.Errorf("version %d, tasks %v are missing, %v", v, missing, err)
	}
	if err := node.Remove("j"); err != nil {
		t.Error(err)
	}
	if _, _, err := node.State("j"); !errors.Is(err, worker.ErrUnknownJob) {
		t.Errorf("the state of a removed job: %v", err)
	}
}

func TestNodeRefusesBadConfigurations(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  worker.Config
		says string
	}{
		"no directory":      {worker.Config{}, "/directory"},
		"an open directory": {worker.Config{Directory: open}, "chmod 700"},
		"no devices":        {worker.Config{Directory: t.TempDir(), Devices: -1}, "/devices"},
		"no memory":         {worker.Config{Directory: filepath.Join(t.TempDir(), "d"), MemoryBytes: -1}, "/capacity"},
	} {
		if _, err := worker.NewNode(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	node := newNode(t, worker.Config{Python: []string{"/no/such/python"}})
	j := worker.Job{ID: "j", Module: "linear", Directory: jobsFolder(t), Tasks: 1}
	if err := node.Add(t.Context(), 0, j); err == nil || !strings.Contains(err.Error(), "no such file") ||
		!strings.Contains(err.Error(), "--python") {
		t.Errorf("no interpreter: %v", err)
	}
	node = newNode(t, worker.Config{Python: []string{interpreter(t, "sys"), "-I"}})
	if err := node.Add(t.Context(), 0, j); err == nil || !strings.Contains(err.Error(), "pip install ./worker") {
		t.Errorf("an interpreter without hare_worker: %v", err)
	}
	// This program gives the worker another version of the protocol and then starts it.
	start := "import sys, runpy, hare_worker.wire as w; w.PROTOCOL = 99; " +
		"sys.argv = sys.argv[2:]; runpy.run_module('hare_worker', run_name='__main__')"
	node = newNode(t, worker.Config{Python: []string{interpreter(t, "sys"), "-c", start}})
	var crash *worker.CrashError
	if err := node.Add(t.Context(), 0, j); err == nil || errors.As(err, &crash) ||
		!strings.Contains(err.Error(), "speaks version 99 of the protocol") {
		t.Errorf("a hare_worker of another version: %v", err)
	}
}

// A worker ends with its agent, however the agent dies, also in the midst of a task.
func TestWorkersEndWithTheirAgent(t *testing.T) {
	if dir := os.Getenv("HARE_TEST_AGENT"); dir != "" {
		// This is the agent of the test below, in a process of its own.
		node, err := worker.NewNode(worker.Config{Directory: filepath.Join(dir, "sockets"), Package: packageFolder(t),
			Python: []string{*python}})
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Add(t.Context(), 0, worker.Job{ID: "j", Module: "hangs", Directory: dir, Tasks: 1}); err != nil {
			t.Fatal(err)
		}
		_, err = node.Run(t.Context(), 0, worker.Task{Job: "j"}, nil)
		t.Fatal(err)
	}
	interpreter(t, "sys")
	dir := modules(t, map[string]string{"hangs": good + "import os, time\ndef loss(p, b):\n" +
		" open('DIR/part', 'w').write(str(os.getpid()))\n os.rename('DIR/part', 'DIR/pid')\n time.sleep(600)"})
	text, err := os.ReadFile(filepath.Join(dir, "hangs.py"))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "DIR", dir))
	if err := os.WriteFile(filepath.Join(dir, "hangs.py"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(os.Args[0], "-test.run=^TestWorkersEndWithTheirAgent$", "-hare.python="+*python)
	agent.Env = append(os.Environ(), "HARE_TEST_AGENT="+dir)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = agent.Wait()
		close(ended)
	}()
	var pid []byte
	for len(pid) == 0 {
		select {
		case <-ended:
			t.Fatal("the agent ended before its task began")
		case <-time.After(5 * time.Millisecond):
			pid, _ = os.ReadFile(filepath.Join(dir, "pid"))
		}
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	waitForEnd(string(pid))
}

// waitForEnd waits until a process has ended; an init process may not have taken its status yet.
func waitForEnd(pid string) {
	for {
		status, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
