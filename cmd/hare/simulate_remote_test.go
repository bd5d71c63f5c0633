package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
)

// TestSimulateOnAServer checks that all files are equal with a server and without
// one, for traces from files and shipped traces, for both engines, and with
// repeats.
func TestSimulateOnAServer(t *testing.T) {
	const cost = "gavel:max_sum_throughput_normalized_by_cost_perf"
	engine, stop := startPrograms(t.Context(), []string{cost}) // as in this process, because figures name the engine
	defer stop()
	srv := httptest.NewServer(servetest.New(t, service.New(service.Config{Solver: engine}), api.Config{}))
	defer srv.Close()
	trace := file(t, "trace.csv", `job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight
0,0,ResNet-18 (batch size 64),20000,1,1
1,100,LM (batch size 20),10000,1,2
2,500,ResNet-50 (batch size 32),8000,2,1
`)
	faults := file(t, "faults.csv", "gpu,from_s,until_s\nv100/0,100,900\n")
	for _, args := range [][]string{
		{"--policy", "gavel:fifo_perf,hlas", "--trace", trace, "--gpus", "v100=2,k80=2", "--repeat", "2", "--seed", "3",
			"--faults", faults, "--jobs", "1-2", "--restart", "1s", "--label", "ticket=4711"},
		{"--policy", "srtf,kueue", "--generate", "12", "--sync", "gang", "--arrivals", "uniform:60", "--repeat", "2",
			"--quantum", "10s", "--switch", "500ms", "--mtbf", "2h"},
		{"--policy", "rolling", "--generate", "12", "--sync", "gang", "--arrivals", "uniform:60", "--plan-latency", "2s"},
		{"--policy", "pollux:tiresias", "--trace", "pollux_workload_6.csv", "--interval", "240s"},
		{"--policy", cost, "--trace", trace, "--gpus", "v100=2,k80=2", "--prices", "v100=2.48,k80=0.1,t4=0.35"},
		{"--policy", "gavel:isolated", "--trace", "small_test", "--gpus", "v100=8,p100=8,k80=8", "--cdf"},
	} {
		here, there := t.TempDir(), t.TempDir()
		args = append([]string{"simulate"}, args...)
		for _, more := range [][]string{{"-o", here}, {"-o", there, "--server", srv.URL}} {
			if _, errs, code := runHare(t, "", append(args, more...)...); code != exitDone || errs != "" {
				t.Fatalf("%s: %d %s", args, code, errs)
			}
		}
		names, err := os.ReadDir(here)
		if err != nil || len(names) < 5 {
			t.Fatal(err, names)
		}
		for _, n := range names {
			a, err1 := os.ReadFile(filepath.Join(here, n.Name()))
			b, err2 := os.ReadFile(filepath.Join(there, n.Name()))
			if err1 != nil || err2 != nil || string(a) != string(b) {
				t.Errorf("%s: %s differs: %v %v\n%.2000s\n%.2000s", args, n.Name(), err1, err2, a, b)
			}
		}
	}
	for _, c := range []struct{ more, want string }{
		{"--prices", "/prices"},
		{"--record", "--record keeps the runs"},
		{"--time-limit", "0 of 1 runs had ended"},
		{"--jobs", "/jobs"},
	} {
		args := []string{"simulate", "--policy", "gavel:max_min_fairness_perf", "--trace",
			"gavel_trace_continuous5600_single.csv", "--gpus", "v100=36,p100=36,k80=36", "--server", srv.URL}
		switch c.more {
		case "--record":
			args[2] = "hlas"
			args = append(args, "--record", t.TempDir())
		case "--prices":
			args[2] = cost
			args = append(args, "--prices", "v100=1")
		case "--time-limit":
			args = append(args, "--time-limit", "20ms")
		default:
			args = append(args, "--jobs", "5-5600")
		}
		if _, errs, code := runHare(t, "", args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", c.more, code, errs)
		}
	}
}
