package main

import (
	"regexp"
	"testing"
)

// changingSpeed matches what differs from run to run, the last column of tables, and other figures that depend on the
// clock.
var changingSpeed = regexp.MustCompile(changing.String() +
	`|(?m)(?:\s{2,}jobs/s|\s{2,}\d+)$|"(wall_s|simulated_jobs_per_s)": .*`)

func TestSimulatePage(t *testing.T) {
	if testing.Short() {
		t.Skip("it shows nothing of goroutines, and takes a minute under the race detector")
	}
	pool, err := newPool()
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.Ready(t.Context()); err != nil {
		t.Skip(err) // the figures of the page need HiGHS
	}
	checkPage(t, "../../docs/use/simulate.md", changingSpeed, 15, "grep", "diff")
}
