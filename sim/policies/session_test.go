package policies_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
)

var small = &hare.Cluster{Nodes: []hare.Node{
	{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}},
	{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 2}}},
}}

// Every policy of tasks that can run in a session can be opened, stored and restored by
// its name.
func TestSessionPolicies(t *testing.T) {
	names := registry.SessionNames()
	if want := []string{"asrpt", "easy_backfill", "fifo", "gandiva", "gavel_fifo", "hare_offline", "hare_paper",
		"hgittins", "hlas",
		"kueue", "kueue_strict", "rolling", "sampling", "sched_allox", "sched_homo", "slurm", "srtf", "themis", "tiresias",
		"tiresias_gittins"}; !slices.Equal(names, want) {
		t.Errorf("sessions run %s", names)
	}
	for _, name := range names {
		p, err := registry.OpenSession(name, small, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := registry.RestoreSession(name, p.AppendSnapshot(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := again.(online.Observable); !ok {
			t.Errorf("%s shows nothing of itself", name)
		}
		for _, other := range names {
			if _, err := registry.RestoreSession(other, p.AppendSnapshot(nil)); (err == nil) != (other == name) {
				t.Errorf("%s restored as %s: %v", name, other, err)
			}
		}
		if err := again.Adopt(5, hare.Event{Type: hare.EventTick}, nil); err != nil {
			t.Error(err)
		}
		if p, err := registry.RestoreSession(name, []byte("x")); err == nil || p != nil {
			t.Errorf("%s: garbage is restored", name)
		}
		if p, err := registry.OpenSession(name, small, []byte(`{"no": 1}`)); err == nil || p != nil {
			t.Errorf("%s takes an unknown parameter", name)
		}
		windows := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: small.Nodes[0].GPUs,
			Windows: []hare.Window{{EndUs: 1}}}}}
		if p, err := registry.OpenSession(name, windows, nil); err == nil || p != nil {
			t.Errorf("%s knows the future", name)
		}
	}
}

// A policy that cannot run in a session is refused by its name, with the reason.
func TestSessionRefusesPolicies(t *testing.T) {
	for name, want := range map[string]string{
		"none":       "is not known",
		"gavel:fifo": "runs in simulations alone",
		"optimus":    "runs in simulations alone",
	} {
		_, err := registry.OpenSession(name, small, nil)
		var inv *hare.InvalidError
		if !errors.As(err, &inv) || inv.Pointer != "/policy" || !strings.Contains(inv.Detail, want) ||
			!strings.HasSuffix(inv.Detail, strings.Join(registry.SessionNames(), ", ")) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := registry.RestoreSession(name, nil); err == nil {
			t.Errorf("%s is restored", name)
		}
	}
	for _, info := range registry.All() {
		_, err := registry.OpenSession(info.Name, small, nil)
		if (err == nil) != (info.Engine == registry.Task) {
			t.Errorf("%s: %v", info.Name, err)
		}
	}
}

// Every policy of tasks serves sessions, and what is told in simulations is estimated there.
func TestKnowledgeInSessions(t *testing.T) {
	for _, info := range policies.All() {
		if _, ok := info.Session(); !ok {
			t.Errorf("%s cannot run in sessions", info.Name)
		}
		want := policies.Nothing
		if info.Knows() != policies.Nothing {
			want = policies.Estimates
		}
		if got := info.KnowsInSession(); got != want {
			t.Errorf("%s knows %s in simulations and %s in sessions", info.Name, info.Knows(), got)
		}
	}
}

func TestSessionParameters(t *testing.T) {
	for _, c := range []struct{ name, parameters, pointer string }{
		{"tiresias", `{"thresholds_s": [10, 5]}`, "/thresholds_s/1"},
		{"tiresias", `{"thresholds_s": [0]}`, "/thresholds_s/0"},
		{"tiresias", `{"knob": "x"}`, "/knob"},
		{"gandiva", `{"slice_s": 0}`, "/slice_s"},
		{"gandiva", `{"slice_s": -1}`, "/slice_s"},
		{"gandiva", `{"slice_s": 1e99}`, "/slice_s"},
		{"tiresias_gittins", `{"thresholds_s": [10, 5]}`, "/thresholds_s/1"},
		{"tiresias_gittins", `{"knob": "x"}`, "/knob"},
		{"hare_offline", `{"moves": -1}`, "/moves"},
		{"hare_paper", `{"moves": 1}`, "/moves"},
		{"rolling", `{"moves": "a"}`, "/moves"},
		{"rolling", `{"migration_s": "x"}`, "/migration_s"},
		{"rolling", `{"a/b~": 1, "moves": 1}`, "/a~1b~0"},
		{"hgittins", `{"slowest_factor": 0.5}`, "/slowest_factor"},
		{"themis", `{"fairness": 1.5}`, "/fairness"},
		{"themis", `{"fairness": -1}`, "/fairness"},
		{"themis", `{"lease_s": 0}`, "/lease_s"},
		{"slurm", `{"age": -1}`, "/age"},
		{"slurm", `{"qos": 1e10}`, "/qos"},
		{"slurm", `{"age": 0, "size": 0, "qos": 0}`, "/age"},
		{"slurm", `{"max_age_s": 0}`, "/max_age_s"},
	} {
		var inv *hare.InvalidError
		if _, err := registry.OpenSession(c.name, small, []byte(c.parameters)); !errors.As(err, &inv) ||
			inv.Pointer != c.pointer {
			t.Errorf("%s %s: %v", c.name, c.parameters, err)
		}
	}
	for name, parameters := range map[string]string{"tiresias": ` {"thresholds_s": [10.5, 20], "knob": -1}`,
		"gandiva": `{"slice_s": 0.5}`, "kueue": "{}", "tiresias_gittins": `{"thresholds_s": [10.5, 20]}`,
		"themis": `{"fairness": 0, "lease_s": 0.5}`, "slurm": `{"age": 5, "size": 0, "max_age_s": 60}`} {
		p, err := registry.OpenSession(name, small, []byte(parameters))
		if err != nil {
			t.Fatal(err)
		}
		first := p.AppendSnapshot(nil)
		again, err := registry.RestoreSession(name, first)
		if err != nil {
			t.Fatal(err)
		}
		if string(again.AppendSnapshot(nil)) != string(first) {
			t.Errorf("%s: another snapshot after it was restored", name)
		}
	}
}

func TestPlansAside(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"fifo", "", ""},
		{"hgittins", "{}", "{}"},
		{"rolling", "", `{"aside":true}`},
		{"rolling", "{ }", `{"aside":true}`},
		{"rolling", "null", `{"aside":true}`},
		{"rolling", `{"moves":3}`, `{"aside":true,"moves":3}`},
		{"rolling", `{"aside":false}`, `{"aside":false}`},
		{"rolling", `{"moves":3,"aside":true}`, `{"moves":3,"aside":true}`},
		{"rolling", `[`, `[`},
	} {
		if got := registry.PlansAside(c.name, []byte(c.given)); string(got) != c.want {
			t.Errorf("%s %s: got %s, want %s", c.name, c.given, got, c.want)
		}
	}
}
