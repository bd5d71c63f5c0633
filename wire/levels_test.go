package wire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

// racks is an instance on three nodes: two of zone e, in racks r and s, and one of zone w, in a
// rack that is called r, too.
func racks(topology, jobs string) string {
	return `{"hare":"instance/v1","cluster":{"topology":` + topology + `,"nodes":[` +
		`{"name":"a","gpus":{"A":2},"labels":{"zone":"e","rack":"r"}},` +
		`{"name":"b","count":2,"gpus":{"A":2},"labels":{"zone":"e","rack":"s"}},` +
		`{"name":"c","gpus":{"A":2},"labels":{"zone":"w","rack":"r"}}]},"jobs":[` + jobs + `]}`
}

// spreadJob is a job with a time by spread and more fields.
func spreadJob(sync, fields string) string {
	return `{"id":"j","tasks":2,"on":{"A":{"compute_s":1,"sync_s":` + sync + `}}` + fields + `}`
}

func TestBadLevelsAreNamed(t *testing.T) {
	const (
		both  = `["zone","rack"]`
		gang  = `,"sync":"gang"`
		plain = `{"id":"j","sync":"gang","on":{"A":{"compute_s":1}}}`
		times = "/jobs/0/on/A/sync_s"
	)
	for name, c := range map[string]struct{ text, want string }{
		"no list":       {racks(`"zone"`, plain), "wrong_type /cluster/topology"},
		"label twice":   {racks(`["zone","zone"]`, plain), "duplicate_id /cluster/topology/1"},
		"node as label": {racks(`["node"]`, plain), "not_allowed /cluster/topology/0"},
		"any as label":  {racks(`["zone","any"]`, plain), "not_allowed /cluster/topology/1"},
		"all as label":  {racks(`["all"]`, plain), "not_allowed /cluster/topology/0"},
		"label unnamed": {racks(`[""]`, plain), "bad_name /cluster/topology/0"},
		"too many labels": {racks(`["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]`, plain),
			"too_many /cluster/topology/16; missing_field /cluster/nodes/0/labels; missing_field /cluster/nodes/1/labels; " +
				"missing_field /cluster/nodes/2/labels"},
		"nodes lack it": {racks(`["zone","row"]`, plain), "missing_field /cluster/nodes/0/labels; " +
			"missing_field /cluster/nodes/1/labels; missing_field /cluster/nodes/2/labels"},
		"within unknown":   {racks(both, spreadJob("0", gang+`,"within":"row"`)), "unknown_level /jobs/0/within"},
		"within empty":     {racks(both, spreadJob("0", gang+`,"within":""`)), "unknown_value /jobs/0/within"},
		"within a number":  {racks(both, spreadJob("0", gang+`,"within":2`)), "wrong_type /jobs/0/within"},
		"within relaxed":   {racks(both, spreadJob("0", `,"within":"rack"`)), "not_allowed /jobs/0/within"},
		"spread relaxed":   {racks(both, spreadJob(`{"any":1,"node":0}`, "")), "not_allowed " + times},
		"no level":         {racks(both, spreadJob(`{}`, gang)), "missing_field " + times},
		"level unknown":    {racks(both, spreadJob(`{"row":1,"any":2}`, gang)), "unknown_level " + times + "/row"},
		"level unnamed":    {racks(both, spreadJob(`{"":1,"any":2}`, gang)), "unknown_level " + times + "/"},
		"level twice":      {racks(both, spreadJob(`{"any":1,"any":2}`, gang)), "duplicate_name " + times + "/any"},
		"negative time":    {racks(both, spreadJob(`{"any":-1}`, gang)), "out_of_range " + times + "/any"},
		"less for coarser": {racks(both, spreadJob(`{"node":2,"zone":1,"any":3}`, gang)), "out_of_range " + times + "/zone"},
		"any not covered":  {racks(both, spreadJob(`{"node":0,"zone":1}`, gang)), "missing_field " + times},
		"within not covered": {racks(both, spreadJob(`{"node":0}`, gang+`,"within":"rack"`)),
			"missing_field " + times},
		"running apart": {racks(both, spreadJob("1", gang+`,"within":"rack","progress":{"gpus":["a/0","c/0"]}`)),
			"not_allowed /jobs/0/progress/gpus"},
		"running too long": {racks(both, spreadJob(`{"node":0,"rack":1,"any":3}`, gang+
			`,"progress":{"gpus":["b-0/0","b-1/0"],"elapsed_s":2}`)), "out_of_range /jobs/0/progress/elapsed_s"},
	} {
		t.Run(name, func(t *testing.T) { expectFaults(t, c.text, c.want) })
	}
}

