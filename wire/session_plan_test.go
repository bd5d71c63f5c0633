package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

func TestSessionPlanSurvivesEncoding(t *testing.T) {
	value, bound := hare.Product(1e6, 12e6), hare.Product(1e6, 10e6)
	for text, plan := range map[string]*wire.SessionPlan{
		`{"policy":"rolling","seq":0,"at_s":0,"made_at_s":null,"due":true,"fallback":"hgittins","value":null,"bound":null,` +
			`"gap":null,"jobs":[]}`: {Policy: "rolling", MadeUs: -1, Due: true, Fallback: "hgittins"},
		`{"policy":"rolling","seq":7,"at_s":3.5,"made_at_s":0,"due":false,"fallback":null,"value":12,"bound":10,"gap":0.2,` +
			`"jobs":[{"job":"a","running":true,"rounds_left":3,"types":["T4"],"start_s":0,"end_s":9,"earliest_end_s":null},` +
			`{"job":"b","running":false,"rounds_left":1,"types":[],"start_s":null,"end_s":null,"earliest_end_s":4.000001,` +
			`"waits_for":"a GPU"}]}`: {Policy: "rolling", Seq: 7, AtUs: 3_500_000, Value: &value, Bound: &bound,
			Jobs: []wire.SessionPlanJob{
				{Job: "a", Running: true, Rounds: 3, Types: []string{"T4"}, EndUs: 9e6, EarliestEndUs: -1},
				{Job: "b", Rounds: 1, StartUs: -1, EndUs: -1, EarliestEndUs: 4_000_001, WaitsFor: "a GPU"},
			}},
	} {
		if got := string(wire.AppendSessionPlan(nil, plan)); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
		got, err := wire.DecodeSessionPlan([]byte(text))
		if diff := cmp.Diff(plan, got, cmp.AllowUnexported(hare.Amount{})); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`{}`, `"policy" is missing`},
		{`[]`, "must be an object"},
		{`{"jobs":[{"start_s":-1}]}`, "/jobs/0/start_s: -1 must not be negative"},
		{`{"value":"1"}`, "/value: must be a number"},
	} {
		if _, err := wire.DecodeSessionPlan([]byte(c.text)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}
