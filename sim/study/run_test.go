package study_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/verify"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

var eights = []hare.TypeCount{{Type: "V100", Count: 8}, {Type: "P100", Count: 8}, {Type: "K80", Count: 8}}

func smallTest(policies ...string) *simulatedoc.Request {
	return &simulatedoc.Request{Policies: policies, Trace: &simulatedoc.Trace{Name: "small_test"}, GPUs: eights}
}

func simulate(t *testing.T, req *simulatedoc.Request, cfg study.Config) *study.Report {
	t.Helper()
	rep, err := study.Simulate(t.Context(), req, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func text(t *testing.T, rep *study.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := rep.JSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// One trace runs in both engines. The figures of leases are those of Gavel's own simulator. The runs
// of tasks pass the verifier and do about the same work.
func TestSimulateBothEngines(t *testing.T) {
	req := smallTest("gavel:fifo", "hlas", "tiresias")
	req.CDF = true
	rep := simulate(t, req, study.Config{Record: true})
	if len(rep.Runs) != 3 || rep.Means != nil {
		t.Fatalf("%+v", rep)
	}
	if got := rep.Runs[0].MeanJCTS; math.Abs(got-165.210) > 0.001 {
		t.Errorf("gavel:fifo: mean JCT %v", got)
	}
	for _, r := range rep.Runs {
		tasks := r.Engine == "task"
		switch {
		case r.Jobs != 20, len(r.Figures) != 20, len(r.CDF.JCTS) != 20, r.CDF.Share[19] != 1,
			r.CDF.JCTS[9] != r.P50JCTS:
			t.Errorf("%+v", r)
		case r.MeanSlowdown < 1 || r.Jain <= 0 || r.Jain > 1 || r.MeanRho <= 0 || r.WorstRho < r.MeanRho ||
			r.P99Slowdown < r.MeanSlowdown:
			t.Errorf("%+v", r)
		case r.Utilization <= 0 || r.Utilization > 1 || len(r.UtilizationByType) != 3 || r.MakespanS > r.TotalS ||
			r.MakespanS < r.P99JCTS:
			t.Errorf("%+v", r)
		case math.Abs(r.WeightedJCTS-20*r.MeanJCTS) > 1e-6: // all weights are 1
			t.Errorf("%s: Σ is %v, the mean %v", r.Policy, r.WeightedJCTS, r.MeanJCTS)
		case r.Verified != tasks, (r.Result != nil) != tasks, (r.Events > 0) != tasks, (r.Leases > 0) == tasks,
			r.WallS != nil:
			t.Errorf("%+v", r)
		}
		if tasks {
			if chk := verify.Check(rep.Instance, r.Result); !chk.OK {
				t.Error(chk)
			}
			if got := r.Result.Value.Float(); got != r.WeightedJCTS {
				t.Errorf("%s: %v in the result, %v in the figures", r.Policy, got, r.WeightedJCTS)
			}
		}
	}
}

// The same request gives the same bytes for any number of concurrent runs, with and
// without progress reports.
func TestSimulateIsDeterministic(t *testing.T) {
	req := smallTest("gavel:fifo", "gavel:gandiva", "hlas", "gavel:max_min_fairness_perf")
	req.Repeat, req.Seed, req.CDF = 3, 7, true
	want := text(t, simulate(t, req, study.Config{}))
	for _, parallel := range []int{1, 4, 99} {
		var last simulatedoc.Progress
		calls := 0
		got := text(t, simulate(t, req, study.Config{Parallel: parallel, Progress: func(p simulatedoc.Progress) {
			if p.JobsDone < last.JobsDone || p.Events < last.Events || p.RunsDone < last.RunsDone {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
			calls++
		}}))
		if got != want {
			t.Errorf("%d at a time: another report", parallel)
		}
		if last.RunsDone != 12 || last.Runs != 12 || last.Jobs != 240 || last.JobsDone != 240 || calls < 12 {
			t.Errorf("%d calls, the last %+v", calls, last)
		}
	}
	if strings.Contains(want, "wall_s") || strings.Contains(want, "per_s") {
		t.Error("figures of the clock")
	}
	timed := simulate(t, smallTest("hlas"), study.Config{Timed: true})
	if r := timed.Runs[0]; r.WallS == nil || *r.WallS <= 0 || r.JobsPerS == nil {
		t.Errorf("%+v", r)
	}
	var form struct {
		Runs  []map[string]any
		Means []struct {
			Figures map[string]struct{ Mean, Half *float64 }
		}
	}
	if err := json.Unmarshal([]byte(want), &form); err != nil {
		t.Fatal(err)
	}
	// The policy that draws random numbers differs from repeat to repeat, and HLAS does not.
	if form.Runs[0]["mean_jct_s"] == form.Runs[1]["mean_jct_s"] ||
		form.Runs[6]["mean_jct_s"] != form.Runs[7]["mean_jct_s"] {
		t.Error("draws")
	}
	for name := range form.Means[0].Figures {
		if _, ok := form.Runs[0][name]; !ok {
			t.Errorf("runs have no %s", name)
		}
	}
	if *form.Means[2].Figures["mean_jct_s"].Half != 0 || *form.Means[0].Figures["mean_jct_s"].Half <= 0 {
		t.Errorf("%+v", form.Means)
	}
}

// The confidence interval of repeats is computed by hand from a printed quantile of Student's
// distribution.
func TestIntervalByHand(t *testing.T) {
	// The values 1, 2, 3 and 4 have mean 2.5 and s = √(5/3). With t(3) = 3.182446, half of the
	// interval is 3.182446·√(5/3)/2.
	req := &simulatedoc.Request{Policies: []string{"fifo"},
		Generate: &simulatedoc.Generate{Jobs: 5}, GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}, Repeat: 4}
	rep := simulate(t, req, study.Config{})
	var mean, squares float64
	for _, r := range rep.Runs {
		mean += r.MeanJCTS / 4
	}
	for _, r := range rep.Runs {
		squares += (r.MeanJCTS - mean) * (r.MeanJCTS - mean)
	}
	got := rep.Means[0].Figures["mean_jct_s"]
	if want := 3.182446 * math.Sqrt(squares/3/4); math.Abs(got.Mean/mean-1) > 1e-12 ||
		math.Abs(*got.Half/want-1) > 1e-6 || squares == 0 {
		t.Errorf("%+v, want %v ± %v", got, mean, want)
	}
	// Repeat 2 is the instance of seed 2.
	other := simulate(t, &simulatedoc.Request{Policies: []string{"fifo"}, Generate: req.Generate,
		GPUs: req.GPUs, Seed: 2}, study.Config{})
	if other.Runs[0].MeanJCTS != rep.Runs[2].MeanJCTS || rep.Instance != nil {
		t.Error("seeds")
	}
}

func gangs(sync hare.Sync) *hare.Instance {
	on := []hare.Profile{{Type: "K80", ComputeUs: 18e6, SyncUs: 2e6}, {Type: "V100", ComputeUs: 9e6, SyncUs: 1e6}}
	return &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
			GPUs: []hare.TypeCount{{Type: "K80", Count: 2}, {Type: "V100", Count: 2}}}}}, Jobs: []hare.Job{
			{ID: "x", WeightMicro: 2e6, Rounds: 60, Tasks: 2, Sync: sync, On: on},
			{ID: "y", WeightMicro: 1e6, Rounds: 36, Tasks: 2, Sync: sync, On: on},
		}}
}

