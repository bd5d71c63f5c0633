package study_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

func requestOf(t *testing.T, doc string) *simulatedoc.Request {
	t.Helper()
	d, err := simulatedoc.Decode(strings.NewReader(doc), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// us returns a pointer to a time, which means that the request gives the time.
func us(n int64) *int64 { return &n }

const threePolicies = `{"policies":["fifo","srtf","kueue"],"instance":{"hare":"instance/v1",` +
	`"cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},
	"jobs":[{"id":"x","on":{"V100":{"compute_s":10}}}]}}`

func TestRequest(t *testing.T) {
	r := requestOf(t, `{"policies":["hlas"],"trace":{"text":"x\n","table_name":"y","quantum_s":2.5},"jobs":[3,9],`+
		`"seed":4,"repeat":5,"restart_s":0.5,"interval_s":30,"prices":{"V100":0.74}}`)
	if r.Trace.Name != "" || string(r.Trace.Text) != "x\n" || r.Trace.TableName != "y" || r.Trace.Table != nil ||
		r.Trace.QuantumUs != 2_500_000 {
		t.Errorf("%+v", r.Trace)
	}
	if r.First != 3 || r.Last != 9 || r.Seed != 4 || r.Repeat != 5 || r.LeaseUs != nil || r.ResetUs != nil ||
		*r.RestartUs != 500_000 || r.IntervalS != 30 || len(r.Prices) != 1 ||
		r.Prices[0] != (simulatedoc.TypePrice{Type: "V100", Micro: 740_000}) {
		t.Errorf("%+v", r)
	}
	if r = requestOf(t, `{"policies":["hlas"],"trace":{"name":"x"},"reset_s":0}`); *r.ResetUs != 0 ||
		r.IntervalS != 0 ||
		r.Prices != nil || r.Trace.Text != nil || r.Trace.Name != "x" {
		t.Errorf("%+v", r)
	}
}

// A request that is encoded and decoded is unchanged.
func TestDocument(t *testing.T) {
	for _, text := range []string{
		`{"policies":["hlas","srtf"],"trace":{"text":"x\n","format":"gavel","table":"y","quantum_s":2.5,"sync":"rigid"},` +
			`"gpus":{"K80":2,"V100":1},"jobs":[3,9],"seed":4,"repeat":5,
			"lease_s":10,"reset_s":0,"restart_s":0.5,"interval_s":30,"prices":{"V100":2.48,"K80":0.135},"cdf":true,` +
			`"faults":[{"gpu":"v100/0","from_s":1},{"node":"k80","from_s":2,"until_s":3.5}],"fault_rate":{"gpu_mean_s":100,` +
			`"gpu_repair_s":5},
			"failures":{"probability":0.25,"per_gpu_hour":3},"stragglers":true,"switch_s":0.5,
			"parameters":{"hlas":{"thresholds_s":[60],"queues":2}}}`,
		`{"policies":["hlas"],"trace":{"name":"x","table_name":"z"}}`,
		`{"policies":["hlas"],"generate":{"jobs":20,"arrivals":"none","sync":"gang","grain_s":0.1},"merge_s":60,` +
			`"cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]}}`,
		threePolicies,
	} {
		r := requestOf(t, text)
		var b bytes.Buffer
		if err := r.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		again := requestOf(t, b.String())
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("%s\n%s", b.String(), diff)
		}
	}
}

// A request beyond a limit is refused before any simulation.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		lim     study.Limits
		doc     string
		pointer string
	}{
		{study.Limits{Runs: 2}, threePolicies, "/policies"},
		{study.Limits{Runs: 3}, strings.Replace(threePolicies, `{`, `{"repeat":2,`, 1), "/repeat"},
		{study.Limits{Jobs: 4}, `{"policies":["fifo"],"generate":{"jobs":5}}`, "/generate/jobs"},
		{study.Limits{Sum: 2}, threePolicies, "/instance"},
		{study.Limits{GPUs: 2}, strings.Replace(threePolicies, `"V100":1`, `"V100":3`, 1), ""},
		{study.Limits{Faults: 5}, strings.Replace(strings.Replace(threePolicies, `"V100":1`, `"V100":3`, 1), `{`,
			`{"faults":[{"node":"a","from_s":1,"until_s":2},{"node":"a","from_s":4,"until_s":5}],`, 1), "/faults"},
		{study.Limits{Matched: 4}, `{"policies":["fifo","sched_allox"],"generate":{"jobs":5}}`, "/policies/1"},
		{study.Limits{Work: 9}, `{"policies":["fifo"],"generate":{"jobs":5}}`, "/generate/jobs"},
		{study.Limits{GPUs: 63}, `{"policies":["pollux:tiresias"],"trace":{"name":"pollux_workload_6.csv"}}`, ""},
		{study.Limits{Jobs: 9}, `{"policies":["gavel:fifo"],"trace":{"name":"gavel_trace_continuous5600_single.csv"}}`,
			"/trace"},
	} {
		req := requestOf(t, c.doc)
		_, err := study.Simulate(t.Context(), req, study.Config{Limits: c.lim})
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Code != "too_large" || fault.Pointer != c.pointer {
			t.Errorf("%+v: %v", c.lim, err)
		}
	}
	for _, doc := range []string{
		threePolicies,
		// Policies of leases do not simulate rounds one by one, and neither do policies with merged
		// rounds.
		strings.Replace(strings.Replace(threePolicies, `"fifo","srtf","kueue"`, `"gavel:fifo_perf"`, 1), `"id":"x"`,
			`"id":"x","rounds":5`, 1),
		strings.Replace(strings.Replace(threePolicies, `{`, `{"merge_s":60,`, 1), `"id":"x"`,
			`"id":"x","sync":"gang","rounds":5`, 1),
	} {
		req := requestOf(t, doc)
		if _, err := study.Simulate(t.Context(), req,
			study.Config{Limits: study.Limits{Runs: 3, Jobs: 1, Sum: 3, Work: 1, GPUs: 1, Faults: 1}}); err != nil {
			t.Error(err)
		}
	}
}

// A policy that would need too much memory is refused by its name.
func TestTooManyThatWait(t *testing.T) {
	req := requestOf(t, `{"policies":["gavel:allox"],"generate":{"jobs":1}}`)
	req.Generate = nil
	req.Instance = &hare.Instance{Cluster: hare.Cluster{
		Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 9}}}}}}
	for i := range 4000 {
		req.Instance.Jobs = append(req.Instance.Jobs, hare.Job{
			ID: strconv.Itoa(i), WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}})
	}
	var run *study.RunError
	if _, err := study.Simulate(t.Context(), req, study.Config{}); !errors.As(err, &run) || run.Code != "too_large" ||
		run.Policy != "gavel:allox" {
		t.Error(err)
	}
}
