package capacity_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

const instance = `"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},` +
	`"jobs":[{"id":"x","on":{"V100":{"compute_s":10}}}]}`

// TestDecode reads every field, and what is written is read as the same.
func TestDecode(t *testing.T) {
	got, err := capacitydoc.Decode(strings.NewReader(`{`+instance+`,"begins":"2026-11-16","options":["V100=8"],`+
		`"policies":["now","rolling"],"now":"fifo","prices":{"V100":2.48,"K80":0},"goal":"p95 wait <= 1h","share":0.8,`+
		`"buy":{"V100":64,"K80":8},"weeks":4,"days":5,"growth":1.3,"seed":0,"time_limit_s":20,"name":"n",`+
		`"labels":{"a":"b"}}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := &capacitydoc.Request{Instance: got.Instance, Begins: time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC),
		Options: []string{"V100=8"}, Policies: []string{"now", "rolling"}, Now: "fifo",
		Prices: map[string]float64{"V100": 2.48, "K80": 0}, Goal: "p95 wait <= 1h", Share: 0.8,
		Buy:   []hare.TypeCount{{Type: "K80", Count: 8}, {Type: "V100", Count: 64}},
		Weeks: 4, Days: 5, Growth: 1.3, Seed: new(int64), TimeLimit: 20 * time.Second,
		Tags: wire.Tags{Name: "n", Labels: map[string]string{"a": "b"}}}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Instance.Jobs) != 1 {
		t.Error(diff)
	}
	var b bytes.Buffer
	if err := got.EncodeJSON(&b); err != nil {
		t.Fatal(err)
	}
	again, err := capacitydoc.Decode(&b, wire.Limits{})
	if diff := cmp.Diff(got, again); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestFaults(t *testing.T) {
	for doc, want := range map[string]string{
		`{}`: " missing_field", `{` + instance + `,"solve_id":"x"}`: " not_allowed", `{"solve_id":""}`: " missing_field",
		`{"solve_id":"x","begins":"soon"}`: "/begins bad_time", `{"solve_id":"x","weeks":0}`: "/weeks out_of_range",
		`{"solve_id":"x","growth":101}`: "/growth out_of_range", `{"solve_id":"x","share":1.1}`: "/share out_of_range",
		`{"solve_id":"x","buy":{}}`:           "/buy no_gpus",
		`{"solve_id":"x","prices":{"A":-1}}`:  "/prices/A out_of_range",
		`{"solve_id":"x","options":["a",7]}`:  "/options/1 wrong_type",
		`{"solve_id":"x","option":["V100"]}`:  "/option unknown_field",
		`{"solve_id":"x","buy":{"A":100001}}`: "", // for package sim/capacity
	} {
		_, err := capacitydoc.Decode(strings.NewReader(doc), wire.Limits{})
		got := ""
		if one := (*hare.InvalidError)(nil); errors.As(err, &one) {
			got = one.Pointer + " " + one.Code
		}
		if got != want {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{` + instance + `,"options":["V100=8"],"buy":{"V100":1},"goal":"p95 wait <= 1h","prices":{"V100":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := capacitydoc.Decode(strings.NewReader(text), wire.Limits{MaxBytes: 1 << 16})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := r.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := capacitydoc.Decode(&b, wire.Limits{}); err != nil {
			t.Fatalf("%v: %s", err, b.String())
		}
	})
}
