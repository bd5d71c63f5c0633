package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// TestSimulate checks that the answer line by line and the answer as one document
// are equal.
func TestSimulate(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	ask := &simulatedoc.Request{Policies: []string{"srtf", "gavel:fifo_perf"}, Instance: instance(t), Repeat: 2, Seed: 5,
		CDF: true, Detail: "jobs", TimeLimit: 20 * time.Second}
	got, err := c.Simulate(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != "succeeded" || got.Asked != 4 || len(got.Runs) != 4 || len(got.Means) != 2 {
		t.Fatalf("%+v", got)
	}
	if r := got.Runs[1]; r.Policy != "srtf" || r.Seed != 6 || !r.Verified || len(r.Each) != len(ask.Instance.Jobs) ||
		*r.Each[0].EndS > r.MakespanS || len(r.CDF.Share) == 0 {
		t.Errorf("%+v", r)
	}
	lines := simulatedoc.Answer{Runs: []simulatedoc.Run{}}
	for l, err := range c.FollowSimulation(t.Context(), ask) {
		if err != nil {
			t.Fatal(err)
		}
		switch l.Kind {
		case "run":
			lines.Runs = append(lines.Runs, *l.Run)
		case "summary":
			lines.Status, lines.Asked, lines.Summary = l.Summary.Status, l.Summary.Asked, l.Summary.Summary
		}
	}
	if diff := cmp.Diff(got, &lines); diff != "" {
		t.Error(diff)
	}
	for range c.FollowSimulation(t.Context(), ask) {
		break
	}
	var p *client.Problem
	ask.Policies = []string{"srft"}
	if _, err := c.Simulate(t.Context(), ask); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity ||
		p.Faults[0].Pointer != "/policies/0" {
		t.Error(err)
	}
	ask.Policies = nil
	if _, err := c.Simulate(t.Context(), ask); err == nil {
		t.Error("no policies")
	}
}

// TestSimulateIntervalAndPrices checks the figures of Pollux's simulator at 30 s,
// and a policy of cost with prices and without.
func TestSimulateIntervalAndPrices(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	got, err := c.Simulate(t.Context(), &simulatedoc.Request{Policies: []string{"pollux:tiresias"},
		Trace: &simulatedoc.Trace{Name: "pollux_workload_6.csv"}, IntervalS: 30, TimeLimit: 20 * time.Second})
	if err != nil || len(got.Runs) != 1 || got.Runs[0].MeanJCTS != 3416.5 {
		t.Errorf("%v %+v", err, got)
	}
	ask := &simulatedoc.Request{
		Policies: []string{"gavel:max_sum_throughput_normalized_by_cost_perf"},
		Trace:    &simulatedoc.Trace{Name: "small_test"},
		GPUs:     []hare.TypeCount{{Type: "K80", Count: 8}, {Type: "V100", Count: 2}}, TimeLimit: 20 * time.Second,
		Prices: []simulatedoc.TypePrice{{Type: "K80", Micro: 135_000}, {Type: "V100", Micro: 2_480_000}},
	}
	if got, err = c.Simulate(t.Context(), ask); err != nil || len(got.Runs) != 1 {
		t.Errorf("%v %+v", err, got)
	}
	ask.Prices = ask.Prices[:1]
	var p *client.Problem
	if _, err = c.Simulate(t.Context(), ask); !errors.As(err, &p) || p.Code != "no_price" ||
		p.Faults[0].Pointer != "/prices" {
		t.Error(err)
	}
}

// TestSimulationFailsBehindARun checks that a run that fails after another one ends
// the answer with an error, and that the request is not sent again.
func TestSimulationFailsBehindARun(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	inst, err := wire.DecodeInstance(strings.NewReader(
		`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}},{"name":"b","gpus":{"V100":2},`+
			`"in_service_s":[[0,6]]}]},"jobs":[
		{"id":"first","tasks":4,"sync":"gang","on":{"V100":{"compute_s":1}}},
		{"id":"long","release_s":0.2,"tasks":2,"sync":"gang","on":{"V100":{"compute_s":4}}},
		{"id":"wide","release_s":0.3,"tasks":4,"sync":"gang","on":{"V100":{"compute_s":3}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ask := &simulatedoc.Request{Policies: []string{"srtf", "kueue"}, Instance: inst}
	var runs int
	var last error
	for l, err := range c.FollowSimulation(t.Context(), ask) {
		if last = err; err == nil && l.Kind == "run" {
			runs++
		}
	}
	if runs != 1 || !isProblem(last, http.StatusUnprocessableEntity, "stalled") || k.count("POST /v1/simulations") != 1 {
		t.Errorf("%d runs, then %v", runs, last)
	}
	// A request whose answer breaks off is sent again, unless the caller has
	// already got a part of the answer.
	ask.Policies = ask.Policies[:1]
	k.set(func() { k.lose["POST /v1/simulations"] = 1 })
	if s, err := c.Simulate(t.Context(), ask); err != nil || len(s.Runs) != 1 || k.count("POST /v1/simulations") != 3 {
		t.Errorf("%v, sent %d times", err, k.count("POST /v1/simulations"))
	}
}
