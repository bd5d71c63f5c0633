package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestBenchGapRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--set hard":                     "--set: unknown set",
		"--times 0":                      "--times \"0\"",
		"--times 1;2":                    "--times",
		"--only (":                       "--only: error parsing regexp",
		"--only nothing-like-it":         "matches no instance of sixty",
		"--seeds 1-10":                   "--seeds goes with --set figures",
		"--set figures --seeds 9-1":      "--seeds \"9-1\"",
		"--set figures":                  "--instances",
		"--workers 0":                    "--workers must be 1 to 1024",
		"--against gurobi":               "--against gurobi: it must be cpsat or interval-lp",
		"--against cpsat --python /none": "make cpsat",
		"--lp-limit 0s":                  "--lp-limit must be above 0",
		"instance.json":                  "no such file",
		"--set sixty instance.json":      "give instances or --set, not both",
		"--tims 2":                       "unknown flag",
		"--work 0":                       "--work",
		"--work 100 --times 2":           "--work goes without --times",
		"--work 100 --against cpsat":     "--work goes without --times and --against",
	} {
		stdout, stderr, code := runHare(t, "", append([]string{"bench", "gap"}, strings.Fields(args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

func TestBenchGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gap")
	stdout, stderr, code := runHare(t, "", "bench", "gap", "--only", "rigid-zero-20-on-(3|10)$", "--times", "0.1",
		"--against", "interval-lp", "-o", dir)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "| rigid zero 20 | 2 |") ||
		!strings.Contains(stdout, "interval-lp") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "gap-20.svg")); err != nil {
		t.Error(err)
	}
	stdout, stderr, code = runHare(t, "", "bench", "gap", "--set", "figures", "--instances", "../../testdata/instances",
		"--only", "^relaxed-20-seed", "--seeds", "1,3-4", "--times", "0.05", "--json")
	var doc struct {
		Rows    []struct{ Instance string }
		Summary []struct {
			Instances int
			Cell      string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 || len(doc.Rows) != 3 ||
		doc.Summary[0].Instances != 3 || doc.Rows[1].Instance != "relaxed-20-seed-3" {
		t.Errorf("exit %d, %v\n%s%s", code, err, stdout, stderr)
	}
	// Under a limit of work a run gives the same value again, and a picture by time has nothing to show.
	var values [2]string
	for n := range values {
		dir := filepath.Join(t.TempDir(), "work")
		stdout, stderr, code := runHare(t, "", "bench", "gap", "--only", "mixed-zero-20-on-10$", "--work", "300", "-o", dir)
		if code != 0 || !strings.Contains(stdout, "Each run ended after a work of 300.") {
			t.Errorf("exit %d\n%s%s", code, stdout, stderr)
		}
		table, err := os.ReadFile(filepath.Join(dir, "results.csv"))
		if err != nil {
			t.Fatal(err)
		}
		values[n] = strings.Split(strings.Split(string(table), "\n")[1], ",")[9]
		if _, err := os.Stat(filepath.Join(dir, "gap-20.svg")); err == nil {
			t.Error("a picture by the limit of time")
		}
	}
	if values[0] == "" || values[0] != values[1] {
		t.Errorf("values %s", values)
	}
	stdout, _, code = runHare(t, "", "bench", "gap", "--list")
	if code != 0 || strings.Count(stdout, "\n") != 60 {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}

// TestBenchGapInterrupted interrupts a measurement in its second run.
func TestBenchGapInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gap")
	c := command("bench", "gap", "--only", "gang-zero-20-on-10$", "--times", "0.1,600", "-o", dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "gang-zero-20-on-10") {
		t.Errorf("first line is %q", lines.Text())
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		continue
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != exitNo {
		t.Errorf("exit %d", code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil || !strings.Contains(string(text), "Interrupted") ||
		strings.Count(string(text), "gang-zero-20-on-10") != 1 {
		t.Errorf("%v\n%s", err, text)
	}
}
