package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

const costPolicy = "gavel:max_sum_throughput_normalized_by_cost_perf"

// TestSimulationOfElasticJobs compares with Pollux's simulator at its default
// interval of 60 s and at 30 s.
func TestSimulationOfElasticJobs(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	for _, c := range []struct {
		more string
		mean float64
	}{
		{"", 3469.69375},
		{`,"interval_s":60`, 3469.69375},
		{`,"interval_s":30`, 3416.5},
		{`,"interval_s":30,"gpus":{"T4":64}`, 3416.5},
	} {
		text, a := simulated(t, h, `{"policies":["pollux:tiresias"],"trace":{"name":"pollux_workload_6.csv"}`+c.more+`}`)
		if len(a.Runs) != 1 || a.Runs[0]["mean_jct_s"] != c.mean || a.Runs[0]["engine"] != "elastic" ||
			a.Runs[0]["jobs"] != 160.0 {
			t.Errorf("%s: %.600s; the mean should be %v", c.more, text, c.mean)
		}
	}
}

// TestSimulationWithPrices checks that policies of cost give the same result over
// HTTP as in the process. Gavel's prices are the default; with a K80 that costs
// almost nothing the result differs.
func TestSimulationWithPrices(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	ask := func(prices string) string {
		return `{"policies":["` + costPolicy +
			`"],"trace":{"name":"gavel_trace_small_test.csv"},"gpus":{"V100":2,"P100":2,"K80":2}` + prices + `}`
	}
	runs := func(prices string, with []simulatedoc.TypePrice) string {
		text, _ := simulated(t, h, ask(prices))
		var got struct{ Runs []study.Run }
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Runs) != 1 {
			t.Fatal(err, text)
		}
		doc, err := simulatedoc.Decode(strings.NewReader(ask("")), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		req := doc
		req.Prices = with
		rep, err := study.Simulate(t.Context(), req, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		there, _ := json.Marshal(got.Runs)
		here, _ := json.Marshal(rep.Runs)
		if string(here) != string(there) {
			t.Errorf("%s: over HTTP\n%s\nin the process\n%s", prices, there, here)
		}
		return string(there)
	}
	none := runs("", nil)
	if gavel := runs(`,"prices":{"V100":0.74,"P100":0.43,"K80":0.135}`,
		[]simulatedoc.TypePrice{{Type: "K80", Micro: 135_000},
			{Type: "P100", Micro: 430_000}, {Type: "V100", Micro: 740_000}}); gavel != none {
		t.Errorf("Gavel's prices give\n%s\nand none\n%s", gavel, none)
	}
	// No GPU is a T4; its price is ignored.
	if cheap := runs(`,"prices":{"V100":2.48,"P100":1.46,"K80":0.001,"T4":0.35}`,
		[]simulatedoc.TypePrice{{Type: "K80", Micro: 1000},
			{Type: "P100", Micro: 1_460_000}, {Type: "V100", Micro: 2_480_000}}); cheap == none {
		t.Errorf("prices change nothing: %s", cheap)
	}
}

func TestSimulationFieldsRefusals(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	const elastic, cost = `{"policies":["pollux:tiresias"],"trace":{"name":"pollux_workload_6.csv"}`, `{"policies":["` +
		costPolicy + `"],"trace":{"name":"small_test"}`
	for _, c := range []struct {
		body, pointer, code, detail string
		status                      int
	}{
		{elastic + `,"interval_s":0}`, "/interval_s", "out_of_range", "at least 1", 422},
		{elastic + `,"interval_s":-60}`, "/interval_s", "out_of_range", "at least 1", 422},
		{elastic + `,"interval_s":0.5}`, "/interval_s", "wrong_type", "whole number", 422},
		{elastic + `,"interval_s":1e10}`, "/interval_s", "too_large", "1000000000", 422},
		{elastic + `,"interval_s":1e999}`, "/interval_s", "too_large", "", 422},
		{elastic + `,"interval_s":"60"}`, "/interval_s", "wrong_type", "must be a number", 422},
		{elastic + `,"interval_s":Infinity}`, "/interval_s", "malformed", "", 400},
		{elastic + `,"intervall_s":60}`, "/intervall_s", "unknown_field", `did you mean \"interval_s\"`, 422},
		{elastic + `,"restart_s":0.5}`, "/restart_s", "not_whole", "whole number of seconds", 422},
		{cost + `,"prices":{}}`, "/prices", "no_prices", "", 422},
		{cost + `,"prices":{"V100":0}}`, "/prices/V100", "out_of_range", "must be positive", 422},
		{cost + `,"prices":{"V100":-0.74}}`, "/prices/V100", "out_of_range", "must not be negative", 422},
		{cost + `,"prices":{"V100":1e999}}`, "/prices/V100", "too_large", "", 422},
		{cost + `,"prices":{"V100":NaN}}`, "/prices/V100", "malformed", "", 400},
		{cost + `,"prices":{"V100":0.0000001}}`, "/prices/V100", "too_many_decimals", "", 422},
		{cost + `,"prices":{"V100":null}}`, "/prices/V100", "wrong_type", "", 422},
		{cost + `,"prices":2.48}`, "/prices", "wrong_type", "", 422},
		{cost + `,"prices":{"V100":1,"p100":1,"K8O":1}}`, "/prices", "no_price",
			`GPU type \"K80\" has no price above 0 for an hour; those with one are K8O, V100, p100`, 422},
		{`{"policies":["` + costPolicy +
			`"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T4":1}}]},"jobs":[{"id":"x",` +
			`"on":{"T4":{"compute_s":1}}}]}}`, "/policies/0", "no_price", `\"T4\"`, 422},
		{`{"policies":["hlas","` + costPolicy + `_SLOs"],"trace":{"name":"small_test"}}`, "/policies/1", "lacking", "slo",
			422},
	} {
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			w := request(t, h, "POST", "/v1/simulations", c.body, "Accept", kind)
			var p struct {
				Errors []struct{ Pointer, Code string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != c.status || len(p.Errors) != 1 ||
				p.Errors[0].Pointer != c.pointer || p.Errors[0].Code != c.code || !strings.Contains(w.Body.String(), c.detail) {
				t.Errorf("%s: %d %s", c.body, w.Code, w.Body)
			}
		}
	}
	// Prices that are far apart still give figures.
	if w := request(t, h, "POST", "/v1/simulations",
		cost+`,"gpus":{"V100":4,"P100":4,"K80":4},"prices":{"V100":9000000000,"P100":0.000001,`+
			`"K80":1}}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestSimulationLabels checks that the labels are in the report, in the summary
// line, and in the answer when the time limit passes.
func TestSimulationLabels(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	const want = `"labels":{"ticket":"4711","who":"é\"<"}`
	for _, c := range []struct{ body, kind string }{
		{traceBody(t, `"fifo"`, `,`+want), "application/json"},
		{traceBody(t, `"fifo"`, `,`+want), "application/x-ndjson"},
		{`{"policies":["gavel:max_min_fairness_perf"],"trace":{"name":"gavel_trace_continuous5600_single.csv"},` +
			`"gpus":{"V100":36,"P100":36,"K80":36},"time_limit_s":0.05,` + want + `}`, "application/json"},
	} {
		w := request(t, h, "POST", "/v1/simulations", c.body, "Accept", c.kind)
		var lines []struct {
			Labels  map[string]string
			Summary struct{ Labels map[string]string }
		}
		for d := json.NewDecoder(w.Body); d.More(); {
			lines = append(lines, struct {
				Labels  map[string]string
				Summary struct{ Labels map[string]string }
			}{})
			if err := d.Decode(&lines[len(lines)-1]); err != nil {
				t.Fatal(err)
			}
		}
		last := lines[len(lines)-1]
		got := last.Labels
		if c.kind == "application/x-ndjson" {
			got = last.Summary.Labels
		}
		if w.Code != http.StatusOK || len(got) != 2 || got["ticket"] != "4711" || got["who"] != "é\"<" {
			t.Errorf("%.100s as %s: %d, labels %v", c.body, c.kind, w.Code, got)
		}
	}
}
