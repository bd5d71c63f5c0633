package pool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/clusters/description"
)

// A home that is told to end while its module is imported ends at once, because there is nothing to save.
func TestHomeStopsBeforeItRuns(t *testing.T) {
	p := testPool(t, 0)
	dir := t.TempDir()
	text := "import os, time\nopen(os.path.dirname(__file__) + '/begun', 'w').close()\ntime.sleep(600)\n"
	if err := os.WriteFile(filepath.Join(dir, "slow.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home := description.TaskID{Job: "j1", Attempt: 1}
	p.startHome(&Request{Type: Home, Checkpoint: filepath.Join(dir, "c"), Output: t.TempDir(),
		Order: &description.Order{TaskID: home, Home: &description.HomeStart{Directory: dir,
			RoundStart: description.RoundStart{Module: "slow", Tasks: 1, Rounds: 1, Secret: "s"}}}})
	for from := time.Now(); time.Since(from) < 30*time.Second; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
	}
	p.mu.Lock()
	stop := p.entries[home].stop
	p.mu.Unlock()
	stop(10 * time.Minute)
	if end := p.until(t, home, description.TaskEnded); end.Signal != "SIGTERM" || end.RanS > 40 {
		t.Errorf("%+v", end)
	}
}
