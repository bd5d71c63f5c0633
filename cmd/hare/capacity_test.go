package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCapacityCommand checks that hours, waits and money of a plan follow from the jobs that it writes, and that the
// flags which a request cannot tell from its defaults are refused.
func TestCapacityCommand(t *testing.T) {
	dir := t.TempDir()
	week, plan := filepath.Join(dir, "week.json"), filepath.Join(dir, "plan")
	if out, errs, code := runHare(t, "", "generate", "--jobs", "80", "--gpus", "V100=2,T4=2", "--sync", "gang",
		"--arrivals", "uniform:604700", "--seed", "5", "-o", week); code != exitDone {
		t.Fatal(out, errs)
	}
	out, errs, code := runHare(t, "", "capacity", week, "--option", "V100=4", "--option", "T4=2,V100=2", "--option",
		"drop t4 from 30h to 4d", "--price", "V100=2.5,T4=0.4", "--policy", "now,hgittins", "--weeks", "3", "--growth", "20",
		"--goal", "p95 wait <= 1h", "-q", "-o", plan)
	if code != exitDone || !strings.Contains(out, "No number of V100 shortens") {
		t.Fatalf("%d: %s%s", code, errs, out)
	}
	for _, name := range []string{"index.html", "rows.csv"} {
		if info, err := os.Stat(filepath.Join(plan, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found, err := exec.LookPath("python3"); err == nil {
		script := "../../sim/capacity/testdata/recompute.py"
		if said, err := exec.Command(found, script, plan).CombinedOutput(); err != nil ||
			string(said) != "8 rows, 0 faults\n" {
			t.Errorf("%v: %s", err, said)
		}
	}
	for _, args := range [][]string{{"--growth", "0"}, {"--weeks", "0"}, {"--share", "0"}, {"--days", "0"},
		{"--price", "V100=1,V100=2"}, {"--begins", "soon"}, {"--since", "7d"},
		{"--option", "drop t4 from fri to sat"}, {"slurm"}} {
		_, errs, code := runHare(t, "", append([]string{"capacity", week}, args...)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
}

// TestKilledCapacity kills a plan twice amid its weeks and checks that the same command goes on from them, leaves no
// other files and the same bytes as one that was never killed, and that other arguments do not go on from them.
func TestKilledCapacity(t *testing.T) {
	dir := t.TempDir()
	week, whole, cut := filepath.Join(dir, "week.json"), filepath.Join(dir, "whole"), filepath.Join(dir, "cut")
	if out, errs, code := runHare(t, "", "generate", "--jobs", "80", "--gpus", "V100=2,T4=2", "--sync", "gang",
		"--arrivals", "uniform:604700", "--seed", "5", "-o", week); code != exitDone {
		t.Fatal(out, errs)
	}
	args := []string{"capacity", week, "--option", "V100=4", "--price", "V100=2.5,T4=0.4", "--policy", "now,hgittins",
		"--weeks", "4", "--growth", "6", "--goal", "p95 wait <= 1h", "--buy", "T4=8", "-o"}
	if out, errs, code := runHare(t, "", append(args, whole)...); code != exitDone {
		t.Fatal(out, errs)
	}
	journal := filepath.Join(cut, journalName)
	kept := int64(0)
	for range 2 {
		c := command(append(args, cut)...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		grown := false
		for end := time.Now().Add(patience); !grown && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if info, err := os.Stat(journal); err == nil && info.Size() > kept+10_000 {
				grown, kept = true, info.Size()
			}
		}
		_ = c.Process.Kill()
		if err := c.Wait(); !grown || err == nil {
			t.Fatalf("%d bytes are kept; %v", kept, err)
		}
	}
	// A member that was cut off is dropped.
	if err := os.Truncate(journal, kept-1); err != nil {
		t.Fatal(err)
	}
	_, errs, code := runHare(t, "", append(args, cut)...)
	if code != exitDone || !strings.Contains(errs, "going on from what ") ||
		strings.Contains(errs, "capacity: proved: ") {
		t.Fatalf("%d %s", code, errs)
	}
	entries, _ := os.ReadDir(cut)
	for _, e := range entries {
		want, _ := os.ReadFile(filepath.Join(whole, e.Name()))
		if got, err := os.ReadFile(filepath.Join(cut, e.Name())); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %d bytes, want %d", e.Name(), err, len(got), len(want))
		}
	}
	if len(entries) != 4 {
		t.Errorf("%d files", len(entries))
	}
	if err := os.WriteFile(journal, []byte("no journal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runHare(t, "", append(args, cut, "--weeks", "1")...); code != exitDone ||
		strings.Contains(errs, "going on") {
		t.Errorf("%d %s", code, errs)
	}
}
