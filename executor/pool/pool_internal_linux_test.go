package pool

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// testPool is a pool in this process, with one device of a memory.
func testPool(t *testing.T, memory int64) *process {
	t.Helper()
	if err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 11)").Run(); err != nil {
		t.Skip("no Python 3.11")
	}
	source, err := filepath.Abs("../../executor/python/src")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", source)
	sockets, err := os.MkdirTemp("", "pool")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProcess(&Spec{Devices: []Device{{Type: "cpu"}}, MemoryBytes: memory, LogLimit: 1 << 20}, sockets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(sockets)
	})
	return p
}

func (p *process) compute(o *clusterdoc.Order) { p.computer.start(o, p.sourceOf) }

func examplesOf(t *testing.T) string {
	t.Helper()
	examples, err := filepath.Abs("../../executor/python/examples")
	if err != nil {
		t.Fatal(err)
	}
	return examples
}

// until waits until a home or task stands in a state.
func (p *process) until(t *testing.T, id clusterdoc.TaskID, s clusterdoc.TaskState) clusterdoc.TaskReport {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		p.reports.mu.Lock()
		r := p.reports.entries[id].report
		p.reports.mu.Unlock()
		if r.State == s {
			return r
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%+v is never %s", r, s)
		}
	}
}

// TestModelsTakeTurns has three jobs take turns on a device with memory for two of their models: models leave, and the
// next one is copied ahead behind the task before, because the pool has seen which job follows which.
func TestModelsTakeTurns(t *testing.T) {
	p := testPool(t, 40)
	const jobs, rounds = 3, 8
	starts := make([]clusterdoc.RoundStart, jobs)
	name := func(j int) clusterdoc.TaskID { return clusterdoc.TaskID{Job: fmt.Sprint("j", j), Attempt: 1} }
	dir := t.TempDir()
	for j := range jobs {
		starts[j] = clusterdoc.RoundStart{Module: "line", Tasks: 1, Rounds: rounds, Secret: "s"}
		p.servers.start(&Request{Type: Serve, Checkpoint: filepath.Join(dir, fmt.Sprint(j)), Output: t.TempDir(),
			Order: &clusterdoc.Order{TaskID: name(j), Home: &clusterdoc.HomeStart{RoundStart: starts[j],
				Directory: examplesOf(t)}}})
		p.until(t, name(j), clusterdoc.TaskRunning)
	}
	for r := range int64(rounds) {
		for j := range jobs {
			id := name(j)
			id.Task = int(r) + 1
			p.compute(&clusterdoc.Order{TaskID: id, Compute: &clusterdoc.Compute{Round: r, RoundStart: starts[j],
				Directory: examplesOf(t)}})
			if end := p.until(t, id, clusterdoc.TaskEnded); end.ExitCode == nil || *end.ExitCode != 0 {
				t.Fatalf("%+v", end)
			}
		}
	}
	for j := range jobs {
		if end := p.until(t, name(j), clusterdoc.TaskEnded); end.Round != rounds {
			t.Errorf("%+v", end)
		}
	}
	c, err := p.workers.Counts(0)
	if err != nil || c.Evictions < 3 || c.Prefetches < 3 {
		t.Errorf("%+v %v", c, err)
	}
}

// A task whose home cannot be reached is lost after some time, and the pool forgets its job.
func TestHomeOutOfReach(t *testing.T) {
	was := patience
	patience = 300 * time.Millisecond
	defer func() { patience = was }()
	p := testPool(t, 0)
	id := clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: 1}
	p.compute(&clusterdoc.Order{TaskID: id, Compute: &clusterdoc.Compute{Address: "127.0.0.1:1",
		Directory: examplesOf(t), RoundStart: clusterdoc.RoundStart{Module: "line", Tasks: 1, Rounds: 1, Secret: "s"}}})
	if end := p.until(t, id, clusterdoc.TaskLost); !strings.Contains(end.Error, "cannot be reached at 127.0.0.1:1") {
		t.Errorf("%+v", end)
	}
	if _, _, err := p.workers.Version("j1.1"); !errors.Is(err, worker.ErrUnknownJob) {
		t.Errorf("the job is kept: %v", err)
	}
}

// The agent is told of a task that computes for longer than a second, and a stop waits for it within its grace.
func TestLongTask(t *testing.T) {
	p := testPool(t, 0)
	go p.computer.tellLong()
	dir := t.TempDir()
	text := "import time\nBACKEND = 'plain'\ndef build(): return {'x': [0.0]}\n" +
		"def batch(r, t): time.sleep(600 if t else 2)\ndef loss(p, b): return 0.0, {'x': [0.0]}\n"
	if err := os.WriteFile(filepath.Join(dir, "long.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clusterdoc.RoundStart{Module: "long", Tasks: 2, Rounds: 1, Secret: "s"}
	home := clusterdoc.TaskID{Job: "j1", Attempt: 1}
	p.servers.start(&Request{Type: Serve, Checkpoint: filepath.Join(dir, "c"), Output: t.TempDir(),
		Order: &clusterdoc.Order{TaskID: home, Home: &clusterdoc.HomeStart{RoundStart: s, Directory: dir}}})
	p.until(t, home, clusterdoc.TaskRunning)
	task := func(number int, grace time.Duration) clusterdoc.TaskReport {
		t.Helper()
		id := clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: number}
		p.compute(&clusterdoc.Order{TaskID: id, Compute: &clusterdoc.Compute{Task: number - 1, RoundStart: s,
			Directory: dir}})
		p.until(t, id, clusterdoc.TaskRunning)
		p.reports.mu.Lock()
		stop := p.reports.entries[id].stop
		p.reports.mu.Unlock()
		stop(grace)
		return p.until(t, id, clusterdoc.TaskEnded)
	}
	if end := task(1, time.Minute); end.ExitCode == nil || *end.ExitCode != 0 || end.RanS < 2 {
		t.Errorf("%+v", end)
	}
	if end := task(2, time.Millisecond); end.Signal != "SIGKILL" || end.RanS > 60 {
		t.Errorf("%+v", end)
	}
}
