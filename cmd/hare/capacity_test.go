package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	for _, args := range [][]string{{"--growth", "0"}, {"--growth", "1.2,2"}, {"--growth", "nobody=2"},
		{"--weeks", "0"}, {"--share", "0"}, {"--days", "0"},
		{"--price", "V100=1,V100=2"}, {"--begins", "soon"}, {"--since", "7d"},
		{"--option", "drop t4 from fri to sat"}, {"slurm"}} {
		_, errs, code := runHare(t, "", append([]string{"capacity", week}, args...)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
}