// The run of an instance under leases is computed by hand. Job x on both V100s does 36 rounds in a
// lease (⌊0.2·360⌋ = 72 steps) and takes 600 s. Job y on both K80s does 0.1 steps a second and takes
// 720 s. The round of leases in which x ends lasts until y ends.
func TestSimulateAnInstanceOnLeases(t *testing.T) {
	req := &simulatedoc.Request{Policies: []string{"gavel:fifo_perf", "kueue"}, Instance: gangs(hare.Gang)}
	rep := simulate(t, req, study.Config{})
	lease := rep.Runs[0]
	if lease.MeanJCTS != (600+720)/2 || lease.WeightedJCTS != 2*600+720 || lease.TotalS != 720 ||
		lease.MakespanS != 720 || lease.Leases != 4 || lease.Switches != 0 || rep.Notes != nil {
		t.Errorf("%+v %q", lease, rep.Notes)
	}
	// The slowdowns are 1 and 2. Rho is 600 / max(600, 2·1200/4) for x and
	// 720 / max(360, (600·2+120)/720·720/4) for y.
	if lease.MeanSlowdown != 1.5 || lease.MeanRho != (1+720.0/360)/2 || lease.P99WaitS != 0 {
		t.Errorf("%+v", lease)
	}
	// With restarts of 30 s, y does 33 steps in a lease, and does its last 6 steps on the V100s when x
	// has ended. The jobs start three times on two GPUs.
	req.RestartUs = us(30e6)
	if r := simulate(t, req, study.Config{}).Runs[0]; r.SwitchS != 3*2*30 || r.Switches != 2 || r.Preemptions != 1 {
		t.Errorf("%v GPU-seconds of restarts", r.SwitchS)
	}
	req.RestartUs = nil
	for sync, want := range map[hare.Sync]string{hare.Relaxed: "2 relaxed jobs run as gangs",
		hare.Rigid: "2 rigid jobs may stop"} {
		req.Instance = gangs(sync)
		if rep := simulate(t, req, study.Config{}); len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], want) {
			t.Errorf("%v: %q", sync, rep.Notes)
		}
	}
	// A round takes 100 s on three GPUs. A lease has three rounds, so the first lease does nine of the
	// twelve steps, and the second lease the last round. No lease is left with fewer steps than GPUs.
	wide := gangs(hare.Gang)
	wide.Cluster.Nodes[0].GPUs[1].Count = 3
	wide.Jobs = []hare.Job{{ID: "z", WeightMicro: 1e6, Rounds: 4, Tasks: 3, Sync: hare.Gang,
		On: []hare.Profile{{Type: "V100", ComputeUs: 100e6}}}}
	req.Instance = wide
	if r := simulate(t, req, study.Config{}).Runs[0]; r.MeanJCTS != 400 || r.Leases != 2 || r.Dropped+
		r.LostTasks != 0 {
		t.Errorf("%+v", r)
	}
	// A round takes longer on a K80 than a lease.
	req.Instance, req.LeaseUs = gangs(hare.Gang), us(15e6)
	if rep := simulate(t, req, study.Config{}); len(rep.Notes) != 1 ||
		!strings.Contains(rep.Notes[0], "2 times a job "+
			"does not use a type") || rep.Runs[0].UtilizationByType["K80"] != 0 {
		t.Errorf("%q %+v", rep.Notes, rep.Runs[0])
	}
}

