package whatif_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const racks = `{"hare": "instance/v1", "cluster": {"topology": ["rack"], "nodes": [
	{"name": "a", "gpus": {"A": 4}, "labels": {"rack": "r"}}]}, "jobs": [
	{"id": "x", "sync": "gang", "tasks": 2, "on": {"A": {"compute_s": 1,
		"sync_s": {"node": 0.000001, "any": 0.000003}, "switch_s": 2}}},
	{"id": "y", "shapes": [{"tasks": 1, "on": {"A": {"compute_s": 2}}}, {"tasks": 2, "on": {"A": {"compute_s": 1}}}]}]}`

// applied returns the instance of a scenario of racks.
func applied(t *testing.T, text string) (*hare.Instance, *hare.Instance, error) {
	t.Helper()
	base, err := wire.DecodeInstance(strings.NewReader(racks), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	req, err := whatifdoc.Decode(strings.NewReader(`{"base": {"instance": `+racks+`}, "scenarios": [`+text+`]}`),
		wire.Limits{})
	if err != nil {
		return base, nil, err
	}
	inst, err := req.Scenarios[0].Apply(base)
	return base, inst, err
}

// Durations are scaled at each level and in each shape, and times by spread that become equal are
// one time. The base stays as it is.
func TestDurationsByLevelAndShape(t *testing.T) {
	base, inst, err := applied(t, `{"scale_durations": 0.5}`)
	if err != nil {
		t.Fatal(err)
	}
	p, y := inst.Jobs[0].On[0], inst.Jobs[1].Shapes
	if p.ComputeUs != 500_000 || p.SyncUs != 2 || p.SyncAt[0].SyncUs != 2 || p.SyncAt[1].SyncUs != 1 ||
		p.SwitchUs != 2e6 || y[0].On[0].ComputeUs != 1e6 || y[1].On[0].ComputeUs != 500_000 {
		t.Errorf("%+v, %+v", p, y)
	}
	if _, inst, err = applied(t, `{"scale_durations": {"x": 0.000001}}`); err != nil {
		t.Fatal(err)
	}
	if p := inst.Jobs[0].On[0]; p.SyncAt != nil || p.SyncUs != 1 {
		t.Errorf("times that are equal at all levels: %+v", p)
	}
	if p := base.Jobs[0].On[0]; p.SyncAt[0].SyncUs != 3 || base.Jobs[1].Shapes[0].On[0].ComputeUs != 2e6 {
		t.Errorf("the base has changed: %+v", base.Jobs)
	}
}

func TestScenariosOfTopologies(t *testing.T) {
	job := `{"add_jobs": [{"id": "n", "sync": "gang", "on": {"A": {"compute_s": 1, "sync_s": `
	for _, c := range []struct{ scenario, pointer, code string }{
		{`{"add_nodes": [{"name": "b", "gpus": {"A": 1}, "labels": {"rack": "s"}}]}`, "", ""},
		{`{"add_nodes": [{"name": "b", "gpus": {"A": 1}}]}`, "/scenarios/0", "missing_field"},
		{`{"add_gpus": {"type": "A", "count": 1}}`, "/scenarios/0/add_gpus", "not_allowed"},
		{job + `{"node": 1, "rack": 2, "any": 2}}}}]}`, "", ""},
		{job + `{"node": 2, "any": 1}}}}]}`, "/scenarios/0", "out_of_range"},
		{job + `{"shelf": 1, "any": 2}}}}]}`, "/scenarios/0", "unknown_level"},
	} {
		_, _, err := applied(t, c.scenario)
		var faults hare.InvalidErrors
		switch errors.As(err, &faults); {
		case c.code == "" && err == nil:
		case len(faults) != 1 || faults[0].Pointer != c.pointer || faults[0].Code != c.code:
			t.Errorf("%s: %v", c.scenario, err)
		}
	}
}