// Levels with the time of the next coarser one change nothing, and neither does any.
func TestCanonicalLevels(t *testing.T) {
	decode := func(text string) *hare.Instance {
		t.Helper()
		inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.Validate(); err != nil {
			t.Errorf("a decoded instance is not valid: %v", err)
		}
		var b bytes.Buffer
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		if again, err := wire.DecodeInstance(&b, wire.Limits{}); err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(inst, again); diff != "" {
			t.Error(diff)
		}
		return inst
	}
	const gang = `,"sync":"gang"`
	for _, same := range [][2]string{
		{spreadJob("1", gang), spreadJob(`{"any":1}`, gang)},
		{spreadJob("1", gang), spreadJob(`{"node":1,"rack":1,"any":1}`, gang+`,"within":"any"`)},
		{spreadJob("1", gang+`,"within":"node"`), spreadJob(`{"node":1}`, gang+`,"within":"node"`)},
		{spreadJob(`{"node":0,"zone":1,"any":2}`, gang), spreadJob(`{"any":2,"rack":1,"zone":1,"node":0}`, gang)},
	} {
		a, b := decode(racks(`["zone","rack"]`, same[0])), decode(racks(`["zone","rack"]`, same[1]))
		if diff := cmp.Diff(string(wire.Canonical(a)), string(wire.Canonical(b))); diff != "" {
			t.Errorf("%s: %s", same, diff)
		}
	}
	inst := decode(racks(`["zone","rack"]`, spreadJob(`{"node":0.5,"any":2}`, gang+`,"within":"zone"`)))
	got := string(wire.Canonical(inst))
	for _, want := range []string{`],"topology":["zone","rack"]},"hare"`,
		`"sync_us":{"any":2000000,"node":500000}`, `"weight_micro":1000000,"within":"zone"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("the canonical form\n%s\nlacks\n%s", got, want)
		}
	}
	if at, placed := inst.Placed(); !placed || at != "/jobs/0/within" {
		t.Errorf("Placed is %s, %v", at, placed)
	}
	if err := inst.RefuseRules("this test", hare.RuleNodes|hare.RuleWithin); err == nil ||
		!strings.Contains(err.Error(), `"sync_s" by level is not supported by this test`) {
		t.Errorf("got %v", err)
	}
	bad := inst.Jobs[0]
	bad.On[0].SyncAt = []hare.LevelSync{{Level: "any", SyncUs: 2_000_000}}
	if err := inst.Validate(); err == nil {
		t.Error("a single level is valid")
	}
}

func TestModelLevels(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(racks(`["zone","rack"]`,
		spreadJob(`{"node":0,"rack":1,"any":3}`,
			`,"sync":"gang","within":"zone","progress":{"gpus":["b-0/0","b-1/0"]}`)+
			`,{"id":"k","sync":"rigid","tasks":5,"on":{"A":{"compute_s":1}}}`)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m := model.New(inst)
	lv, j, k := m.Levels, &m.Jobs[0], &m.Jobs[1]
	if diff := cmp.Diff([]string{"node", "rack", "zone", "any"}, lv.Names); diff != "" {
		t.Error(diff)
	}
	joins := fmt.Sprint(lv.Join(0, 0, 0), lv.Join(0, 1, 2), lv.Join(0, 0, 1), lv.Join(0, 0, 3), lv.Domains(0),
		lv.Domains(1), lv.Domains(2), lv.Domains(3))
	if want := "0 1 2 3 4 3 2 1"; joins != want {
		t.Errorf("joins and domains are %s, want %s", joins, want)
	}
	// The running round is in rack s, so that it takes 2 s.
	if j.RunsUntilUs != 2_000_000 || j.Within != 2 || k.Within != 3 {
		t.Errorf("got %+v", j)
	}
	md := j.Modes[0]
	if diff := cmp.Diff([]int64{0, 1e6, 3e6}, md.SyncByLevel); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, j.LevelModes(md)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{3}, k.LevelModes(k.Modes[0])); diff != "" {
		t.Error(diff)
	}
	room := ""
	for level := range lv.Names {
		room += fmt.Sprint(m.LevelRoom(k, []int{0}, level), " ")
	}
	if room != "2 4 6 8 " {
		t.Errorf("rooms by level are %s", room)
	}
}
