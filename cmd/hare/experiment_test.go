package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/bench/experiment"
)

// TestExperiment checks that an experiment prints and writes its tables, that these
// do not depend on --parallel, and that invalid arguments are refused before any
// run starts.
func TestExperiment(t *testing.T) {
	dir := t.TempDir()
	table, errs, code := runHare(t, "", "experiment", "sync", "--scale", "40", "--repeat", "2", "--policy", "hlas,srtf",
		"-q", "-o", dir)
	if code != 0 {
		t.Fatal(code, errs)
	}
	for _, want := range []string{"means over 2 instances", "| relaxed hlas | nothing |", "| rigid srtf | sizes |",
		" ± "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	for _, name := range []string{"sync.csv", "sync.md", "sync.html", "sync-1.svg", "sync-1.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Error(name, err)
		}
	}
	if other, _, _ := runHare(t, "", "experiment", "sync", "--scale", "40", "--repeat", "2", "--policy", "hlas,srtf",
		"-q", "--parallel", "3"); other != table {
		t.Errorf("side by side:\n%s\nwant\n%s", other, table)
	}
	if list, _, code := runHare(t, "", "experiment", "list"); code != 0 ||
		strings.Count(list, "\n") != 3*len(experiment.Names()) {
		t.Error(code, list)
	}
	for _, args := range [][]string{{"--jobs", "0"}, {"--jobs", "10,-5"}, {"--load", "NaN"}} {
		if out, errs, code := runHare(t, "", append([]string{"bench", "simulate"}, args...)...); code != 2 || out != "" ||
			!strings.Contains(errs, args[0]) {
			t.Errorf("%v: %d, %q, %q", args, code, out, errs)
		}
	}
	for _, args := range [][]string{{"synk"}, {"sync", "--repeat", "0"}, {"sync", "--policy", "hals"},
		{"sync", "--policy", "hlas,hlas"}, {"sync", "--small", "--scale", "7"}, {"sync", "-o", file(t, "plain", "")}} {
		if out, errs, code := runHare(t, "", append([]string{"experiment"}, args...)...); code != 2 || out != "" ||
			errs == "" {
			t.Errorf("%v: %d, %q, %q", args, code, out, errs)
		}
	}
}
