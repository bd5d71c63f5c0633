package simulate_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

func TestDecode(t *testing.T) {
	got, err := simulatedoc.Decode(strings.NewReader(
		`{"policies":["hlas","gavel:fifo"],"trace":{"text":"a\nb","format":"gavel","table":"t","quantum_s":2.5,`+
			`"sync":"rigid"},
		"gpus":{"V100":36,"K80":12},"jobs":[4000,4999],"seed":7,"repeat":3,"lease_s":360,"reset_s":0,"restart_s":1.5,`+
			`"interval_s":30,"prices":{"V100":2.48,"K80":0.000001},"cdf":true,"detail":"jobs","time_limit_s":20}`),
		wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	us := func(n int64) *int64 { return &n }
	want := &simulatedoc.Request{
		Policies: []string{"hlas", "gavel:fifo"}, Trace: &simulatedoc.Trace{Text: []byte("a\nb"), Format: "gavel",
			Table:     []byte("t"),
			QuantumUs: 2_500_000, Sync: "rigid"},
		GPUs: []hare.TypeCount{{Type: "K80", Count: 12}, {Type: "V100", Count: 36}}, First: 4000, Last: 4999, Seed: 7,
		Repeat:  3,
		LeaseUs: us(360e6), ResetUs: us(0), RestartUs: us(1.5e6), IntervalS: 30,
		Prices: []simulatedoc.TypePrice{{Type: "K80", Micro: 1}, {Type: "V100", Micro: 2_480_000}}, CDF: true,
		Detail:    "jobs",
		TimeLimit: 20 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = simulatedoc.Decode(strings.NewReader(
		`{"policies":["srtf"],"generate":{"jobs":20,"arrivals":"poisson:0.5","sync":"gang","grain_s":0.1},
		"merge_s":60,"faults":[{"gpu":"a-0/1","from_s":1,"until_s":2.5},{"node":"a-1","from_s":0},{"node":"a-1",`+
			`"from_s":7,"until_s":null}],"fault_rate":{"gpu_mean_s":100,"gpu_repair_s":5},
		"failures":{"probability":0.25,"per_gpu_hour":3},"stragglers":true,"switch_s":0.5,`+
			`"cluster":{"nodes":[{"name":"a","count":2,"gpus":{"V100":2}}]}}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&simulatedoc.Generate{Jobs: 20, Arrivals: "poisson:0.5", Sync: "gang", GrainUs: 100_000},
		got.Generate); diff != "" || len(got.Cluster.Nodes) != 2 {
		t.Errorf("%s %v", diff, got.Cluster)
	}
	faults := []simulatedoc.Fault{{GPU: "a-0/1", FromUs: 1e6, UntilUs: 2.5e6}, {Node: "a-1", UntilUs: hare.Forever},
		{Node: "a-1", FromUs: 7e6, UntilUs: hare.Forever}}
	if diff := cmp.Diff(faults, got.Faults); diff != "" ||
		got.FaultRate != (simulatedoc.FaultRate{GPUMeanUs: 100e6, GPURepairUs: 5e6}) ||
		got.Failures != (simulatedoc.Failures{Probability: 0.25, PerGPUHour: 3}) || got.MergeUs != 60e6 ||
		!got.Stragglers || got.SwitchUs != 500_000 {
		t.Errorf("%s %+v", diff, got)
	}
}

func TestSimulationFaults(t *testing.T) {
	for _, c := range []struct{ doc, pointer, code string }{
		{`[]`, "", "wrong_type"},
		{`{`, "", "malformed"},
		{`{}`, "", "missing_field"},
		{`{"policies":"hlas"}`, "/policies", "wrong_type"},
		{`{"policies":[1]}`, "/policies/0", "wrong_type"},
		{`{"policies":[` + strings.Repeat(`"x",`, 1000) + `"x","x"]}`, "/policies/1000", "too_many"},
		{`{"policies":["x"],"polices":[]}`, "/polices", "unknown_field"},
		{`{"policies":["x"],"trace":7}`, "/trace", "wrong_type"},
		{`{"policies":["x"],"trace":{}}`, "/trace", "missing_field"},
		{`{"policies":["x"],"trace":{"name":"a","text":"b"}}`, "/trace", "not_allowed"},
		{`{"policies":["x"],"trace":{"name":"a","table":"b","table_name":"c"}}`, "/trace", "not_allowed"},
		{`{"policies":["x"],"trace":{"text":"b","sync":"relaxed"}}`, "/trace/sync", "unknown_value"},
		{`{"policies":["x"],"trace":{"text":"b","quantum_s":0}}`, "/trace/quantum_s", "out_of_range"},
		{`{"policies":["x"],"trace":{"text":"b","file":"/etc/passwd"}}`, "/trace/file", "unknown_field"},
		{`{"policies":["x"],"generate":{"jobs":0}}`, "/generate/jobs", "out_of_range"},
		{`{"policies":["x"],"gpus":{}}`, "/gpus", "no_gpus"},
		{`{"policies":["x"],"gpus":{"A":0}}`, "/gpus/A", "out_of_range"},
		{`{"policies":["x"],"gpus":{"A":600000,"B":600000}}`, "/gpus", "too_large"},
		{`{"policies":["x"],"cluster":{"nodes":[{"name":"a","gpus":{"A":0}}]}}`, "/cluster/nodes/0/gpus/A",
			"out_of_range"},
		{`{"policies":["x"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]}}}`,
			"/instance", "missing_field"},
		{`{"policies":["x"],"jobs":[1]}`, "/jobs", "wrong_type"},
		{`{"policies":["x"],"jobs":[9,1]}`, "/jobs", "out_of_range"},
		{`{"policies":["x"],"jobs":[9,"1"]}`, "/jobs/1", "wrong_type"},
		{`{"policies":["x"],"seed":-1}`, "/seed", "out_of_range"},
		{`{"policies":["x"],"repeat":0}`, "/repeat", "out_of_range"},
		{`{"policies":["x"],"lease_s":0}`, "/lease_s", "out_of_range"},
		{`{"policies":["x"],"reset_s":-1}`, "/reset_s", "out_of_range"},
		{`{"policies":["x"],"restart_s":0.0000001}`, "/restart_s", "too_many_decimals"},
		{`{"policies":["x"],"interval_s":0}`, "/interval_s", "out_of_range"},
		{`{"policies":["x"],"interval_s":-30}`, "/interval_s", "out_of_range"},
		{`{"policies":["x"],"interval_s":1.5}`, "/interval_s", "wrong_type"},
		{`{"policies":["x"],"interval_s":1000000001}`, "/interval_s", "too_large"},
		{`{"policies":["x"],"interval_s":1e400}`, "/interval_s", "too_large"},
		{`{"policies":["x"],"interval_s":"30"}`, "/interval_s", "wrong_type"},
		{`{"policies":["x"],"interval_s":null}`, "/interval_s", "wrong_type"},
		{`{"policies":["x"],"interval_s":NaN}`, "/interval_s", "malformed"},
		{`{"policies":["x"],"prices":{}}`, "/prices", "no_prices"},
		{`{"policies":["x"],"prices":[1]}`, "/prices", "wrong_type"},
		{`{"policies":["x"],"prices":{"A/B":0}}`, "/prices/A~1B", "out_of_range"},
		{`{"policies":["x"],"prices":{"A":1,"B":-1}}`, "/prices/B", "out_of_range"},
		{`{"policies":["x"],"prices":{"A":1e400}}`, "/prices/A", "too_large"},
		{`{"policies":["x"],"prices":{"A":Infinity}}`, "/prices/A", "malformed"},
		{`{"policies":["x"],"prices":{"A":"1"}}`, "/prices/A", "wrong_type"},
		{`{"policies":["x"],"prices":{"A":0.0000001}}`, "/prices/A", "too_many_decimals"},
		{`{"policies":["x"],"prices":{"A":1,"A":2}}`, "/prices/A", "duplicate_name"},
		{`{"policies":["x"],"price":{"A":1}}`, "/price", "unknown_field"},
		{`{"policies":["x"],"labels":{"a":1}}`, "/labels/a", "wrong_type"},
		{`{"policies":["x"],"labels":["a"]}`, "/labels", "wrong_type"},
		{`{"policies":["x"],"labels":{"a":"` + strings.Repeat("é", 201) + `"}}`, "/labels/a", "too_large"},
		{`{"policies":["x"],"labels":{` + strings.TrimSuffix(manyLabels(65), ",") + `}}`, "/labels", "too_many"},
		{`{"policies":["x"],"detail":"job"}`, "/detail", "unknown_value"},
		{`{"policies":["x"],"time_limit_s":86401}`, "/time_limit_s", "out_of_range"},
		{`{"policies":["x"],"merge_s":0}`, "/merge_s", "out_of_range"},
		{`{"policies":["x"],"faults":[{"gpu":"a/0","from_s":1},{}]}`, "/faults/1", "missing_field"},
		{`{"policies":["x"],"faults":[{"gpu":"a/0","node":"a","from_s":1}]}`, "/faults/0", "not_allowed"},
		{`{"policies":["x"],"faults":[{"gpu":"a/0"}]}`, "/faults/0", "missing_field"},
		{`{"policies":["x"],"faults":[{"gpu":"a/0","from_s":3,"until_s":3}]}`, "/faults/0/until_s", "out_of_range"},
		{`{"policies":["x"],"faults":[{"gpu":"a/0","from_s":3,"until":3}]}`, "/faults/0/until", "unknown_field"},
		{`{"policies":["x"],"fault_rate":{"gpu_mean_s":3}}`, "/fault_rate", "missing_field"},
		{`{"policies":["x"],"failures":{"probability":1}}`, "/failures/probability", "out_of_range"},
		{`{"policies":["x"],"switch_s":-1}`, "/switch_s", "out_of_range"},
		{`{"policies":["x"],"parameters":[]}`, "/parameters", "wrong_type"},
		{`{"policies":["x"],"parameters":{"x":1}}`, "/parameters/x", "wrong_type"},
		{`{"policies":["x"],"parameters":{"x":{},"x":{}}}`, "/parameters/x", "duplicate_name"},
		{`{"policies":["x"],"stragglers":1}`, "/stragglers", "wrong_type"},
		{`{"policies":["x"],"policies":["y"]}`, "/policies", "duplicate_name"},
	} {
		_, err := simulatedoc.Decode(strings.NewReader(c.doc), wire.Limits{})
		var faults hare.InvalidErrors
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Pointer != c.pointer || faults[0].Code != c.code {
			t.Errorf("%.80s: %v, want %s at %s", c.doc, err, c.code, c.pointer)
		}
	}
}

func manyLabels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":"x",`, i)
	}
	return b.String()
}

const twoNodes = `{"hare":"instance/v1","cluster":{"nodes":[
 {"name":"a","gpus":{"T4":2,"V100":3},"busy":[{"gpu":0,"until_s":1}]},
 {"name":"b","count":2,"gpus":{"T4":2},"in_service_s":[[0,10],[20,null]]}]},
 "jobs":[{"id":"x","weight":0.000003,"on":{"T4":{"compute_s":1}}},{"id":"y","weight":2,"on":{"T4":{"compute_s":1}}}]}`

// A decoded request is encoded in a form that decodes to the same request.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"policies":["hlas"],"trace":{"text":"a\nb","format":"gavel","table":"t","quantum_s":2.5,"sync":"rigid"},` +
			`"gpus":{"V100":36},"jobs":[1,4],"lease_s":360,"reset_s":0,"interval_s":30,"prices":{"V100":2.48,"K/80":1e-6}}`,
		`{"policies":["hlas"],"instance":` + twoNodes +
			`,"restart_s":1,"merge_s":60,"faults":[{"gpu":"a/1","from_s":1,` +
			`"until_s":2.5},{"node":"b","from_s":0}],"fault_rate":{"node_mean_s":100,"node_repair_s":5},` +
			`"failures":{"probability":0.25},"stragglers":true,"switch_s":0.5,"cdf":true,"detail":"jobs","time_limit_s":20,` +
			`"repeat":2,"seed":9,"labels":{"ticket":"47\"11","":"é"}}`,
		`{"policies":[],"generate":{"jobs":20,"arrivals":"none","grain_s":1},"cluster":{"nodes":[{"name":"a","count":2,` +
			`"gpus":{"V100":2},"in_service_s":[[0,5],[7,null]],"busy":[{"gpu":1,"until_s":4}]}]}}`,
		`{"policies":["x"],"failures":{"per_gpu_hour":9007199254.740991}}`,
		`{"policies":["x"],"parameters":{"y":{"b": [1e3, "é"], "b": null},"x":{}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := simulatedoc.Decode(strings.NewReader(text), wire.Limits{MaxBytes: 1 << 16})
		if err != nil || len(doc.Policies) == 0 {
			return
		}
		var b bytes.Buffer
		if err := doc.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, err := simulatedoc.Decode(bytes.NewReader(b.Bytes()), wire.Limits{})
		if err != nil {
			t.Fatalf("%v: %s", err, b.Bytes())
		}
		if diff := cmp.Diff(doc, again); diff != "" {
			t.Fatalf("%s\n%s", b.Bytes(), diff)
		}
	})
}
