package main

import (
	"regexp"
	"testing"
)

// changingRun matches what differs from run to run: ids, dates and the seconds that something took.
var changingRun = regexp.MustCompile(changing.String() +
	`|after \d+\.\d+ s|"(total|wait|[a-z]*_)?s(econds)?": ?[0-9.e-]+` +
	`|(?m)(?:\s{2,}jobs/s|\s{2,}\d+)$|20\d\d-\d\d-\d\d(T[0-9:.]+Z)?|\d+ down|"bytes":\d+`)

// notHere matches commands of pages that take minutes, install something, or need another machine.
var notHere = regexp.MustCompile(`^(go|make|npm|\(cd) |hare (bench|experiment|slurm|kube|ray) ` +
	`|--time-limit (2|10)s|pip install|` +
	`gavel\.json|due\.json|busy\.json|wide\.json|molded\.json|-n 1000000|philly\.csv`)

// TestPages runs what the pages show that have no test of their own.
func TestPages(t *testing.T) {
	for _, name := range []string{"antman", "bounds", "branch", "certificate", "cli", "dependencies", "durability",
		"elastic", "faults", "hadar", "hlas", "http", "levels", "methods", "metrics", "model", "nodes", "operations",
		"policies", "running", "shapes", "traces", "worker"} {
		t.Run(name, func(t *testing.T) { checkPage(t, "../../docs/"+name+".md", changingRun, 1, "python3") })
	}
}
