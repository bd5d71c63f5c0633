package study_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Policies of a simulation take the parameters that sessions take. Those that are the defaults of
// sessions change nothing.
func TestParameters(t *testing.T) {
	with := func(parameters string, change func(*simulatedoc.Request)) (*study.Report, error) {
		t.Helper()
		req := &simulatedoc.Request{Policies: []string{"hgittins", "rolling", "hlas"}, Seed: 1,
			Generate: &simulatedoc.Generate{Jobs: 12, Arrivals: "uniform:60", Sync: "gang"},
			GPUs:     []hare.TypeCount{{Type: "T4", Count: 4}, {Type: "V100", Count: 4}}}
		if err := json.Unmarshal([]byte(parameters), &req.Parameters); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(req)
		}
		return study.Simulate(t.Context(), req, study.Config{})
	}
	played := func(parameters string, change func(*simulatedoc.Request)) [3]float64 {
		t.Helper()
		rep, err := with(parameters, change)
		if err != nil {
			t.Fatal(err)
		}
		return [3]float64{rep.Runs[0].MeanJCTS, rep.Runs[1].MeanJCTS, rep.Runs[2].MeanJCTS}
	}
	plain := played(`{}`, nil)
	if same := played(`{"hgittins":{"kappa":8},"rolling":{"guard":true},"hlas":{}}`, nil); same != plain {
		t.Errorf("%v with default parameters, %v without parameters", same, plain)
	}
	other := played(`{"hgittins":{"by_arrival":true},"rolling":{"migration_s":1000000},`+
		`"hlas":{"thresholds_s":[30]}}`, nil)
	for i, mean := range other {
		if mean == plain[i] {
			t.Errorf("policy %d has the mean %v with other parameters, too", i, mean)
		}
	}
	late := func(r *simulatedoc.Request) { r.PlanLatencyUs = 1e6 }
	if a, b := played(`{"rolling":{"kappa":8}}`, late), played(`{}`, late); a != b || a == plain {
		t.Errorf("late plans: %v with default parameters, %v without parameters", a, b)
	}
	for parameters, pointer := range map[string]string{
		`{"fifo":{}}`:                        "/parameters/fifo",
		`{"rolling":{"kapa":1}}`:             "/parameters/rolling/kapa",
		`{"hlas":{"kappa":"x"}}`:             "/parameters/hlas/kappa",
		`{"rolling":{"aside":true}}`:         "/parameters/rolling/aside",
		`{"hgittins":{"kappa":1e9}}`:         "/parameters/hgittins/kappa",
		`{"srtf":{}}`:                        "/parameters/srtf",
		`{"gavel:fifo":{"fifo_slowdown":1}}`: "/parameters/gavel:fifo",
	} {
		_, err := with(parameters, func(r *simulatedoc.Request) {
			if r.Policies[0] = "srtf"; parameters != `{"srtf":{}}` {
				r.Policies = append(r.Policies[1:], "hgittins", "gavel:fifo")
			}
		})
		var faults hare.InvalidErrors
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Pointer != pointer {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	if _, err := with(`{"srtf":{}}`, func(r *simulatedoc.Request) {
		r.Policies, r.Sizes = []string{"srtf"}, simulatedoc.SizesEstimates
	}); err != nil {
		t.Error(err)
	}
}

// Policies of leases take parameters of their own, and what merging costs is charged by the engine too.
func TestParametersOfLeases(t *testing.T) {
	mean := func(policy, parameters string, each int) float64 {
		t.Helper()
		req := &simulatedoc.Request{Policies: []string{policy}, GPUs: []hare.TypeCount{{Type: "V100", Count: each},
			{Type: "P100", Count: each}, {Type: "K80", Count: each}},
			Trace: &simulatedoc.Trace{Name: "gavel_trace_small_test.csv"}}
		if parameters != "" {
			req.Parameters = map[string]json.RawMessage{policy: json.RawMessage(parameters)}
		}
		rep, err := study.Simulate(t.Context(), req, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Runs[0].MeanJCTS
	}
	const few, many = 2, 16
	hadar := mean("hadar", "", few)
	if same := mean("hadar", `{"beam":4,"eta":1,"utility":"inverse_jct"}`, few); same != hadar {
		t.Errorf("%v with default parameters, %v without parameters", same, hadar)
	}
	if other := mean("hadar", `{"utility":"longest_first"}`, few); other == hadar {
		t.Errorf("longest first: %v, by default %v", other, hadar)
	}
	// With many GPUs jobs have copies: they gain less where a copy computes less, and none are made where merging takes
	// half of the time.
	plain, free := mean("hadar", "", many), mean("hadare", "", many)
	dear, none := mean("hadare", `{"efficiency":0.5}`, many), mean("hadare", `{"merge_share":0.5}`, many)
	if free >= dear || dear >= none || none != plain {
		t.Errorf("free copies %v, dear copies %v, copies that are too dear %v, no copies %v", free, dear, none, plain)
	}
}

// Elastic policies take parameters of their own; those of the engine are charged by the engine.
func TestParametersOfElasticPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	mean := func(policy, parameters string) float64 {
		t.Helper()
		req := &simulatedoc.Request{Policies: []string{policy}, Trace: &simulatedoc.Trace{Name: "pollux_workload_6.csv"},
			Last: 60}
		if policy == "pollux" {
			req.Last = 7
		}
		if parameters != "" {
			req.Parameters = map[string]json.RawMessage{policy: json.RawMessage(parameters)}
		}
		rep, err := study.Simulate(t.Context(), req, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Runs[0].MeanJCTS
	}
	const quick = `"population":8,"generations":3,"max_gpus":4`
	for _, c := range []struct{ policy, same, other string }{
		{"pollux", `{` + quick + `}`, `{` + quick + `,"keep_batch":true}`},
		{"pollux", `{"power":-1,"restart_penalty_s":30,"interference":0,` + quick + `}`, `{"power":1,` + quick + `}`},
		{"pollux:tiresias", `{"threshold_s":57600}`, `{"threshold_s":60}`},
		{"pollux:optimus", `{"interference":0}`, `{"interference":0.5}`},
		{"optimus", `{"young":0.95}`, `{"young":0.1}`},
	} {
		plain := ""
		if c.policy == "pollux" {
			plain = `{` + quick + `}`
		}
		want := mean(c.policy, plain)
		if got := mean(c.policy, c.same); got != want {
			t.Errorf("%s: %v with %s, %v by default", c.policy, got, c.same, want)
		}
		if got := mean(c.policy, c.other); got == want {
			t.Errorf("%s: %s changes nothing", c.policy, c.other)
		}
	}
}

// A parameter that the cluster rules out is refused with its place in the request.
func TestParametersThatNeedBandwidths(t *testing.T) {
	req := &simulatedoc.Request{Policies: []string{"sampling"}, Instance: gangs(hare.Relaxed),
		Sizes:      simulatedoc.SizesEstimates,
		Parameters: map[string]json.RawMessage{"sampling": json.RawMessage(`{"ring":true}`)}}
	_, err := study.Simulate(t.Context(), req, study.Config{})
	var fault *hare.InvalidError
	if !errors.As(err, &fault) || fault.Pointer != "/parameters/sampling/ring" {
		t.Error(err)
	}
	req.Instance.Cluster.Bandwidths = []hare.LevelBandwidth{{Level: "any", Mbps: 25000}}
	if _, err := study.Simulate(t.Context(), req, study.Config{}); err != nil {
		t.Error(err)
	}
}
