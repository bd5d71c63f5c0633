package pool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A task whose home has ended while the task waited for its device is lost, which is no failure of the job.
func TestTaskAfterItsHome(t *testing.T) {
	p := testPool(t, 0)
	s := clusterdoc.RoundStart{Module: "line", Tasks: 2, Rounds: 2, Secret: "s"}
	home := clusterdoc.TaskID{Job: "j1", Attempt: 1}
	p.servers.start(&Request{Type: Serve, Checkpoint: filepath.Join(t.TempDir(), "c"), Output: t.TempDir(),
		Order: &clusterdoc.Order{TaskID: home, Home: &clusterdoc.HomeStart{RoundStart: s, Directory: examplesOf(t)}}})
	p.until(t, home, clusterdoc.TaskRunning)
	taken, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = p.turns.use(context.Background(), &wait{device: 0, job: "j2"}, func(int) error {
			close(taken)
			<-free
			return nil
		})
	}()
	<-taken
	id := clusterdoc.TaskID{Job: "j1", Attempt: 1, Task: 1}
	p.compute(&clusterdoc.Order{TaskID: id, Compute: &clusterdoc.Compute{RoundStart: s,
		Directory: examplesOf(t)}})
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		p.turns.mu.Lock()
		waits = len(p.turns.waiting) == 1
		p.turns.mu.Unlock()
	}
	p.reports.mu.Lock()
	kill := p.reports.entries[home].kill
	p.reports.mu.Unlock()
	kill()
	p.until(t, home, clusterdoc.TaskEnded)
	close(free)
	if end := p.until(t, id, clusterdoc.TaskLost); !strings.Contains(end.Error, "parameter server of the job has ended") {
		t.Errorf("%+v", end)
	}
}

// A home that is told to end while its module is imported ends at once, because there is nothing to save.
func TestHomeStopsBeforeItRuns(t *testing.T) {
	p := testPool(t, 0)
	dir := t.TempDir()
	text := "import os, time\nopen(os.path.dirname(__file__) + '/begun', 'w').close()\ntime.sleep(600)\n"
	if err := os.WriteFile(filepath.Join(dir, "slow.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home := clusterdoc.TaskID{Job: "j1", Attempt: 1}
	p.servers.start(&Request{Type: Serve, Checkpoint: filepath.Join(dir, "c"), Output: t.TempDir(),
		Order: &clusterdoc.Order{TaskID: home, Home: &clusterdoc.HomeStart{Directory: dir,
			RoundStart: clusterdoc.RoundStart{Module: "slow", Tasks: 1, Rounds: 1, Secret: "s"}}}})
	for from := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
		if time.Since(from) > 30*time.Second {
			t.Fatal("the module is not imported")
		}
	}
	p.reports.mu.Lock()
	stop := p.reports.entries[home].stop
	p.reports.mu.Unlock()
	stop(10 * time.Minute)
	if end := p.until(t, home, clusterdoc.TaskEnded); end.Signal != "SIGTERM" || end.RanS > 40 {
		t.Errorf("%+v", end)
	}
}
