package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	args := []string{"simulate", "--policy", "gavel:fifo,gavel:max_min_fairness_perf", "--trace",
		"gavel_trace_small_test.csv", "--gpus", "v100=8,p100=8,k80=8"}
	out, errs, code := runHare(t, "", append(args, "--json", "-o", dir)...)
	if code != exitDone || errs != "" {
		t.Fatal(code, errs)
	}
	var got struct {
		Runs []map[string]any `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Runs) != 2 {
		t.Fatal(err, out)
	}
	// These are the figures that Gavel's simulator prints.
	for i, want := range []map[string]float64{
		{"mean_jct_s": 165.210, "total_duration_s": 305.796, "utilization": 0.176},
		{"mean_jct_s": 92.983, "total_duration_s": 309.614, "utilization": 0.360},
	} {
		for name, v := range want {
			if x, _ := got.Runs[i][name].(float64); math.Abs(x/v-1) > 0.02 {
				t.Errorf("%v: %s is %v, Gavel's %v", got.Runs[i]["policy"], name, x, v)
			}
		}
	}
	jobs, err := os.ReadFile(filepath.Join(dir, "jobs.csv"))
	if err != nil || strings.Count(string(jobs), "\n") != 41 || strings.Count(string(jobs), ",ended\n") != 40 {
		t.Errorf("%v\n%s", err, jobs)
	}
	if summary, err := os.ReadFile(filepath.Join(dir, "summary.json")); err != nil ||
		withoutClock(string(summary)) != withoutClock(out) || strings.Contains(string(summary), "wall_s") {
		t.Errorf("%v\n%s", err, summary)
	}
	// A second run gives the same figures, except for the clock; so does the table.
	again, _, _ := runHare(t, "", append(args, "--json")...)
	if jobsAgain := withoutClock(again); jobsAgain != withoutClock(out) {
		t.Error("two runs differ")
	}
	table, _, code := runHare(t, "", args...)
	if code != exitDone || !strings.Contains(table, "mean JCT s") || !strings.Contains(table, "165.210") {
		t.Errorf("%d\n%s", code, table)
	}
	// The cluster comes from a file, and only the last three jobs count.
	cluster := file(t, "cluster.json", `{"nodes": [{"name": "a", "count": 1, "gpus": {"V100": 8, "K80": 8}}, {"name": `+
		`"b", "gpus": {"P100": 8}}]}`)
	out, errs, code = runHare(t, "", "simulate", "--policy", "gavel:fifo", "--trace", "small_test", "--cluster", cluster,
		"--jobs", "17-19", "--json")
	if code != exitDone || !strings.Contains(out, `"jobs": 3,`) {
		t.Error(code, errs, out)
	}
}

// withoutClock removes the lines with wall-clock times.
func withoutClock(text string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.Contains(line, `"wall_s"`) && !strings.Contains(line, `"simulated_jobs_per_s"`) {
			kept = append(kept, line)
		}
	}
	return strings.ReplaceAll(strings.Join(kept, "\n"), ",\n    }", "\n    }") // these lines are the last ones of a run
}

// manyLabels returns n flags --label.
func manyLabels(n int) []string {
	var flags []string
	for i := range n {
		flags = append(flags, "--label", strconv.Itoa(i)+"=x")
	}
	return flags
}

// TestSimulateLabels checks that the report repeats labels with any characters.
func TestSimulateLabels(t *testing.T) {
	args := []string{"simulate", "--policy", "gavel:fifo", "--trace", "small_test", "--gpus", "v100=8", "--json",
		"--label", "ticket=4711", "--label", `note=a=b, "é"`, "--label", "empty="}
	for _, more := range [][]string{nil, manyLabels(61)} {
		out, errs, code := runHare(t, "", append(args, more...)...)
		var got struct {
			Labels map[string]string `json:"labels"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone {
			t.Fatal(code, errs, err)
		}
		if len(got.Labels) != 3+len(more)/2 || got.Labels["ticket"] != "4711" || got.Labels["note"] != `a=b, "é"` {
			t.Errorf("labels %q", got.Labels)
		}
		if v, there := got.Labels["empty"]; v != "" || !there {
			t.Errorf("labels %q", got.Labels)
		}
	}
}

