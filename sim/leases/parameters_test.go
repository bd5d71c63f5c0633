package leases

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

func TestConfigure(t *testing.T) {
	for _, c := range []struct{ policy, parameters, pointer, want string }{
		{"hadar", `{"beam": 1.5}`, "/beam", "a whole number"},
		{"hadar", `{"beam": -1}`, "/beam", "from 1 to"},
		{"hadar", `{"beam": 0}`, "/beam", "from 1 to"},
		{"hadar", `{"eta": 0.1}`, "/eta", "from 0.25"},
		{"hadar", `{"strict": "yes"}`, "/strict", "true or false"},
		{"hadar", `{"strict": null}`, "/strict", "true or false"},
		{"hadar", `{"utility": "best"}`, "/utility", "inverse_jct"},
		{"hadar", `{"utility": ""}`, "/utility", "inverse_jct"},
		{"hadar", `{"a~/b": 1}`, "/a~0~1b", "it has utility, eta"},
		{"hadar", `{"copies": 1}`, "/copies", "no parameter"},
		{"hadar", `{"utilty": "speed"}`, "/utilty", `did you mean "utility"?`},
		{"hadar", `{"beam": 1, "beam": 2}`, "", "twice"},
		{"hadar", `{"beam": 1}}`, "", "a JSON object"},
		{"hadar", `[]`, "", "a JSON object"},
		{"hadar", `null`, "", "a JSON object"},
		{"hadar", `{"beam": `, "", "a JSON object"},
		{"hadare", `{"copies": -1}`, "/copies", "from 0 to"},
		{"hadare", `{"merge_share": 1}`, "/merge_share", "from 0 to 0.99"},
		{"hadare", `{"efficiency": 2}`, "/efficiency", "from 0.01 to 1"},
		{"hadare", `{"efficiency": 0}`, "/efficiency", "from 0.01 to 1"},
		{"hadare", `{"one_node": 1}`, "/one_node", "true or false"},
		{"gavel:fifo", `{}`, "", "has no parameters"},
	} {
		info := named(t, c.policy)
		_, err := info.Configure(Config{}, []byte(c.parameters))
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != c.pointer || !strings.Contains(fault.Detail, c.want) {
			t.Errorf("%s %s: %v", c.policy, c.parameters, err)
		}
	}
	info := named(t, "hadare")
	got, err := info.Configure(Config{Seed: 7}, []byte(`{"utility": "speed", "eta": 2, "beam": 8, "exchanges": 0,
		"by_arrival": true, "one_type": true, "one_node": true, "strict": true, "copies": 3, "merge_share": 0.25,
		"efficiency": 0.5}`))
	want := HadarEConfig{Hadar: HadarConfig{Utility: EffectiveSpeed, Eta: 2, Beam: 8, Exchanges: -1, ByArrival: true,
		OneType: true, OneNode: true, Strict: true}, MaxCopies: 3, MergeShare: 0.25,
		Efficiency: 0.5}
	if err != nil || got.Seed != 7 || got.HadarE != want || got.Hadar != (HadarConfig{}) {
		t.Errorf("%+v, %v", got, err)
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
		if len(shown) == 0 {
			continue
		}
		text, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Configure(Config{Seed: 7}, text)
		var want Config
		want.HadarE.Efficiency = got.HadarE.Efficiency
		if p.Name == "hadare" && got.HadarE.Efficiency != 1 { // as where it is zero
			t.Errorf("efficiency %v", got.HadarE.Efficiency)
		}
		if err != nil || newHadar(got.Hadar).cfg != newHadar(want.Hadar).cfg ||
			newHadar(got.HadarE.Hadar).cfg != newHadar(want.HadarE.Hadar).cfg {
			t.Errorf("%s with %s: %+v, %v", p.Name, text, got, err)
		}
		got.Seed, got.Hadar, got.HadarE.Hadar = 0, HadarConfig{}, HadarConfig{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s: %+v", p.Name, text, got)
		}
	}
}

// named is the policy of a name.
func named(t *testing.T, name string) Info {
	t.Helper()
	for _, p := range All() {
		if p.Name == name {
			return p
		}
	}
	t.Fatal(name)
	return Info{}
}
