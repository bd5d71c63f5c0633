package trace

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// mustShipped reads a shipped file completely.
func mustShipped(t testing.TB, name string) Source {
	t.Helper()
	src, err := Shipped(name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// Every row of the derived table satisfies d = s/rate(s) and compute = min(1/rate(1),
// d).
func TestGavelTimes(t *testing.T) {
	tp, err := ReadThroughputs(mustShipped(t, "gavel_throughputs.csv"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/gavel_hare_times.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	clamped := 0
	for _, row := range rows[1:] {
		gpus, _ := strconv.ParseInt(row[1], 10, 64)
		compute, _ := strconv.ParseFloat(row[4], 64)
		raw, _ := strconv.ParseFloat(row[5], 64)
		sync, _ := strconv.ParseFloat(row[6], 64)
		s, noSync, ok := tp.step(row[0], gpus, gavelGPUs[row[2]], row[3] == "unconsolidated")
		if !ok {
			t.Errorf("%v: no step", row)
			continue
		}
		c, _ := s.compute.Float64()
		d, _ := s.d.Float64()
		// The table has six significant digits in each part.
		if near := 5.1e-6 * (math.Abs(compute) + math.Abs(raw)) * 1e6; math.Abs(c-compute*1e6) > near ||
			math.Abs(d-(compute+sync)*1e6) > near {
			t.Errorf("%v: compute %g d %g µs", row, c, d)
		}
		if noSync != (raw < 0) {
			t.Errorf("%v: noSync %v", row, noSync)
		}
		if noSync {
			clamped++
		}
	}
	if len(rows)-1 != 333 || clamped != 29 {
		t.Errorf("%d rows, %d clamped; want 333, 29", len(rows)-1, clamped)
	}
}

// The rows are computed by hand: 231,496 steps of 4/69.950518 s, of which 1,049 fit in a
// minute, and so on.
func TestGavelRows(t *testing.T) {
	const text = `job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight,slo
0,0.0,Transformer (batch size 128),346,2,1.0,
1,244.586073,ResNet-18 (batch size 128),925982,4,5.0,1.2
2,3,ResNet-50 (batch size 64),2931,1,0.000001,
`
	inst, rep, err := Gavel(Source{"t.csv", strings.NewReader(text)}, mustShipped(t, "gavel_throughputs.csv"),
		Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := []hare.Job{
		{ID: "0-transformer", WeightMicro: 1e6, Rounds: 1, Tasks: 2, Sync: hare.Gang, On: []hare.Profile{
			{Type: "K80", ComputeUs: 176245921, SyncUs: 32505720}, {Type: "P100", ComputeUs: 56286979,
				SyncUs: 11723798},
			{Type: "V100", ComputeUs: 31765822, SyncUs: 2596262}}},
		{ID: "1-resnet-18", WeightMicro: 5e6, ReleaseUs: 244586073, Rounds: 221, Tasks: 4, Sync: hare.Gang,
			On: []hare.Profile{
				{Type: "K80", ComputeUs: 580671232, SyncUs: 20328525}, {Type: "P100", ComputeUs: 89846259,
					SyncUs: 2677038},
				{Type: "V100", ComputeUs: 58294275, SyncUs: 1690985}}},
		{ID: "2-resnet-50", WeightMicro: 1, ReleaseUs: 3e6, Rounds: 12, Tasks: 1, Sync: hare.Gang, On: []hare.Profile{
			{Type: "K80", ComputeUs: 424859619}, {Type: "P100", ComputeUs: 100402028}, {Type: "V100",
				ComputeUs: 59843792}}},
	}
	if d := cmp.Diff(want, inst.Jobs); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
	// The last rounds add 221·1049 − 231,496 = 333 and 12·263 − 2,931 = 225 steps.
	if rep.Steps != 173+231496+2931 || rep.ExtraSteps != 333+225 || rep.RoundsRoundedUp != 2 ||
		rep.StepsRoundedUp != 1 ||
		rep.MaxOvercount != 225.0/2931 {
		t.Errorf("report %+v", rep)
	}
	if !strings.Contains(rep.String(), "7.7 % to one job at most (2 jobs)") {
		t.Errorf("report text:\n%s", rep)
	}
}

// The isolated times in the traces agree with the imported jobs, up to the steps that
// whole last rounds add.
func TestGavelIsolatedTimes(t *testing.T) {
	for _, name := range []string{"gavel_trace_small_test", "gavel_trace_artifact", "max_min_fairness", "generated500",
		"generated1000", "shockwave_trace_120", "shockwave_trace_220"} {
		src := mustShipped(t, name)
		rows, err := csv.NewReader(mustShipped(t, name).R).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		// With a quantum of a microsecond, each round is one step: nothing is merged.
		inst, rep, err := gavelLike("gavel", "V100=36,P100=36,K80=36", src, mustShipped(t, "gavel_throughputs.csv"),
			&Config{Quantum: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		if len(inst.Jobs) != len(rows)-1 || rep.ExtraSteps != 0 || len(rep.Skipped) > 0 {
			t.Fatalf("%s: %d jobs of %d rows; %v", name, len(inst.Jobs), len(rows)-1, rep)
		}
		for i, job := range inst.Jobs {
			for _, p := range job.On {
				column := map[string]int{"K80": 7, "P100": 8, "V100": 9}[p.Type]
				isolated, _ := strconv.ParseFloat(rows[i+1][column], 64)
				got := float64(job.Rounds) * float64(p.DurationUs()) / 1e6
				// isolated_s is total_steps / rate, printed to a tenth of a second;
				// the last step may have fewer workers' shares than GPUs.
				tolerance := 0.06 + float64(job.Rounds)*0.5e-6 + float64(p.DurationUs())/1e6
				if math.Abs(got-isolated) > tolerance {
					t.Errorf("%s line %d %s: %.2f s alone, trace says %.2f", name, i+2, p.Type, got, isolated)
				}
			}
		}
	}
}

func TestContinuousTrace(t *testing.T) {
	start := time.Now()
	inst, rep, err := Import("gavel", ImportConfig{Trace: Source{Name: "continuous5600"}})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if len(inst.Jobs) != 5600 || rep.Steps != 7_179_063_732 || rep.Overcount() > 0.005 {
		t.Errorf("%d jobs, overcount %g: %s", len(inst.Jobs), rep.Overcount(), rep)
	}
	decodes(t, inst)
}

// decodes checks that an instance can be written and read.
func decodes(t *testing.T, inst *hare.Instance) {
	t.Helper()
	var b strings.Builder
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	again, err := wire.DecodeInstance(strings.NewReader(b.String()), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(inst, again); d != "" {
		t.Errorf("not the same after JSON: %s", d[:min(len(d), 2000)])
	}
}

func TestImportAll(t *testing.T) {
	tests := []struct {
		format, trace string
		cfg           Config
		jobs, gpus    int
		skipped       int
	}{
		{"gavel", "", Config{}, 96, 108, 0},
		{"gavel", "generated500", Config{Sync: "rigid", Releases: "zero", Weights: "one"}, 500, 108, 0},
		{"gavel", "generated500", Config{GPUs: []hare.TypeCount{{Type: "V100", Count: 3}}}, 421, 3, 79},
		{"gavel", "generated500", Config{Placement: "unconsolidated", Jobs: 7}, 7, 108, 0},
		{"shockwave", "", Config{}, 120, 36, 0},
		{"shockwave", "shockwave_trace_220", Config{}, 220, 36, 0},
		{"pollux", "", Config{}, 160, 64, 0},
		{"philly", "", Config{}, 11386, 2490, 0},
		{"philly", "", Config{Sync: "gang", Jobs: 100}, 100, 2490, 0},
		{"openb", "", Config{}, 3630, 6212, 3434},
		{"openb", "", Config{Shared: "whole"}, 6203, 6212, 861},
	}
	for _, tt := range tests {
		t.Run(tt.format+"/"+tt.trace, func(t *testing.T) {
			inst, rep, err := Import(tt.format, ImportConfig{Config: tt.cfg, Trace: Source{Name: tt.trace}})
			if err != nil {
				t.Fatal(err)
			}
			gpus, skipped := 0, 0
			for _, n := range inst.Cluster.Nodes {
				for _, g := range n.GPUs {
					gpus += g.Count
				}
			}
			for _, s := range rep.Skipped {
				skipped += s.Rows
			}
			if len(inst.Jobs) != tt.jobs || gpus != tt.gpus || skipped != tt.skipped {
				t.Errorf("%d jobs, %d GPUs, %d skipped; want %d, %d, %d\n%s", len(inst.Jobs), gpus, skipped, tt.jobs,
					tt.gpus,
					tt.skipped, rep)
			}
			if rep.Measured == "" || len(rep.Assumed) == 0 {
				t.Error("the report does not tell measured from assumed")
			}
			for _, j := range inst.Jobs {
				if tt.cfg.Releases == "zero" && j.ReleaseUs != 0 || tt.cfg.Weights == "one" && j.WeightMicro != 1e6 {
					t.Fatalf("release or weight kept: %+v", j)
				}
			}
			decodes(t, inst)
		})
	}
}

// A job of a trace that has only durations lasts as long as the trace says: a rigid job
// exactly, and a gang job within half a microsecond for each round.
func TestDurations(t *testing.T) {
	const text = "arrival_s,duration_s,num_gpus\n115,108,1\n0,3600.5,8\n7,0,1\n"
	for _, sync := range []string{"rigid", "gang"} {
		inst, rep, err := Philly(Source{"p.csv", strings.NewReader(text)}, Config{Sync: sync})
		if err != nil {
			t.Fatal(err)
		}
		if len(inst.Jobs) != 2 || len(rep.Skipped) != 1 || rep.Skipped[0].First != "p.csv:4" {
			t.Fatalf("%d jobs, skipped %v", len(inst.Jobs), rep.Skipped)
		}
		for i, want := range []int64{108e6, 3600.5e6} {
			j := inst.Jobs[i]
			if got := j.Rounds * j.On[0].DurationUs(); got < want-j.Rounds/2-1 || got > want+j.Rounds/2+1 {
				t.Errorf("%s: %d µs, want %d", sync, got, want)
			}
			if sync == "rigid" && j.Rounds != 1 {
				t.Errorf("rigid job of %d rounds", j.Rounds)
			}
		}
		if sync == "gang" && inst.Jobs[1].Rounds != 61 {
			t.Errorf("%d rounds, want 61", inst.Jobs[1].Rounds)
		}
	}
}

// The figures are computed by hand. cifar10 on 6 GPUs has batch 2048, which is 342 for each
// GPU. The nearest measured batch is 363, on two nodes. The job takes 0.3 GPU-hours.
func TestPolluxRow(t *testing.T) {
	steps := "application,source,num_nodes,num_replicas,placement,local_batch,step_time_s,sync_time_s\n" +
		"cifar10,placements,3,6,1-1-4,363,0.2,0.01\n" +
		"cifar10,placements,2,6,2-4,257,0.22,0.02\n" +
		"cifar10,placements,2,6,2-4,363,0.29,0.01\n" +
		"cifar10,placements,2,6,3-3,363,0.28,0.02\n"
	work := "name,time,application,num_replicas,batch_size\na,5,cifar10,6,2048\nb,6,cifar10,6,4356\n"
	inst, _, err := Pollux(Source{"w.csv", strings.NewReader(work)}, Source{"s.csv", strings.NewReader(steps)},
		Config{Quantum: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// Job a needs 180 s / 0.28 s = 642.86, so 643 steps. A round has 35 steps, so the job has 19
	// rounds of 9.1 + 0.7 s. Job b has 726 samples on each GPU, which are two passes of 363 with
	// 0.52 + 0.02 s. It needs 333 steps, with 18 in a round.
	want := []hare.Job{
		{ID: "a", WeightMicro: 1e6, ReleaseUs: 5e6, Rounds: 19, Tasks: 6, Sync: hare.Gang,
			On: []hare.Profile{{Type: "T4", ComputeUs: 9_100_000, SyncUs: 700_000}}},
		{ID: "b", WeightMicro: 1e6, ReleaseUs: 6e6, Rounds: 19, Tasks: 6, Sync: hare.Gang,
			On: []hare.Profile{{Type: "T4", ComputeUs: 9_360_000, SyncUs: 360_000}}},
	}
	if d := cmp.Diff(want, inst.Jobs); d != "" {
		t.Error(d)
	}
}

func TestFaults(t *testing.T) {
	const gavel = "job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n"
	const rates = "job_type,scale_factor,gpu_type,placement,steps_per_second\n"
	const pods = "pod,arrival_s,num_gpu,gpu_milli,gpu_spec,run_s\n"
	const pollux = "name,time,application,num_replicas,batch_size\n"
	const steps = "application,num_nodes,num_replicas,local_batch,step_time_s,sync_time_s\n"
	tests := []struct {
		name, format, trace, table string
		want                       string // a part of the message, with the place
	}{
		{"empty", "gavel", "", "", "t:1:1: empty"},
		{"no column", "gavel", "job_id\n", "", `t:1:1: no column "arrival_s"`},
		{"column twice", "gavel", "job_id,a,a\n", "", `t:1:10: column "a" is named twice`},
		{"no rows", "gavel", gavel, "", "t:1:1: no row"},
		{"unknown model", "gavel", gavel + "0,0,GPT-9,10,1,1\n", "", `t:2:5: job_type: unknown model "GPT-9"`},
		{"unmeasured scale", "gavel", gavel + "0,0,A3C,10,3,1\n", "",
			"t:2:12: scale_factor: A3C was not measured on 3 GPUs"},
		{"negative steps", "gavel", gavel + "0,0,A3C,10,1,1\n1,0,A3C,-10,1,1\n", "",
			`t:3:9: total_steps: "-10" is negative`},
		{"no steps", "gavel", gavel + "0,0,A3C,0,1,1\n", "", "t:2:9: total_steps: 0 is less than 1"},
		{"broken steps", "gavel", gavel + "0,0,A3C,1.5,1,1\n", "",
			"t:2:9: total_steps: \"1.5\" is not a whole number"},
		{"negative arrival", "gavel", gavel + "0,-1,A3C,10,1,1\n", "", `t:2:3: arrival_s: "-1" is negative`},
		{"NaN arrival", "gavel", gavel + "0,NaN,A3C,10,1,1\n", "", `t:2:3: arrival_s: "NaN" is not a number`},
		{"huge arrival", "gavel", gavel + "0,1e309,A3C,10,1,1\n", "", `t:2:3: arrival_s: "1e309" is not a number`},
		{"late arrival", "gavel", gavel + "0,99999999999999,A3C,10,1,1\n", "",
			`t:2:3: arrival_s: "99999999999999" is too large`},
		{"negative weight", "gavel", gavel + "0,0,A3C,10,1,-0.5\n", "", `t:2:14: priority_weight: "-0.5" is negative`},
		{"id twice", "gavel", gavel + "0,0,A3C,10,1,1\n0,0,LM (batch size 5),10,1,1\n", "",
			`t:3:1: job_id: "0" appears twice`},
		{"no id", "gavel", gavel + ",0,A3C,10,1,1\n", "", "t:2:1: job_id: empty"},
		{"missing field", "gavel", gavel + "0,0,A3C\n", "", "t:2:1: wrong number of fields"},
		{"bare quote", "gavel", gavel + "0,0,\"A\"3C,10,1,1\n", "", "t:2:7: extraneous or missing"},
		{"too long", "gavel", gavel + "0,0,A3C,9007199254740992,1,1\n", "", "t:2:5: job_type: the job takes longer"},
		{"unknown GPU", "gavel", "", rates + "A3C,1,v101,consolidated,1\n", `b:2:7: gpu_type: unknown GPU "v101"`},
		{"negative rate", "gavel", "", rates + "A3C,1,v100,consolidated,-1\n",
			`b:2:25: steps_per_second: "-1" is negative`},
		{"no such placement", "gavel", "", rates + "A3C,1,v100,cosy,1\n", `b:2:12: placement: "cosy" is neither`},
		{"rate twice", "gavel", "", rates + "A3C,1,v100,consolidated,1\nA3C,1,V100,consolidated,1\n",
			"b:3:1: job_type: A3C on 1 V100, consolidated, is given twice"},
		{"no rate", "gavel", gavel + "0,0,A3C,10,1,1\n",
			rates + "A3C,1,v100,consolidated,0\nA3C,1,k80,consolidated,\nA3C,1,p100,consolidated,\n",
			"t:2:5: job_type: no GPU type has a measurement"},
		{"shockwave too", "shockwave", gavel + "0,0,GPT-9,10,1,1\n", "", "t:2:5: job_type: unknown model"},
		{"negative duration", "philly", "arrival_s,duration_s,num_gpus\n0,-3,1\n", "",
			`t:2:3: duration_s: "-3" is negative`},
		{"no GPUs", "philly", "arrival_s,duration_s,num_gpus\n0,3,0\n", "", "t:2:5: num_gpus: 0 is less than 1"},
		{"unknown spec", "openb", pods + "p,0,1,1000,T4|Z9,5\n", "", `t:2:12: gpu_spec: unknown GPU "Z9"`},
		{"pod twice", "openb", pods + "p,0,1,1000,,5\np,0,1,1000,,5\n", "", `t:3:1: pod: "p" appears twice`},
		{"node twice", "openb", "", "node,gpu_type,gpus\nn,T4,1\nn,T4,1\n", `b:3:1: node: "n" appears twice`},
		{"node without GPUs", "openb", "", "node,gpu_type,gpus\nn,T4,0\n", "b:2:6: gpus: 0 is less than 1"},
		{"too many GPUs", "openb", "", "node,gpu_type,gpus\nn,T4,2000000000\n", "b:2:6: gpus: more than"},
		{"unknown application", "pollux", pollux + "a,0,gpt,1,1\n", "", `t:2:5: application: unknown model "gpt"`},
		{"unmeasured replicas", "pollux", pollux + "a,0,bert,63,100\n", "",
			"t:2:10: num_replicas: bert was not measured on 63 GPUs"},
		{"negative step", "pollux", "", steps + "bert,1,1,4,-0.4,0.01\n", `b:2:12: step_time_s: "-0.4" is negative`},
		{"all sync", "pollux", "", steps + "bert,1,1,4,0.4,0.4\n", "b:2:16: sync_time_s: leaves no compute time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ImportConfig{Trace: Source{"t", strings.NewReader(tt.trace)}}
			if tt.table != "" {
				cfg.Table = Source{"b", strings.NewReader(tt.table)}
			}
			inst, _, err := Import(tt.format, cfg)
			var row *RowError
			if err == nil || inst != nil || !errors.As(err, &row) {
				t.Fatalf("error is %v", err)
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error is %q, want %q", err, tt.want)
			}
		})
	}
}

func TestConfigFaults(t *testing.T) {
	tests := map[string]ImportConfig{
		"relaxed":    {Config: Config{Sync: "relaxed"}},
		"no shipped": {Trace: Source{Name: "nothing-like-this"}},
		"many names": {Trace: Source{Name: "gavel"}},
		"GPU type":   {Config: Config{GPUs: []hare.TypeCount{{Type: "M60", Count: 1}}}},
		"quantum":    {Config: Config{Quantum: -1}},
		"jobs":       {Config: Config{Jobs: -1}},
		"releases":   {Config: Config{Releases: "some"}},
		"weights":    {Config: Config{Weights: "some"}},
		"shared":     {Config: Config{Shared: "some"}},
		"placement":  {Config: Config{Placement: "some"}},
		"no job fits": {Config: Config{GPUs: []hare.TypeCount{{Type: "K80", Count: 1}}},
			Trace: Source{"t",
				strings.NewReader("job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n0,0,ResNet-18 (batch " +
					"size 128),9,4,1\n")}},
	}
	for name, cfg := range tests {
		if inst, _, err := Import("gavel", cfg); err == nil || inst != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// The two jobs fit alone, but not one after another.
	long := "arrival_s,duration_s,num_gpus\n0,6000000000,1\n0,6000000000,1\n"
	if inst, _, err := Philly(Source{"t", strings.NewReader(long)}, Config{}); err == nil || inst != nil ||
		!strings.Contains(err.Error(), "2^53") {
		t.Errorf("too long: %v", err)
	}
	if _, _, err := Import("borg", ImportConfig{}); err == nil || !strings.Contains(err.Error(), "openb") {
		t.Errorf("unknown format: %v", err)
	}
}

func TestShippedTraces(t *testing.T) {
	got := ShippedTraces()
	if len(got) != 11 || got[0] != "gavel_trace_artifact_evaluation.csv" {
		t.Errorf("%d traces: %v", len(got), got)
	}
}

func TestPhysicalThroughputs(t *testing.T) {
	base, err := ReadThroughputs(mustShipped(t, "gavel_throughputs.csv"), nil)
	if err != nil {
		t.Fatal(err)
	}
	tp, err := ReadThroughputs(mustShipped(t, "physical_diff"), base)
	if err != nil {
		t.Fatal(err)
	}
	k := rateKey{"ResNet-18 (batch size 16)", 1, "K80", false}
	if base.rates[k] != 4795295 || tp.rates[k] != 4907045 {
		t.Errorf("rates %d and %d", base.rates[k], tp.rates[k])
	}
}

func TestParseGPUs(t *testing.T) {
	got, err := ParseGPUs("v100=36, p100=2,Odd=1")
	want := []hare.TypeCount{{Type: "V100", Count: 36}, {Type: "P100", Count: 2}, {Type: "Odd", Count: 1}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	for _, bad := range []string{"", "V100", "V100=", "V100=0", "V100=-1", "V100=x", "=3", "V100=1,v100=2",
		"V100=2000000000", "a/b=1", "V100=1,,", "V100=1048576,T4=1"} {
		if got, err := ParseGPUs(bad); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	for _, tt := range []struct {
		text   string
		digits int
		want   int64
		reason string
	}{
		{"0", 6, 0, ""}, {"1.5", 6, 1500000, ""}, {"0.0000005", 6, 1, ""}, {"0.00000049", 6, 0, ""},
		{"5.0", 0, 5, ""}, {"9007199254740992", 0, 1 << 53, ""}, {"9007199254740993", 0, 0, "is too large"},
		{"99999999999999999999999", 6, 0, "is too large"}, {"-0", 6, 0, "is negative"}, {"", 6, 0, "is not a number"},
		{".5", 6, 0, "is not a number"}, {"5.", 6, 0, "is not a number"}, {"--1", 6, 0, "is not a number"},
		{"1.2.3", 6, 0, "is not a number (digits and a point, no exponent)"},
	} {
		if got, reason := parseDecimal(tt.text, tt.digits); got != tt.want || reason != tt.reason {
			t.Errorf("%q: %d %q, want %d %q", tt.text, got, reason, tt.want, tt.reason)
		}
	}
}
