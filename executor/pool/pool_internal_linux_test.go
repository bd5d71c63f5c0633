package pool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/description"
)

// TestModelsTakeTurns has three jobs take turns on a device with memory for two of their models: models leave, and the
// next one is copied ahead behind the task before, because the pool has seen which job follows which.
func TestModelsTakeTurns(t *testing.T) {
	if err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 11)").Run(); err != nil {
		t.Skip("no Python 3.11")
	}
	source, err := filepath.Abs("../../worker/src")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../worker/examples")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", source)
	sockets, err := os.MkdirTemp("", "pool")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	p, err := newPool(&Spec{Devices: []Device{{Type: "cpu"}}, MemoryBytes: 40, LogLimit: 1 << 20}, sockets)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	state := func(id description.TaskID) description.TaskReport {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.entries[id].report
	}
	until := func(id description.TaskID, s description.TaskState) description.TaskReport {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			if r := state(id); r.State == s {
				return r
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%+v is never %s", state(id), s)
			}
		}
	}
	const jobs, rounds = 3, 8
	starts := make([]description.RoundStart, jobs)
	name := func(j int) description.TaskID { return description.TaskID{Job: fmt.Sprint("j", j), Attempt: 1} }
	dir := t.TempDir()
	for j := range jobs {
		starts[j] = description.RoundStart{Module: "line", Tasks: 1, Rounds: rounds, Secret: "s"}
		p.startHome(&Request{Type: Home, Checkpoint: filepath.Join(dir, fmt.Sprint(j)), Output: t.TempDir(),
			Order: &description.Order{TaskID: name(j), Home: &description.HomeStart{RoundStart: starts[j],
				Directory: examples}}})
		until(name(j), description.TaskRunning)
	}
	for r := range int64(rounds) {
		for j := range jobs {
			id := name(j)
			id.Task = int(r) + 1
			p.startCompute(&description.Order{TaskID: id, Compute: &description.Compute{Round: r, RoundStart: starts[j],
				Directory: examples}})
			if end := until(id, description.TaskEnded); end.ExitCode == nil || *end.ExitCode != 0 {
				t.Fatalf("%+v", end)
			}
		}
	}
	for j := range jobs {
		if end := until(name(j), description.TaskEnded); end.Round != rounds {
			t.Errorf("%+v", end)
		}
	}
	c, err := p.node.Counts(0)
	if err != nil || c.Evictions < 3 || c.Prefetches < 3 {
		t.Errorf("%+v %v", c, err)
	}
}
