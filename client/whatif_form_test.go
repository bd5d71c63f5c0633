package client

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
)

// The requests of the client have exactly the fields of the table that the server reads.
func TestWhatIfFollowsItsTable(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}}}},
		Jobs: []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}}}
	below := 1.0
	w := WhatIf{Instance: inst, Result: &hare.Result{InstanceSHA256: wire.SHA256(inst)}, Options: Options{WorkLimit: 5},
		PruneBelow: &below, Ordered: true,
		Scenarios: []Scenario{{ID: "s", Patch: json.RawMessage(`[{"op":"test","path":"/hare","value":"instance/v1"}]`),
			RemoveJobs: []string{"x"}, ScaleWeights: map[string]float64{"x": 2},
			AddJobs:        []json.RawMessage{json.RawMessage(`{"id":"y","on":{"V100":{"compute_s":1}}}`)},
			ScaleDurations: map[string]float64{"x": 0.5}, DropAfter: []DropAfter{{Job: "x", After: "y"}},
			SetQuota:   []SetQuota{{User: "ann", GPUs: 3, Types: []string{"V100"}}},
			RemoveGPUs: []RemoveGPUs{{Node: "a", Type: "V100", Count: 1}}, Drain: []Drain{{Node: "a", AtS: 5}},
			AddGPUs:  []AddGPUs{{Type: "V100", Count: 1, Name: "b"}},
			AddNodes: []json.RawMessage{json.RawMessage(`{"name":"c","gpus":{"V100":8},"cpus":96}`)},
			Options:  Options{WorkLimit: 6}}}}
	text, err := w.body()
	if err != nil {
		t.Fatal(err)
	}
	req, err := whatif.Decode(bytes.NewReader(text), wire.Limits{}, hare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if req.Scenarios[0].Options.WorkLimit != 6 || req.Options.WorkLimit != 5 {
		t.Errorf("%+v", req)
	}
	forms := map[string][]string{}
	for todo := []wire.Form{whatif.Form}; len(todo) > 0; todo = append(todo[1:], todo[0].Parts()...) {
		forms[todo[0].Name()] = todo[0].Names()
	}
	body := members(t, text)
	scenario := members(t, list(t, body["scenarios"])[0])
	base := members(t, body["base"])
	base["solve_id"] = nil // a request has an instance or the id of a solve
	for name, got := range map[string]map[string]json.RawMessage{
		"WhatIfRequest": body, "WhatIfBase": base, "Prune": members(t, body["prune"]), "Scenario": scenario,
		"RemoveGPUs": members(t, list(t, scenario["remove_gpus"])[0]),
		"Drain":      members(t, list(t, scenario["drain"])[0]),
		"AddGPUs":    members(t, list(t, scenario["add_gpus"])[0]),
		"DropAfter":  members(t, list(t, scenario["drop_after"])[0]),
		"UserQuota":  members(t, list(t, scenario["set_quota"])[0]),
	} {
		want := slices.Sorted(slices.Values(forms[name]))
		var names []string
		for member := range got {
			names = append(names, member)
		}
		if slices.Sort(names); len(want) == 0 || !slices.Equal(names, want) {
			t.Errorf("%s: the client writes %v, and the server reads %v", name, names, want)
		}
	}
}

func members(t *testing.T, text []byte) (m map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func list(t *testing.T, text []byte) (l []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(text, &l); err != nil || len(l) == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}
