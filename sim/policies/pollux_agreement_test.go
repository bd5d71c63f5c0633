package policies_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim/elastic"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

var polluxDir = flag.String("pollux", "",
	"folder simulator of petuum/adaptdl, branch osdi21-artifact: compare all of its 64 runs")

// elasticJobs reads a workload with the shipped tables.
func elasticJobs(t testing.TB, name, workload string) []elastic.Job {
	t.Helper()
	tables, err := trace.ShippedElasticTables()
	if err != nil {
		t.Fatal(err)
	}
	read, err := trace.ReadElastic(trace.Source{Name: name, R: strings.NewReader(workload)}, tables)
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]elastic.Job, len(read.Jobs))
	for i, j := range read.Jobs {
		a := j.Training
		jobs[i] = elastic.Job{
			ID: j.ID, Kind: a.Application, ArrivalS: j.ArrivalS, Weight: 1, GPUs: j.GPUs, MaxGPUs: j.MaxGPUs,
			Batch: j.Batch, FixedBatch: j.FixedBatch, Epochs: a.Epochs, Training: a,
			Limits: elastic.BatchLimits{Init: a.InitBatch, Max: a.MaxBatch, MinLocal: a.MinLocal, MaxLocal: a.MaxLocal},
		}
	}
	return jobs
}

// playPollux simulates 16 nodes of 4 GPUs in Pollux's setting.
func playPollux(t testing.TB, name string, jobs []elastic.Job) *elastic.Outcome {
	t.Helper()
	return playElastic(t, "pollux:"+name, slices.Repeat([]int{4}, 16), jobs, elastic.RunConfig{})
}

