package elastic

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

func TestConfigure(t *testing.T) {
	find := func(name string) Info {
		for _, p := range All() {
			if p.Name == name {
				return p
			}
		}
		t.Fatal(name)
		return Info{}
	}
	for _, c := range []struct{ policy, parameters, pointer, want string }{
		{"pollux", `{"power": 101}`, "/power", "from -100 to 100"},
		{"pollux", `{"power": 1e999}`, "/power", "from -100 to 100"},
		{"pollux", `{"population": 1}`, "/population", "from 2 to 10000"},
		{"pollux", `{"generations": 0}`, "/generations", "from 1 to"},
		{"pollux", `{"generation": 10}`, "/generation", `did you mean "generations"?`},
		{"pollux", `{"max_gpus": 5000}`, "/max_gpus", "from 1 to 4096"},
		{"pollux", `{"restart_penalty_s": -1}`, "/restart_penalty_s", "from 0"},
		{"pollux", `{"interference": 1}`, "/interference", "from 0 to 0.99"},
		{"pollux", `{"crowded": 1}`, "/crowded", "true or false"},
		{"pollux:tiresias", `{"threshold_s": -1}`, "/threshold_s", "from 0"},
		{"pollux:optimus", `{"young": 0.5}`, "/young", "it has interference"},
		{"optimus", `{"young": 0}`, "/young", "from 0.01 to 1"},
	} {
		_, err := find(c.policy).Configure(Config{}, []byte(c.parameters))
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != c.pointer || !strings.Contains(fault.Detail, c.want) {
			t.Errorf("%s %s: %v", c.policy, c.parameters, err)
		}
	}
	got, err := find("pollux").Configure(Config{Seed: 7}, []byte(`{"power": 0, "restart_penalty_s": 0, "crowded": true,
		"keep_batch": true, "max_gpus": 8, "max_nodes": 2, "population": 20, "generations": 5, "interference": 0.5}`))
	want := Config{Seed: 7, Interference: .5, Pollux: PolluxConfig{Power: FairGeometric, RestartS: -1, Crowded: true,
		KeepBatch: true, MaxGPUs: 8, MaxNodes: 2, Population: 20, Generations: 5}}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for name, parameters := range map[string]string{"pollux:tiresias": `{"threshold_s": 0}`, "optimus": `{"young": 1}`} {
		cfg, err := find(name).Configure(Config{}, []byte(parameters))
		if err != nil || cfg.ThresholdS != -1 && cfg.Young != 1 {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
		if _, err := find(name).New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := find("pollux").New(Config{Pollux: PolluxConfig{Power: 101}}); err == nil {
		t.Error("a power of 101 is valid")
	}
}

// The default that is shown of each parameter is that of the policy.
func TestShownDefaults(t *testing.T) {
	for _, p := range All() {
		shown := map[string]any{}
		for _, s := range p.Parameters() {
			if s.Name == "" || s.Text == "" || s.Range() == "" || s.Default == nil {
				t.Errorf("%s: %+v", p.Name, s)
			}
			shown[s.Name] = s.Default
		}
		text, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := p.Configure(Config{Seed: 7}, text)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		got, err := p.New(cfg)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		want, err := p.New(Config{Seed: 7})
		if err != nil || cfg.Interference != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s is\n%+v, want\n%+v, %v", p.Name, text, got, want, err)
		}
	}
}
