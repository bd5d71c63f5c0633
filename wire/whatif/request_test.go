package whatif_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const whatIfBase = `{"hare":"instance/v1","cluster":{"nodes":[
 {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2},{"gpu":4,"until_s":5}]},
 {"name":"b","count":2,"gpus":{"T4":2},"in_service_s":[[0,10],[20,null]]}]},
 "jobs":[{"id":"x","weight":0.000003,"on":{"T4":{"compute_s":1}}},{"id":"y","weight":2,"on":{"T4":{"compute_s":1}}}]}`

func whatIf(t *testing.T, text string) (*whatifdoc.Request, error) {
	t.Helper()
	return whatifdoc.Decode(strings.NewReader(`{"base":{"instance":`+whatIfBase+`},"scenarios":[`+text+`]}`),
		wire.Limits{})
}

func TestShorthands(t *testing.T) {
	for _, c := range []struct{ name, scenario, nodes, jobs string }{
		{"nothing", `{}`, "", ""},
		{"add", `{"add_gpus":{"type":"H100","count":8}}`, `
  {"name":"added-0","gpus":{"H100":8}}`, ""},
		{"add named", `{"add_gpus":[{"type":"T4","count":1,"name":"n"},{"type":"T4","count":2}]}`, `
  {"name":"n","gpus":{"T4":1}}
  {"name":"added-0","gpus":{"T4":2}}`, ""},
		{"add nodes", `{"add_nodes":[{"name":"d","count":2,"gpus":{"T4":4},"cpus":32,"memory_mib":64,` +
			`"labels":{"rack":"r1"}}]}`, `
  {"name":"d-0","gpus":{"T4":4},"cpus":32,"memory_mib":64,"labels":{"rack":"r1"}}
  {"name":"d-1","gpus":{"T4":4},"cpus":32,"memory_mib":64,"labels":{"rack":"r1"}}`, ""},
		{"remove the last GPUs of a type, with their busy time", `{"remove_gpus":{"node":"a","type":"T4","count":1}}`, `
- {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2},{"gpu":4,"until_s":5}]}
  {"name":"a","gpus":{"T4":1,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":3,"until_s":5}]}`, ""},
		{"remove a type", `{"remove_gpus":{"node":"a","type":"V100","count":3}}`, `
- {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2},{"gpu":4,"until_s":5}]}
  {"name":"a","gpus":{"T4":2},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2}]}`, ""},
		{"remove all of one copy", `{"remove_gpus":[{"node":"b-1","count":1},{"node":"b-1","count":1}]}`, `
- {"name":"b-1","gpus":{"T4":2},"in_service_s":[[0,10],[20,null]]}`, ""},
		{"drain one copy", `{"drain":{"node":"b-0","at_s":25.5}}`, `
- {"name":"b-0","gpus":{"T4":2},"in_service_s":[[0,10],[20,null]]}
  {"name":"b-0","gpus":{"T4":2},"in_service_s":[[0,10],[20,25.5]]}`, ""},
		{"drain in a pause", `{"drain":[{"node":"b-0","at_s":15}]}`, `
- {"name":"b-0","gpus":{"T4":2},"in_service_s":[[0,10],[20,null]]}
  {"name":"b-0","gpus":{"T4":2},"in_service_s":[[0,10]]}`, ""},
		{"drain at once", `{"drain":{"node":"a","at_s":0}}`, `
- {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2},{"gpu":4,` +
			`"until_s":5}]}`, ""},
		{"the name of a node that goes is free", `{"drain":{"node":"a","at_s":0},"add_gpus":{"type":"T4","count":1,` +
			`"name":"a"}}`, `
- {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1},{"gpu":1,"until_s":2},{"gpu":4,"until_s":5}]}
  {"name":"a","gpus":{"T4":1}}`, ""},
		{"scale durations", `{"scale_durations":{"x":0.333333}}`, "", `
- {"id":"x","weight":0.000003,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}
  {"id":"x","weight":0.000003,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":0.333333}}}`},
		{"remove a job", `{"remove_jobs":["x"]}`, "", `
- {"id":"x","weight":0.000003,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}`},
		{"replace a job, the new one not scaled", `{"add_jobs":[{"id":"x","on":{"A":{"compute_s":1}}}],` +
			`"remove_jobs":["x"],"scale_weights":2}`, "", `
- {"id":"x","weight":0.000003,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}
- {"id":"y","weight":2,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}
  {"id":"y","weight":4,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}
  {"id":"x","weight":1,"rounds":1,"tasks":1,"on":{"A":{"compute_s":1}}}`},
		{"scale one", `{"scale_weights":{"y":0.0000005e1}}`, "", `
- {"id":"y","weight":2,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}
  {"id":"y","weight":0.00001,"rounds":1,"tasks":1,"on":{"T4":{"compute_s":1}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := whatIf(t, c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			before := written(t, req.Base.Instance)
			inst, err := req.Scenarios[0].Apply(req.Base.Instance)
			if err != nil {
				t.Fatal(err)
			}
			after := written(t, inst)
			if written(t, req.Base.Instance) != before {
				t.Error("the base has changed")
			}
			want := map[string]int{}
			for _, line := range strings.Split(c.nodes+c.jobs, "\n") {
				if rest, ok := strings.CutPrefix(line, "- "); ok {
					want[rest]--
				} else if line != "" {
					want[strings.TrimSpace(line)]++
				}
			}
			got := map[string]int{}
			count := func(text string, by int) {
				for line := range strings.Lines(text) {
					line = strings.TrimRight(strings.TrimSpace(line), ",]}\n")
					got[line] += by
				}
			}
			count(before, -1)
			count(after, 1)
			for line, n := range got {
				if n == 0 {
					delete(got, line)
				}
			}
			trimmed := map[string]int{}
			for line, n := range want {
				if n != 0 {
					trimmed[strings.TrimRight(line, ",]}")] += n
				}
			}
			if diff := cmp.Diff(trimmed, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func written(t *testing.T, inst *hare.Instance) string {
	t.Helper()
	var b strings.Builder
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Each fault has its pointer and code. Faults of the form are found when the request is decoded,
// and faults of meaning when the scenario is applied.
func TestScenarioFaults(t *testing.T) {
	for _, c := range []struct{ scenario, pointer, code string }{
		{`{"id":7}`, "/scenarios/0/id", "wrong_type"},
		{`{"id":"` + strings.Repeat("x", 201) + `"}`, "/scenarios/0/id", "too_large"},
		{`{"id":"a"},{"id":"a"}`, "/scenarios/1/id", "duplicate_id"},
		{`{"add_gpus":{"type":"V100"}}`, "/scenarios/0/add_gpus", "missing_field"},
		{`{"add_gpus":[{"type":"V100","count":0}]}`, "/scenarios/0/add_gpus/0/count", "out_of_range"},
		{`{"add_gpus":{"type":"V100","count":1.5}}`, "/scenarios/0/add_gpus/count", "wrong_type"},
		{`{"add_gpus":{"typ":"V100","count":1}}`, "/scenarios/0/add_gpus/typ", "unknown_field"},
		{`{"add_nodes":[{"name":"d","gpus":{"T4":1},"cpu":3}]}`, "/scenarios/0/add_nodes/0/cpu", "unknown_field"},
		{`{"add_nodes":[{"name":"a","gpus":{"T4":1}}]}`, "/scenarios/0/add_nodes/0/name", "duplicate_id"},
		{`{"add_gpus":7}`, "/scenarios/0/add_gpus", "wrong_type"},
		{`{"set_quota":[{"user":"ann"}]}`, "/scenarios/0/set_quota/0", "missing_field"},
		{`{"set_quota":[{"user":"ann","gpus":-1}]}`, "/scenarios/0/set_quota/0/gpus", "out_of_range"},
		{`{"drop_after":{"job":"z"}}`, "/scenarios/0/drop_after/job", "unknown_job"},
		{`{"drop_after":[{"job":"x","after":"y"}]}`, "/scenarios/0/drop_after/0/after", "unknown_job"},
		{`{"scale_durations":0}`, "/scenarios/0/scale_durations", "out_of_range"},
		{`{"scale_durations":{"z":2}}`, "/scenarios/0/scale_durations/z", "unknown_job"},
		{`{"scale_durations":9000000000}`, "/scenarios/0", "too_large"},
		{`{"add_gpus":{"type":"","count":1}}`, "/scenarios/0", "bad_name"},
		{`{"add_gpus":{"type":"V100","count":1,"name":"a"}}`, "/scenarios/0/add_gpus/name", "duplicate_id"},
		{`{"add_gpus":{"type":"V100","count":1,"name":"a/b"}}`, "/scenarios/0", "bad_name"},
		{`{"add_gpus":{"type":"V100","count":1048576}}`, "/scenarios/0", "too_large"},
		{`{"remove_gpus":{"node":"b","count":1}}`, "/scenarios/0/remove_gpus/node", "unknown_node"},
		{`{"remove_gpus":{"node":"a","count":1}}`, "/scenarios/0/remove_gpus", "missing_field"},
		{`{"remove_gpus":{"node":"a","type":"K80","count":1}}`, "/scenarios/0/remove_gpus/type", "unknown_type"},
		{`{"remove_gpus":[{"node":"b-0","count":3}]}`, "/scenarios/0/remove_gpus/0/count", "out_of_range"},
		{`{"remove_gpus":[{"node":"b-0","count":2},{"node":"b-0","count":1}]}`, "/scenarios/0/remove_gpus/1/type",
			"unknown_type"},
		{`{"drain":{"node":"b-2","at_s":1}}`, "/scenarios/0/drain/node", "unknown_node"},
		{`{"drain":{"node":"b-0"}}`, "/scenarios/0/drain", "missing_field"},
		{`{"drain":{"node":"b-0","at_s":-1}}`, "/scenarios/0/drain/at_s", "out_of_range"},
		{`{"drain":[{"node":"a","at_s":0},{"node":"b-0","at_s":0},{"node":"b-1","at_s":0}]}`, "/scenarios/0",
			"no_gpus"},
		{`{"remove_jobs":["z"]}`, "/scenarios/0/remove_jobs/0", "unknown_job"},
		{`{"remove_jobs":["x","x"]}`, "/scenarios/0/remove_jobs/1", "duplicate_id"},
		{`{"remove_jobs":[3]}`, "/scenarios/0/remove_jobs/0", "wrong_type"},
		{`{"add_jobs":[{"id":"x","on":{"T4":{"compute_s":1}}}]}`, "/scenarios/0/add_jobs/0/id", "duplicate_id"},
		{`{"add_jobs":[{"id":"n","on":{"T4":{"compute_s":1}}},{"id":"n","on":{"T4":{"compute_s":1}}}]}`,
			"/scenarios/0/add_jobs/1/id", "duplicate_id"},
		{`{"add_jobs":[{"id":"n","weight":-1,"on":{"T4":{"compute_s":1}}}]}`, "/scenarios/0/add_jobs/0/weight",
			"out_of_range"},
		{`{"add_jobs":[{"id":"n","colour":1,"on":{"T4":{"compute_s":1}}}]}`, "/scenarios/0/add_jobs/0/colour",
			"unknown_field"},
		{`{"add_jobs":[{"id":"n"}]}`, "/scenarios/0/add_jobs/0", "missing_field"},
		{`{"scale_weights":0.5}`, "/scenarios/0/scale_weights", "too_many_decimals"},
		{`{"scale_weights":-1}`, "/scenarios/0/scale_weights", "out_of_range"},
		{`{"scale_weights":{"z":1}}`, "/scenarios/0/scale_weights/z", "unknown_job"},
		{`{"scale_weights":{"y":9000000000}}`, "/scenarios/0/scale_weights/y", "too_large"},
		{`{"scale_weights":{"x":1,"y":"2"}}`, "/scenarios/0/scale_weights/y", "wrong_type"},
		{`{"options":{"work_limit":-1}}`, "/scenarios/0/options/work_limit", "out_of_range"},
		{`{"options":{"detail":"lanes"}}`, "/scenarios/0/options/detail", "not_allowed"},
		{`{"options":{"speed":1}}`, "/scenarios/0/options/speed", "unknown_field"},
		{`{"patch":{}}`, "/scenarios/0/patch", "wrong_type"},
		{`{"patch":[{"op":"add","path":"/jobs/-"}]}`, "/scenarios/0/patch/0", "missing_field"},
		{`{"patch":[{"op":"add","value":1}]}`, "/scenarios/0/patch/0", "missing_field"},
		{`{"patch":[{"op":"move","path":"/jobs"}]}`, "/scenarios/0/patch/0", "missing_field"},
		{`{"patch":[{"op":"move","path":"/jobs/0/on","from":"/jobs/0"}]}`, "/scenarios/0/patch/0/path", "bad_path"},
		{`{"patch":[{"op":"remove","path":""}]}`, "/scenarios/0/patch/0/path", "bad_path"},
		{`{"patch":[{"op":"remove","path":"jobs"}]}`, "/scenarios/0/patch/0/path", "bad_path"},
		{`{"patch":[{"op":"remove","path":"/jobs/~2"}]}`, "/scenarios/0/patch/0/path", "bad_path"},
		{`{"patch":[{"op":"jump","path":"/jobs"}]}`, "/scenarios/0/patch/0/op", "unknown_value"},
		{`{"patch":[{"op":"remove","path":"/jobs","x":1}]}`, "/scenarios/0/patch/0/x", "unknown_field"},
	} {
		req, err := whatIf(t, c.scenario)
		if err == nil {
			_, err = req.Scenarios[0].Apply(req.Base.Instance)
		}
		var faults hare.InvalidErrors
		if !errors.As(err, &faults) {
			t.Errorf("%s: %v", c.scenario, err)
			continue
		}
		if faults[0].Pointer != c.pointer || faults[0].Code != c.code {
			t.Errorf("%s: %v, want %s at %s", c.scenario, faults, c.code, c.pointer)
		}
	}
}

func TestWhatIfDocumentFaults(t *testing.T) {
	base := `"base":{"instance":` + whatIfBase + `}`
	for _, c := range []struct{ doc, pointer, code string }{
		{`[]`, "", "wrong_type"},
		{`{` + base + `}`, "", "missing_field"},
		{`{"scenarios":[]}`, "", "missing_field"},
		{`{"base":{},"scenarios":[]}`, "/base", "missing_field"},
		{`{"base":{"solve_id":"s","instance":` + whatIfBase + `},"scenarios":[]}`, "/base", "not_allowed"},
		{`{"base":{"solve_id":"s","result":{"hare":"result/v1"}},"scenarios":[]}`, "/base", "not_allowed"},
		{`{"base":{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":0}}]},"jobs":[]}},` +
			`"scenarios":[]}`, "/base/instance/cluster/nodes/0/gpus/A", "out_of_range"},
		{`{` + base + `,"scenarios":[],"prune":{}}`, "/prune", "missing_field"},
		{`{` + base + `,"scenarios":[],"prune":{"below_s":-1}}`, "/prune/below_s", "out_of_range"},
		{`{` + base + `,"scenarios":[],"prune":{"below":1}}`, "/prune/below", "unknown_field"},
		{`{` + base + `,"scenarios":[],"ordered":1}`, "/ordered", "wrong_type"},
		{`{` + base + `,"scenarios":[` + strings.Repeat("{},", whatifdoc.MaxScenarios) + `{}]}`, "/scenarios/1000",
			"too_many"},
		{`{` + base + `,"scenarios":[],"scenarios":[]}`, "/scenarios", "duplicate_name"},
	} {
		_, err := whatifdoc.Decode(strings.NewReader(c.doc), wire.Limits{})
		var faults hare.InvalidErrors
		if !errors.As(err, &faults) || faults[0].Pointer != c.pointer || faults[0].Code != c.code {
			t.Errorf("%.80s: %v, want %s at %s", c.doc, err, c.code, c.pointer)
		}
	}
}

// everything is a request that has each field of each part.
const everything = `{"base":{"instance":` + whatIfBase + `,"result":{"hare":"result/v1","instance_sha256":"` +
	`0000000000000000000000000000000000000000000000000000000000000000","version":"1","seed":1,"status":"succeeded",` +
	`"termination":"work_limit","reproducible":true,"objective":"weighted_jct","value":null,"bound":null,"gap":null,` +
	`"options":{},"engine":{}}},"scenarios":[{"id":"s",
 "patch":[{"op":"test","path":"/hare","value":"instance/v1"},{"op":"copy","from":"","path":"/name"}],
 "remove_jobs":["y"],"scale_weights":{"x":2},"scale_durations":0.5,"drop_after":{"job":"x","after":"y"},
 "add_jobs":[{"id":"z","on":{"T4":{"compute_s":1}}}],"set_quota":[{"user":"ann","gpus":3,"types":["T4"]}],
 "remove_gpus":{"node":"a","type":"T4","count":1},"drain":[{"node":"b-0","at_s":0},{"node":"b-1","at_s":25.5}],
 "add_gpus":[{"type":"T4","count":1,"name":"n"},{"type":"T4","count":2}],
 "add_nodes":[{"name":"d","count":2,"gpus":{"T4":4},"cpus":32}],
 "options":{"work_limit":0,"seed":-6,"degrade":false}}],
 "options":{"time_limit_s":1.5,"work_limit":5,"gap":0,"seed":3,"bound":"machine"},"prune":{"below_s":0.25},
 "ordered":true,"name":"night","labels":{"team":"vision"}}`

// encode returns the document of a request.
func encode(t *testing.T, req *whatifdoc.Request) string {
	t.Helper()
	var b strings.Builder
	if err := req.EncodeJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A request that is encoded and decoded again means the same: a client writes what a server
// reads.
func TestEncodeJSON(t *testing.T) {
	req, err := whatifdoc.Decode(strings.NewReader(everything), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	text := encode(t, req)
	again, err := whatifdoc.Decode(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if diff := cmp.Diff(req, again, cmpopts.IgnoreUnexported(whatifdoc.Scenario{}),
		cmpopts.EquateComparable(hare.Amount{})); diff != "" {
		t.Error(diff)
	}
	parts := []string{"WhatIfRequest", "WhatIfBase", "Prune", "Scenario", "RemoveGPUs", "Drain", "AddGPUs", "DropAfter",
		"PatchOperation"}
	for todo := []wire.Form{whatifdoc.Form}; len(todo) > 0; todo = append(todo[1:], todo[0].Parts()...) {
		if !slices.Contains(parts, todo[0].Name()) {
			continue // the documents of package wire
		}
		for _, name := range todo[0].Names() {
			if name != "solve_id" && !strings.Contains(text, `"`+name+`":`) {
				t.Errorf("%s of %s is not in %s", name, todo[0].Name(), text)
			}
		}
	}
	batch := hare.Options{Seed: 1, Gap: 0.01, WorkLimit: 100, Degrade: true}
	if o := again.Scenarios[0].Options.Over(batch); o.WorkLimit != 0 || o.Seed != -6 || o.Degrade || o.Gap != 0.01 {
		t.Errorf("the scenario's options: %+v", o)
	}
	if err := (&whatifdoc.Request{}).EncodeJSON(io.Discard); err == nil {
		t.Error("a request without a base is encoded")
	}
}

// A request that can be decoded is applied or refused, and an applied one gives a valid
// instance. The encoded request decodes to one that gives the same instances.
func FuzzWhatIf(f *testing.F) {
	for _, s := range []string{
		`{"add_gpus":{"type":"H100","count":8}}`, `{"remove_gpus":{"node":"a","type":"T4","count":1}}`,
		`{"drain":[{"node":"b-0","at_s":15}]}`,
		`{"remove_jobs":["x"],"add_jobs":[{"id":"x","on":{"A":{"compute_s":1}}}],"scale_weights":{"y":3}}`,
		`{"patch":[{"op":"add","path":"/jobs/-","value":{}}],"options":{"seed":4}}`,
		`{"drop_after":{"job":"x"},"set_quota":[{"user":"ann","gpus":0}],"scale_durations":{"x":2,"y":0.5}}`,
		`{"add_nodes":[{"name":"d","count":2,"gpus":{"T4":4}}],"options":{"work_limit":0}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		req, err := whatifdoc.Decode(strings.NewReader(
			`{"base":{"instance":`+whatIfBase+`},"scenarios":[`+text+`]}`), wire.Limits{})
		if err != nil {
			return
		}
		sent := encode(t, req)
		same, err := whatifdoc.Decode(strings.NewReader(sent), wire.Limits{})
		if err != nil || encode(t, same) != sent {
			t.Fatalf("%s: %v", sent, err)
		}
		for i := range req.Scenarios {
			inst, err := req.Scenarios[i].Apply(req.Base.Instance)
			other, failed := same.Scenarios[i].Apply(same.Base.Instance)
			if (err == nil) != (failed == nil) || err == nil && wire.SHA256(inst) != wire.SHA256(other) {
				t.Fatalf("%s: %v and %v", sent, err, failed)
			}
			if err != nil {
				continue
			}
			if again, err := wire.DecodeInstance(strings.NewReader(written(t, inst)), wire.Limits{}); err != nil {
				t.Fatalf("%s: %v", text, err)
			} else if wire.SHA256(again) != wire.SHA256(inst) {
				t.Fatalf("%s: another instance after decoding", text)
			}
		}
	})
}
