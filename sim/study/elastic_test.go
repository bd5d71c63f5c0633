package study_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

func workload6(policies ...string) *simulatedoc.Request {
	return &simulatedoc.Request{Policies: policies, Trace: &simulatedoc.Trace{Name: "pollux_workload_6.csv"}}
}

func mustSimulate(t *testing.T, req *simulatedoc.Request) *study.Report {
	t.Helper()
	rep, err := study.Simulate(context.Background(), req, study.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// The figures are Pollux's, whether the request leaves the cluster out, gives numbers of GPUs or
// gives nodes.
func TestSimulateElastic(t *testing.T) {
	req := workload6("pollux:tiresias", "pollux:optimus")
	rep := mustSimulate(t, req)
	for i, want := range []float64{3469.69375, 5301.875} {
		r := &rep.Runs[i]
		if r.MeanJCTS != want || r.Engine != "elastic" || r.Jobs != 160 || r.Rounds == 0 ||
			r.UtilizationByType["T4"] != r.Utilization {
			t.Errorf("%s: %+v; published mean JCT %v s", r.Policy, r, want)
		}
		for _, f := range r.Figures {
			if f.Slowdown < 1 {
				t.Errorf("%s: job %s is %v times as slow as it can be", r.Policy, f.ID, f.Slowdown)
			}
		}
	}
	req.Policies = req.Policies[:1]
	req.GPUs = []hare.TypeCount{{Type: "T4", Count: 64}}
	if got := mustSimulate(t, req).Runs[0].MeanJCTS; got != 3469.69375 {
		t.Errorf("64 T4: mean JCT %v s", got)
	}
	req.GPUs, req.Cluster = nil, &hare.Cluster{}
	for i := range 16 {
		req.Cluster.Nodes = append(req.Cluster.Nodes,
			hare.Node{Name: string(rune('a' + i)), GPUs: []hare.TypeCount{{Type: "T4", Count: 4}}})
	}
	if got := mustSimulate(t, req).Runs[0].MeanJCTS; got != 3469.69375 {
		t.Errorf("16 nodes: mean JCT %v s", got)
	}
	// The figure is that of Pollux's simulator with --interval 30.
	req.IntervalS = 30
	if got := mustSimulate(t, req).Runs[0].MeanJCTS; got != 3416.5 {
		t.Errorf("every 30 s: mean JCT %v s", got)
	}
}

func TestSimulateElasticWithOthers(t *testing.T) {
	rep := mustSimulate(t, workload6("pollux:tiresias", "tiresias"))
	if len(rep.Runs) != 2 || !rep.Runs[1].Verified || len(rep.Notes) == 0 ||
		!strings.Contains(rep.Notes[0], "do not compare") {
		t.Errorf("notes %q", rep.Notes)
	}
}

func TestSimulateElasticRefusals(t *testing.T) {
	gavel := &simulatedoc.Trace{Name: "gavel_trace_small_test.csv"}
	for name, c := range map[string]struct {
		change func(*simulatedoc.Request)
		want   string
	}{
		"format": {func(r *simulatedoc.Request) { r.Trace = gavel }, "needs a Pollux workload"},
		"type": {func(r *simulatedoc.Request) { r.GPUs = []hare.TypeCount{{Type: "V100", Count: 8}} },
			"the step times are of T4"},
		"interval": {func(r *simulatedoc.Request) { r.IntervalS = -1 }, "whole number of seconds"},
		"restart":  {func(r *simulatedoc.Request) { r.RestartUs = us(500_000) }, "whole number of seconds"},
		"faults":   {func(r *simulatedoc.Request) { r.Stragglers = true }, "with that stragglers are not simulated"},
		"window":   {func(r *simulatedoc.Request) { r.Last = 160 }, "the trace has 160 jobs"},
		"narrow": {func(r *simulatedoc.Request) { r.GPUs = []hare.TypeCount{{Type: "T4", Count: 4}} },
			"jobs wait forever"},
		"table": {func(r *simulatedoc.Request) {
			r.Trace.Table = []byte(
				"application,placement,num_nodes,num_replicas,local_batch,step_time_s,sync_time_s\nbert,1,1,1,12,1,0.1\n")
		}, "unknown model"},
	} {
		req := workload6("pollux:tiresias")
		c.change(req)
		_, err := study.Simulate(context.Background(), req, study.Config{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		var invalid *hare.InvalidError
		var all hare.InvalidErrors
		if !errors.As(err, &invalid) && !errors.As(err, &all) && name != "narrow" {
			t.Errorf("%s: %T", name, err)
		}
	}
}
