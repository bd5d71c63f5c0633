package study_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Runs with a GPU that fails from 5 to 105 s are computed by hand. Job x begins on both V100s, where a
// round takes 10 s. When a V100 fails, x goes on at once on the K80s, where a round takes 20 s and a
// whole job stays until it ends at 1205. If all GPUs fail, both engines start again at 105 s: leases on
// the V100s, and the whole job on the K80s, because the K80s return first. A fault ends a lease or a
// round of tasks, and the work of two GPUs for 5 s is lost.
func TestSimulateFaults(t *testing.T) {
	inst := gangs(hare.Gang)
	inst.Jobs = inst.Jobs[:1]
	req := &simulatedoc.Request{Policies: []string{"gavel_fifo", "gavel:fifo_perf"}, Instance: inst}
	req.Faults = []simulatedoc.Fault{{GPU: "a/2", FromUs: 5e6, UntilUs: 105e6}} // the first V100
	rep := simulate(t, req, study.Config{})
	for _, r := range rep.Runs {
		if r.LostTasks == 0 || r.LostS != 10 || r.DownS != 100 || r.MeanJCTS <= 600 ||
			r.Verified != (r.Engine == "task") {
			t.Errorf("%+v", r)
		}
	}
	if got := rep.Runs[0].MeanJCTS; got != 5+60*20 {
		t.Errorf("tasks end at %v", got)
	}
	whole := *req
	whole.Faults = []simulatedoc.Fault{{Node: "a", FromUs: 5e6, UntilUs: 105e6}}
	if r := simulate(t, &whole, study.Config{}).Runs; r[0].MeanJCTS != 105+60*20 || r[1].MeanJCTS != 705 ||
		r[0].DownS != 400 || r[1].DownS != 400 {
		t.Errorf("%+v\n%+v", r[0], r[1])
	}
	for name, c := range map[string]struct {
		change        func(*simulatedoc.Request)
		pointer, code string
	}{
		"overlap": {func(r *simulatedoc.Request) {
			r.Faults = append(r.Faults, simulatedoc.Fault{Node: "a", FromUs: 104e6, UntilUs: hare.Forever})
		}, "/faults/1", "overlap"},
		"unknown": {func(r *simulatedoc.Request) { r.Faults = []simulatedoc.Fault{{GPU: "b/0", UntilUs: 1}} },
			"/faults/0",
			"unknown_gpu"},
		"unknown, lease": {func(r *simulatedoc.Request) {
			r.Policies, r.Faults = r.Policies[1:], []simulatedoc.Fault{{GPU: "b/0", UntilUs: 1}}
		}, "/faults/0", "unknown_gpu"},
		"stragglers": {func(r *simulatedoc.Request) { r.Stragglers = true }, "/stragglers", "needs_tasks"},
		"failures":   {func(r *simulatedoc.Request) { r.Failures.PerGPUHour = 1 }, "/failures", "needs_tasks"},
		"bad failures": {func(r *simulatedoc.Request) {
			r.Policies, r.Failures.Probability = r.Policies[:1], 1
		}, "/failures/probability", "bad_value"},
		"switch":  {func(r *simulatedoc.Request) { r.SwitchUs = -1 }, "/switch_s", "out_of_range"},
		"latency": {func(r *simulatedoc.Request) { r.PlanLatencyUs = -1 }, "/plan_latency_s", "out_of_range"},
	} {
		bad := *req
		bad.Faults = append([]simulatedoc.Fault(nil), req.Faults...)
		c.change(&bad)
		_, err := study.Simulate(t.Context(), &bad, study.Config{})
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != c.pointer || fault.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Switches cost the requested time, runs with stragglers are not in the model, and
// repeats have different faults.
func TestSimulateWorld(t *testing.T) {
	req := smallTest("fifo")
	req.SwitchUs = 7e6
	r := simulate(t, req, study.Config{}).Runs[0]
	if r.Switches == 0 || r.SwitchS < 7*float64(r.Switches) || !r.Verified {
		t.Errorf("%+v", r)
	}
	req.SwitchUs, req.Stragglers = 0, true
	rep := simulate(t, req, study.Config{})
	if rep.Runs[0].Verified || !strings.Contains(strings.Join(rep.Notes, "\n"), "the verifier cannot") {
		t.Errorf("%+v", rep)
	}
	req.Policies = []string{"fifo", "gavel:fifo_perf"}
	req.Repeat = 2
	req.Stragglers = false
	req.FaultRate = simulatedoc.FaultRate{GPUMeanUs: 600e6, GPURepairUs: 60e6}
	rep = simulate(t, req, study.Config{})
	for i, r := range rep.Runs {
		if r.DownS <= 0 || r.DownS == rep.Runs[i^1].DownS {
			t.Errorf("%+v", r)
		}
	}
}

// A gang of a million short rounds is simulated as merged rounds of 100 s, and the schedule has all
// rounds.
func TestSimulateMerged(t *testing.T) {
	inst := gangs(hare.Gang)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.Rounds *= 100_000
		j.On = []hare.Profile{{Type: "K80", ComputeUs: 180, SyncUs: 20}, {Type: "V100", ComputeUs: 90, SyncUs: 10}}
	}
	req := &simulatedoc.Request{Policies: []string{"hlas", "kueue"}, Instance: inst, MergeUs: 100e6}
	rep := simulate(t, req, study.Config{Record: true})
	for _, r := range rep.Runs {
		if !r.Verified || r.Tasks > 100 || r.MeanJCTS < 360 || r.Result == nil || len(rep.Notes) != 1 {
			t.Errorf("%+v %q", r, rep.Notes)
		}
	}
}
