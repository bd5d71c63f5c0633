package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// names lists the files of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestSimulateBothEngines runs policies of both engines on one trace file, and
// checks that files contain nothing that depends on the clock.
func TestSimulateBothEngines(t *testing.T) {
	trace := file(t, "trace.csv",
		"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\na,0,A3C,100000,1,1\nb,30,ResNet-18 (batch "+
			"size 128),9000,2,3\nc,40,A3C,90000,1,1\n")
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		args := []string{"simulate", "--policy", "hlas,tiresias,gavel:max_min_fairness_perf", "--trace", trace, "--gpus",
			"v100=36,p100=36,k80=36", "-o", dir, "--repeat", "2", "--parallel", []string{"1", "5"}[i]}
		out, errs, code := runHare(t, "", args...)
		if code != exitDone || errs != "" || strings.Count(out, " ± ") < 6 || !strings.Contains(out, "\ntiresias") {
			t.Fatal(code, errs, out)
		}
	}
	want := []string{"cdf.svg", "jobs.csv", "jobs.parquet", "report.html", "summary.csv", "summary.json",
		"summary.parquet"}
	if got := names(t, dirs[0]); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, name := range want {
		a, _ := os.ReadFile(filepath.Join(dirs[0], name))
		b, _ := os.ReadFile(filepath.Join(dirs[1], name))
		if len(a) == 0 || string(a) != string(b) {
			t.Errorf("%s: %d and %d bytes, or others", name, len(a), len(b))
		}
	}
}

// TestSimulateRecord checks that hare verify accepts recorded runs, also of
// generated jobs.
func TestSimulateRecord(t *testing.T) {
	dir := t.TempDir()
	instance := filepath.Join(t.TempDir(), "i.json")
	if _, errs, code := runHare(t, "", "generate", "--jobs", "6", "--gpus", "V100=2,K80=16", "--sync", "gang", "-o",
		instance); code != exitDone {
		t.Fatal(errs)
	}
	out, errs, code := runHare(t, "", "simulate", "--policy", "hlas,gavel:isolated,kueue", "--instance", instance,
		"--record", dir, "--quantum", "20s")
	if code != exitDone || !strings.Contains(out, "rounds of gangs are merged") {
		t.Fatal(errs, out)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"hlas.result.json", "instance.json", "kueue.result.json"}) {
		t.Errorf("%v", got)
	}
	for _, i := range []string{instance, filepath.Join(dir, "instance.json")} {
		if out, errs, code := runHare(t, "", "verify", i, filepath.Join(dir, "kueue.result.json")); code != exitDone ||
			!strings.HasPrefix(out, "accepted") {
			t.Error(code, out, errs)
		}
	}
	drawn := t.TempDir()
	if _, errs, code := runHare(t, "", "simulate", "--policy", "srtf", "--generate", "5", "--seed", "3", "--repeat", "2",
		"--record", drawn, "--gpus", "V100=4"); code != exitDone {
		t.Fatal(errs)
	}
	if out, _, code := runHare(t, "", "verify", filepath.Join(drawn, "seed-4.instance.json"),
		filepath.Join(drawn, "srtf.seed-4.result.json")); code != exitDone {
		t.Error(out)
	}
}

// TestSimulateLeavesNoPart checks that no file is left if a run fails or one file
// cannot be written.
func TestSimulateLeavesNoPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	cluster := file(t, "cluster.json", `{"nodes": [{"name": "a", "gpus": {"V100": 8}, "in_service_s": [[0, 100]]}]}`)
	args := []string{"simulate", "--policy", "hlas", "--trace", "max_min_fairness", "--cluster", cluster, "-o", dir,
		"--record", dir}
	out, errs, code := runHare(t, "", args...)
	if code != exitUsage || out != "" || !strings.Contains(errs, "policy hlas, seed 0: sim: jobs wait forever") ||
		names(t, dir) != nil {
		t.Error(code, out, errs, names(t, dir))
	}
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "jobs.csv", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, errs, code = runHare(t, "", "simulate", "--policy", "gavel:fifo", "--trace", "small_test", "--gpus", "v100=8",
		"-o", dir); code == exitDone || out != "" || !slices.Equal(names(t, dir), []string{"jobs.csv"}) {
		t.Error(code, out, errs, names(t, dir))
	}
}

func TestSimulateFaults(t *testing.T) {
	faults := file(t, "faults.csv", "gpu,from_s,until_s\nv100/0,5,20.5\nv100,30,300\nk80/2,1,\n")
	args := []string{"simulate", "--policy", "fifo,gavel:fifo_perf", "--trace", "small_test", "--gpus",
		"v100=8,p100=8,k80=8", "--json", "--faults"}
	out, errs, code := runHare(t, "", append(args, faults)...)
	if code != exitDone || strings.Contains(out, `"down_gpu_s": 0,`) {
		t.Error(code, errs, out)
	}
	for text, want := range map[string]string{
		"gpu\n":                            "1:1: the first line must be gpu,from_s,until_s",
		"gpu,from_s,until_s\nv100/0,x,1\n": "2:8: ",
		"gpu,from_s,until_s\nv100/0,1,0.1234567\n": "2:10: ",
		"gpu,from_s,until_s\nv100/9,1,2\n":         `"v100/9"`,
		"gpu,from_s,until_s\nv100/0,1,2\nv100,1,":  "overlaps",
	} {
		out, errs, code := runHare(t, "", append(args, file(t, "faults.csv", text))...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %s", text, code, errs)
		}
	}
}

func TestSimulationProgress(t *testing.T) {
	var b strings.Builder
	at := time.Unix(0, 0)
	say := simulationProgress(&progressLine{&b, true}, func() time.Time { at = at.Add(time.Second); return at })
	say(simulatedoc.Progress{Policy: "hlas", Runs: 4, RunsDone: 1, Jobs: 400, JobsDone: 100, NowS: 86400 * 1.5,
		Events: 3e6})
	if got := b.String(); !strings.Contains(got, "hlas  run 2 of 4  100 of 400 jobs  day 1.5  3.0 M events/s  3 s left") {
		t.Error(got)
	}
}