func TestSimulateBadInput(t *testing.T) {
	t.Parallel() // one command waits for a server
	trace := func(row string) string {
		return file(t, "jobs.csv", "job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n"+row+"\n")
	}
	gpus := []string{"--gpus", "v100=8"}
	const cost = "gavel:max_sum_throughput_normalized_by_cost_perf"
	for name, f := range map[string]struct {
		args []string
		want string
	}{
		"no policy": {gpus, "give policies"},
		"unknown policy": {append(gpus, "--policy", "gavel:fifo,gavel:fifo_pref"),
			`unknown policy "gavel:fifo_pref": did you mean "gavel:fifo_perf"?`},
		"no cluster":  {[]string{"--policy", "gavel:fifo"}, "give the cluster: --gpus"},
		"bad cluster": {[]string{"--policy", "gavel:fifo", "--gpus", "v100"}, "write TYPE=COUNT"},
		"no such trace": {append(gpus, "--policy", "gavel:fifo", "--trace", "absent.csv"),
			"there is no file absent.csv"},
		"job type": {append(gpus, "--policy", "gavel:fifo", "--trace", trace("1,0,GPT-9,1,1,1")),
			`jobs.csv:2:5: job_type: unknown model "GPT-9"`},
		"one GPU": {append(gpus, "--policy", "gavel:allox", "--trace", "small_test"),
			`gavel:allox places jobs of one GPU, and job "0" of the trace needs 2`},
		"pairs": {append(gpus, "--policy", "gavel:gandiva", "--table", "gavel_throughputs.csv"),
			"needs the rates of jobs that share GPUs"},
		"window":        {append(gpus, "--policy", "gavel:fifo", "--jobs", "4000-4999"), "the trace has 96 jobs"},
		"window's form": {append(gpus, "--policy", "gavel:fifo", "--jobs", "7"), "write FIRST-LAST"},
		"restart":       {append(gpus, "--policy", "gavel:fifo", "--restart", "6m"), "less than --lease"},
		"entities": {append(gpus, "--policy", "gavel:hierarchical", "--trace", "small_test"),
			"needs an entity for every job, and 20 of 20 have none: give the trace a column entity"},
		"deadlines": {append(gpus, "--policy", cost+"_SLOs", "--trace", "small_test"), "give the trace a column slo"},
		"price": {append(gpus, "--policy", cost, "--prices", "k80=0.1"),
			`GPU type "V100" has no price above 0 for an hour; those with one are K80`},
		"price's form":  {append(gpus, "--policy", cost, "--prices", "v100"), `--prices: "v100": write TYPE=PRICE`},
		"no price":      {append(gpus, "--policy", cost, "--prices", "v100=0"), "a price above 0"},
		"price below 0": {append(gpus, "--policy", cost, "--prices", "v100=-1"), "a price above 0"},
		"no number":     {append(gpus, "--policy", cost, "--prices", "v100=NaN"), "a price above 0"},
		"endless price": {append(gpus, "--policy", cost, "--prices", "v100=Inf"), "a price above 0"},
		"decimals":      {append(gpus, "--policy", cost, "--prices", "v100=0.0000001"), "at most six decimals"},
		"interval": {append(gpus, "--policy", "gavel:fifo", "--interval", "500ms"),
			"--interval must be whole seconds"},
		"no interval": {append(gpus, "--policy", "gavel:fifo", "--interval", "0s"), "--interval must be whole seconds"},
		"long interval": {append(gpus, "--policy", "gavel:fifo", "--interval", "300000h"),
			"--interval: the interval of elastic jobs is"},
		"quantum": {append(gpus, "--policy", "hlas", "--quantum", "0"), "--quantum must be positive"},
		"two inputs": {append(gpus, "--policy", "hlas", "--trace", "-", "--faults", "-"),
			"only one argument can be standard input"},
		"several traces": {append(gpus, "--policy", "hlas", "--trace", "gavel_trace"),
			`"gavel_trace" names several shipped files`},
		"time limit": {append(gpus, "--policy", "hlas", "--time-limit", "1s"), "--time-limit is for --server"},
		"nobody there": {append(gpus, "--policy", "hlas", "--server", "http://127.0.0.1:1"),
			"is hare serve running there?"},
		"none drawn": {append(gpus, "--policy", "hlas", "--generate", "0"), "draw at least one job"},
		"no folder": {append(gpus, "--policy", "hlas", "-o", filepath.Join(file(t, "plain", ""), "deep", "er")),
			"plain is a file, not a folder"},
		"no record": {append(gpus, "--policy", "hlas", "--record", file(t, "plain", "")), "it is a file: name a folder"},
		"fault's time": {append(gpus, "--policy", "hlas", "--faults",
			file(t, "f.csv", "gpu,from_s,until_s\nv100/0,1,NaN\n")), `f.csv:2:10: until_s: "NaN" is not a decimal number`},
		"failures":       {append(gpus, "--policy", "hlas", "--failures", "NaN"), "--failures: NaN must be"},
		"failing always": {append(gpus, "--policy", "hlas", "--failures", "1e9"), "lower the rate of failures"},
		"elastic faults": {[]string{"--policy", "optimus", "--trace", "pollux_workload_6.csv", "--mtbf", "1h"},
			"hare: policy optimus changes the widths of jobs, and with that faults by chance are not simulated"},
		"label's form": {append(gpus, "--policy", "hlas", "--label", "ticket"), `--label: "ticket": write KEY=VALUE`},
		"label's key":  {append(gpus, "--policy", "hlas", "--label", "=4711"), `--label: "=4711": write KEY=VALUE`},
		"empty label":  {append(gpus, "--policy", "hlas", "--label", ""), "--label must not have empty parts"},
		"two labels": {append(gpus, "--policy", "hlas", "--label", "a=1", "--label", "a=2"),
			`--label: "a" has two values`},
		"label's length": {append(gpus, "--policy", "hlas", "--label", "a="+strings.Repeat("é", 201)),
			"at most 200 characters"},
		"label's bytes": {append(gpus, "--policy", "hlas", "--label", "a=\xff"), "--label is not valid UTF-8"},
		"labels":        {append(append(gpus, "--policy", "hlas"), manyLabels(65)...), "there are 65 labels: at most 64"},
		"two prices":    {append(gpus, "--policy", cost, "--prices", "v100=1,V100=2"), `"V100" has two prices`},
	} {
		out, errs, code := runHare(t, "", append([]string{"simulate"}, f.args...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, f.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s%s", name, code, out, errs)
		}
	}
}
