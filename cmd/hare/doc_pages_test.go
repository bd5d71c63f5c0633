package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// pagesElsewhere have a test of their own, or show only what cannot run here.
var pagesElsewhere = []string{"reference/http", "use/beside", "use/explain", "use/import", "use/online",
	"use/own-policy", "use/replan", "use/run-jobs", "use/secure", "use/shadow", "use/simulate", "use/whatif"}

// TestPages runs what all other pages show. Those of docs/lab take hours.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		folder, file := filepath.Split(page)
		name := filepath.Base(folder) + "/" + strings.TrimSuffix(file, ".md")
		if filepath.Base(folder) == "lab" || slices.Contains(pagesElsewhere, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { checkPage(t, page, changingRun, 0, "python3") })
	}
}