func playElastic(t testing.TB, name string, nodes []int, jobs []elastic.Job,
	cfg elastic.RunConfig) *elastic.Outcome {
	t.Helper()
	info, err := registry.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	o, err := elastic.Run(context.Background(), name, elastic.Cluster{GPUType: "T4", Nodes: nodes}, jobs,
		info.New(leases.Config{}).(elastic.Policy), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// agree compares every job's completion time, to the second.
func agree(t *testing.T, what string, o *elastic.Outcome, want map[string]float64) {
	t.Helper()
	sum, differ := 0.0, 0
	for _, j := range o.Jobs {
		v, ok := want[j.ID]
		if !ok {
			t.Errorf("%s: no reference for job %s", what, j.ID)
		}
		if sum += v; j.EndS-j.ArrivalS != v {
			if differ++; differ == 1 {
				t.Errorf("%s: job %s took %v s, Pollux's simulator says %v", what, j.ID, j.EndS-j.ArrivalS, v)
			}
		}
	}
	mean := sum / float64(len(o.Jobs))
	t.Logf("%s: mean JCT %.5f s, Pollux %.5f; %d of %d jobs differ", what, o.MeanJCTS, mean, differ, len(o.Jobs))
	if d := o.MeanJCTS/mean - 1; d < -.01 || d > .01 {
		t.Errorf("%s: mean JCT is %+.2f %% off, the limit is 1 %%", what, 100*d)
	}
}

// TestPolluxAgreement compares both policies with the results of Pollux's simulator for each
// job of its eight workloads (results-jobload of the artifact). The published mean JCTs of
// workload 6 are 3469.69375 and 5301.875 s.
func TestPolluxAgreement(t *testing.T) {
	f, err := os.Open("testdata/pollux_reference.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	const header = "name,time,application,num_replicas,batch_size\n"
	text := map[string]*strings.Builder{}
	want := map[string]map[string]float64{} // the completion times by policy and workload
	for _, r := range rows[1:] {
		if text[r[0]] == nil {
			text[r[0]] = &strings.Builder{}
			text[r[0]].WriteString(header)
			want["tiresias"+r[0]], want["optimus"+r[0]] = map[string]float64{}, map[string]float64{}
		}
		fmt.Fprintln(text[r[0]], strings.Join(r[1:6], ","))
		for i, name := range []string{"tiresias", "optimus"} {
			if want[name+r[0]][r[1]], err = strconv.ParseFloat(r[6+i], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := 1; n <= 8; n++ {
		if testing.Short() && n != 6 {
			continue
		}
		jobs := elasticJobs(t, "workload "+strconv.Itoa(n), text[strconv.Itoa(n)].String())
		for _, name := range []string{"tiresias", "optimus"} {
			what := fmt.Sprintf("%s on workload %d", name, n)
			o := playPollux(t, name, jobs)
			agree(t, what, o, want[name+strconv.Itoa(n)])
			if published := map[string]float64{"tiresias": 3469.69375, "optimus": 5301.875}[name]; n == 6 &&
				o.MeanJCTS != published {
				t.Errorf("%s: mean JCT %v s, published %v", what, o.MeanJCTS, published)
			}
		}
	}
}

// Other settings on the shipped workload 6 are compared with Pollux's simulator, which was run
// as simulator.py --policy NAME --interval N --interference X --min-nodes N --num-gpus N
// workloads/workload-6.csv. The figures are the mean JCT and the last time that it printed.
func TestPolluxSettings(t *testing.T) {
	text, err := os.ReadFile("../../trace/data/pollux_workload_6.csv")
	if err != nil {
		t.Fatal(err)
	}
	jobs := elasticJobs(t, "pollux_workload_6.csv", string(text))
	for _, c := range []struct {
		name          string
		nodes, gpus   int
		cfg           elastic.RunConfig
		meanS, totalS float64
	}{
		{"tiresias", 16, 4, elastic.RunConfig{}, 3469.69375, 78660},
		{"tiresias", 16, 4, elastic.RunConfig{IntervalS: 30}, 3416.5, 78570},
		{"tiresias", 16, 4, elastic.RunConfig{IntervalS: 240}, 3729.39375, 80160},
		{"tiresias", 16, 4, elastic.RunConfig{Interference: .25}, 3890.075, 80880},
		{"tiresias", 16, 4, elastic.RunConfig{Interference: .5}, 4555.03125, 85800},
		{"tiresias", 12, 4, elastic.RunConfig{}, 5693.90625, 110280},
		{"optimus", 16, 4, elastic.RunConfig{}, 5301.875, 66300},
		{"optimus", 16, 4, elastic.RunConfig{IntervalS: 30}, 5329.91875, 66420},
		{"optimus", 16, 4, elastic.RunConfig{IntervalS: 240}, 5203.48125, 64080},
		{"optimus", 16, 4, elastic.RunConfig{Interference: .25}, 5928.63125, 79560},
		{"optimus", 16, 4, elastic.RunConfig{Interference: .5}, 7586.29375, 107640},
		{"optimus", 12, 4, elastic.RunConfig{}, 6806.475, 80820},
		{"optimus", 20, 3, elastic.RunConfig{}, 5876.46875, 69600},
	} {
		o := playElastic(t, "pollux:"+c.name, slices.Repeat([]int{c.gpus}, c.nodes), jobs, c.cfg)
		t.Logf("%s, %d nodes, %+v: mean JCT %.5f s, Pollux %.5f; end %v, %v", c.name, c.nodes, c.cfg, o.MeanJCTS,
			c.meanS,
			o.TotalS, c.totalS)
		if o.MeanJCTS != c.meanS || o.TotalS != c.totalS {
			t.Errorf("%s, %d nodes, %+v: mean JCT %v s, Pollux %v; end %v, %v", c.name, c.nodes, c.cfg, o.MeanJCTS,
				c.meanS,
				o.TotalS, c.totalS)
		}
	}
}

// Under Optimus as the paper describes it, all jobs end. There is no figure to compare with.
func TestOptimusRuns(t *testing.T) {
	text, err := os.ReadFile("../../trace/data/pollux_workload_6.csv")
	if err != nil {
		t.Fatal(err)
	}
	o := playElastic(t, "optimus", slices.Repeat([]int{4}, 16), elasticJobs(t, "w", string(text)), elastic.RunConfig{})
	for _, j := range o.Jobs {
		if j.EndS < 0 {
			t.Errorf("job %s did not end", j.ID)
		}
	}
	t.Logf("mean JCT %.5f s, %d starts", o.MeanJCTS, o.Starts)
}

// TestPolluxArtifact compares the policies with the artifact's results for 8 workloads at 4
// loads.
func TestPolluxArtifact(t *testing.T) {
	if *polluxDir == "" {
		t.Skip("needs -pollux")
	}
	for _, load := range []string{"0.5", "1.0", "1.5", "2.0"} {
		for _, name := range []string{"tiresias", "optimus"} {
			text, err := os.ReadFile(filepath.Join(*polluxDir, "results-jobload", name+"-"+load, "summary.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				JCTs map[string]map[string]float64 `json:"jcts"`
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= 8; n++ {
				workload := fmt.Sprintf("workload-%d", n)
				text, err := os.ReadFile(filepath.Join(*polluxDir, "workloads"+strings.TrimPrefix("-"+load, "-1.0"),
					workload+".csv"))
				if err != nil {
					t.Fatal(err)
				}
				agree(t, fmt.Sprintf("%s at load %s on %s", name, load, workload),
					playPollux(t, name, elasticJobs(t, workload,
						string(text))), want.JCTs[workload])
			}
		}
	}
}

// BenchmarkPollux simulates workload 6, which takes Pollux's simulator 4.86 s
// with Tiresias and 17.03 s with Optimus on two cores.
func BenchmarkPollux(b *testing.B) {
	text, err := os.ReadFile("../../trace/data/pollux_workload_6.csv")
	if err != nil {
		b.Fatal(err)
	}
	jobs := elasticJobs(b, "w", string(text))
	for _, c := range []struct {
		name    string
		polluxS float64
	}{{"tiresias", 4.86}, {"optimus", 17.03}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				playPollux(b, c.name, jobs)
			}
			perRun := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(len(jobs))/perRun, "jobs/s")
			b.ReportMetric(c.polluxS/perRun, "x-Pollux")
		})
	}
}