// Traces of every shipped format run under policies of both engines.
func TestSimulateEveryFormat(t *testing.T) {
	for name, f := range map[string]struct {
		text string
		gpus []hare.TypeCount
	}{
		"philly.csv": {"arrival_s,duration_s,num_gpus,vc\n0,300,1,a\n10,600,2,b\n",
			[]hare.TypeCount{{Type: "GPU", Count: 2}}},
		"openb.csv": {"pod,arrival_s,num_gpu,gpu_milli,gpu_spec,run_s\na,0,1,1000,,120\nb,5,1,1000,T4,600\n",
			[]hare.TypeCount{{Type: "T4", Count: 1}}},
		"pollux.csv": {"name,time,application,num_replicas,batch_size\na,0,cifar10,1,128\nb,5,cifar10,2,256\n",
			[]hare.TypeCount{{Type: "T4", Count: 2}}},
		"gavel.csv": {
			"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n0,0,A3C,1000,1,1\n1,4,A3C,2000,1,2\n", eights},
		"shocked.csv": {
			"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight,batch_mode\n" +
				"0,0,A3C,1000,1,1,gns\n1,4,A3C,2000,1,2,gns\n", eights},
	} {
		req := &simulatedoc.Request{Policies: []string{"gavel:fifo_perf", "fifo"},
			Trace: &simulatedoc.Trace{Name: name, Text: []byte(f.text)}, GPUs: f.gpus}
		rep := simulate(t, req, study.Config{})
		for _, r := range rep.Runs {
			if r.Jobs != 2 || r.Dropped != 0 || r.MeanJCTS <= 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		// The engines differ by rounds of merged steps, not by orders of magnitude.
		if a, b := rep.Runs[0].MeanJCTS, rep.Runs[1].MeanJCTS; a > 1.5*b || b > 1.5*a {
			t.Errorf("%s: %v and %v", name, a, b)
		}
	}
}

// A window of jobs counts the same jobs in both engines, and the run ends with the last
// of them.
func TestSimulateWindow(t *testing.T) {
	req := smallTest("gavel:fifo_perf", "fifo")
	all := simulate(t, req, study.Config{})
	req.First, req.Last = 2, 5
	for i, r := range simulate(t, req, study.Config{}).Runs {
		sum, last := 0.0, 0.0
		for _, f := range all.Runs[i].Figures[2:6] {
			sum, last = sum+f.JCTS, max(last, f.EndS)
		}
		if r.Jobs != 4 || math.Abs(r.MeanJCTS-sum/4) > 1e-9 || r.MakespanS != last || r.TotalS >= all.Runs[i].TotalS ||
			r.Utilization <= 0 || r.Utilization > 1 {
			t.Errorf("%s: %+v, want mean %v and last %v", r.Policy, r, sum/4, last)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	small := func(change func(*simulatedoc.Request)) *simulatedoc.Request {
		r := smallTest("gavel:fifo")
		change(r)
		return r
	}
	busy := gangs(hare.Gang)
	busy.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 0, EndUs: 1e6}}
	wide := gangs(hare.Gang)
	wide.Jobs[1].Tasks = 3
	for name, c := range map[string]struct {
		req              *simulatedoc.Request
		pointer, message string
	}{
		"no policies": {small(func(r *simulatedoc.Request) { r.Policies = nil }), "/policies", "name 1 to 64"},
		"unknown":     {smallTest("hlas", "tiresas"), "/policies/1", `did you mean "tiresias"?`},
		"twice":       {smallTest("hlas", "hlas"), "/policies/1", "twice"},
		"no jobs": {small(func(r *simulatedoc.Request) { r.Trace = nil }), "",
			"one of trace, instance and generate"},
		"two sources": {small(func(r *simulatedoc.Request) { r.Instance = gangs(hare.Gang) }), "", "here are 2"},
		"no such trace": {small(func(r *simulatedoc.Request) { r.Trace.Name = "absent" }), "/trace/name",
			"no shipped file"},
		"format": {small(func(r *simulatedoc.Request) { r.Trace.Format = "phily" }), "/trace/format",
			`did you mean "philly"?`},
		"columns": {small(func(r *simulatedoc.Request) { r.Trace.Text = []byte("a,b\n1,2\n") }), "/trace/text",
			"the columns tell no format"},
		"window": {small(func(r *simulatedoc.Request) { r.First, r.Last = 18, 20 }), "/jobs", "the trace has 20 jobs"},
		"lease": {small(func(r *simulatedoc.Request) { r.LeaseUs, r.RestartUs = us(5e6), us(5e6) }), "/restart_s",
			"less than a lease"},
		"reset":   {small(func(r *simulatedoc.Request) { r.ResetUs = us(-1) }), "/reset_s", "from 0"},
		"repeat":  {small(func(r *simulatedoc.Request) { r.Repeat = 1001 }), "/repeat", "1 to 1000"},
		"one GPU": {smallTest("gavel:allox"), "/policies/0", `job "0" of the trace needs 2`},
		"pairs": {&simulatedoc.Request{Policies: []string{"fifo", "gavel:gandiva"}, Instance: gangs(hare.Gang)},
			"/policies/1", "rates of jobs that share GPUs"},
		"windows": {&simulatedoc.Request{Policies: []string{"gavel:fifo"}, Instance: busy}, "/cluster/nodes/0",
			"always in service"},
		"wide": {&simulatedoc.Request{Policies: []string{"fifo"}, Instance: wide}, "", `job "y" needs 3 GPUs at once`},
		"long round": {&simulatedoc.Request{Policies: []string{"gavel:fifo"}, Instance: gangs(hare.Gang),
			LeaseUs: us(5e6)},
			"/lease_s",
			`a round of job "x"`},
		"other types": {&simulatedoc.Request{Policies: []string{"fifo"}, Instance: gangs(hare.Gang),
			GPUs: []hare.TypeCount{{Type: "A10", Count: 2}}}, "", `job "x" needs 2 GPUs at once among K80, V100`},
	} {
		rep, err := study.Simulate(t.Context(), c.req, study.Config{})
		var fault *hare.InvalidError
		if rep != nil || !errors.As(err, &fault) || fault.Pointer != c.pointer ||
			!strings.Contains(fault.Detail, c.message) || fault.Code == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that fails gives an error that names the policy, and no report.
func TestSimulateFailure(t *testing.T) {
	inst := gangs(hare.Gang)
	// All GPUs leave before the jobs can end.
	inst.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 0, EndUs: 50e6}}
	rep, err := study.Simulate(t.Context(), &simulatedoc.Request{Policies: []string{"hlas", "fifo"}, Instance: inst},
		study.Config{Parallel: 2})
	var fault *study.RunError
	if rep != nil || !errors.As(err, &fault) || fault.Policy != "hlas" || fault.Code != "stalled" ||
		!strings.Contains(err.Error(), `job "x" among them`) {
		t.Errorf("%v", err)
	}
}
