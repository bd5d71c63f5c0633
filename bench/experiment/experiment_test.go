package experiment_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/experiment"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

func tiny(t *testing.T) []experiment.Case {
	t.Helper()
	var cases []experiment.Case
	for seed := range uint64(2) {
		inst, err := trace.Generate(trace.GenerateConfig{Jobs: 6, Seed: seed, GPUs: []hare.TypeCount{{Type: "V100",
			Count: 4}, {Type: "K80", Count: 4}}, Arrivals: "uniform:100", Sync: "gang"})
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, experiment.Case{Group: "tiny", Seed: seed, Inst: inst})
	}
	return cases
}

func check(inst *hare.Instance, res *hare.Result) error {
	if rep := verify.Check(inst, res); !rep.OK || rep.Bound == nil {
		return errors.New(rep.String())
	}
	return nil
}

// Policies have the parameters that are given, and their rows say so.
func TestParameters(t *testing.T) {
	cfg := experiment.Config{Policies: []string{"hgittins", "fifo"}, Instances: tiny(t)[:1], Check: check}
	plain, err := experiment.All()[0].Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Parameters = map[string]json.RawMessage{"hgittins": json.RawMessage(`{"by_arrival":true,"strict":true}`)}
	other, err := experiment.All()[0].Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if name := other.Runs[0].Scheme; name != `hgittins {"by_arrival":true,"strict":true}` {
		t.Error(name)
	}
	if plain.Runs[0].Metrics.MeanJCTS == other.Runs[0].Metrics.MeanJCTS ||
		plain.Runs[1].Metrics.MeanJCTS != other.Runs[1].Metrics.MeanJCTS {
		t.Errorf("%+v\n%+v", plain.Runs[0].Metrics, other.Runs[0].Metrics)
	}
}

// The runs of every policy pass the verifier with their certificates, and none is better
// than the bound. A second experiment writes the same bytes into all files.
func TestWeightedJCT(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	x, err := experiment.Find("weighted-jct")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range policies.All() {
		names = append(names, p.Name)
	}
	cases := tiny(t)
	checked := 0
	cfg := experiment.Config{Policies: names, Instances: cases, Check: func(inst *hare.Instance,
		res *hare.Result) error {
		checked++
		return check(inst, res)
	}}
	r, err := x.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != len(names)*len(cases) || checked != len(r.Runs) {
		t.Fatalf("%d runs, %d checked", len(r.Runs), checked)
	}
	for _, run := range r.Runs {
		if !(run.Ratio >= 1) {
			t.Errorf("%s on %s: ratio %g", run.Policy.Name, run.Instance, run.Ratio)
		}
	}
	rows := r.Rows()
	if len(rows) != len(names) || rows[0].Instances != len(cases) || rows[0].Lower.Mean != 0 {
		t.Errorf("%d rows, the first %+v", len(rows), rows[0])
	}
	want := (r.Runs[0].Metrics.WeightedJCTS + r.Runs[len(names)].Metrics.WeightedJCTS) / 2
	if got := rows[0].WeightedJCTS.Mean; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("mean %g, want %g", got, want)
	}
	again, err := x.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := r.Write(filepath.Join(dir, "a"))
	if err != nil || len(files) != 5 {
		t.Fatalf("files %v, %v", files, err)
	}
	others, err := again.Write(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		a, errA := os.ReadFile(files[i])
		b, errB := os.ReadFile(others[i])
		if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v; equal: %v", files[i], errA, errB, bytes.Equal(a, b))
		}
	}
	var text bytes.Buffer
	if err := r.CSV(&text); err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(&text).ReadAll(); err != nil || len(lines) != 1+len(r.Runs) {
		t.Errorf("%d lines of CSV, %v", len(lines), err)
	}
}

// An experiment returns no report if a run is refused or a policy is unknown.
func TestRefusedRun(t *testing.T) {
	x := experiment.All()[0]
	bad := errors.New("refused")
	r, err := x.Run(t.Context(), experiment.Config{Policies: []string{"fifo"}, Instances: tiny(t)[:1],
		Check: func(*hare.Instance, *hare.Result) error { return bad }})
	if r != nil || !errors.Is(err, bad) || !strings.Contains(err.Error(), "fifo") {
		t.Error(r, err)
	}
	if _, err := x.Run(t.Context(), experiment.Config{Policies: []string{"hals"},
		Instances: tiny(t)[:1]}); err == nil ||
		!strings.Contains(err.Error(), `"hlas"`) {
		t.Error(err)
	}
	for parameters, said := range map[string]string{
		`{"rolling":{}}`:             "rolling",
		`{"hgittins":{"kapa":1}}`:    "/kapa",
		`{"hgittins":{"kappa":1e9}}`: "/kappa",
	} {
		cfg := experiment.Config{Policies: []string{"hgittins"}, Instances: tiny(t)[:1]}
		if err := json.Unmarshal([]byte(parameters), &cfg.Parameters); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Size(cfg); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	if _, err := experiment.Find("weighted"); err == nil || !strings.Contains(err.Error(), "weighted-jct") {
		t.Error(err)
	}
}
