package explain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// A waiting job names running work, reservations, quotas and the jobs for which it waits, until
// the times at which these end.
func TestExplainCausesOfRules(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1","objective":"jct_and_tardiness",
		"cluster":{"nodes":[{"name":"a","gpus":{"A":2}},{"name":"b","gpus":{"B":1}},{"name":"c","gpus":{"C":2}}],
			"reservations":[{"nodes":{"node":"b"},"until_s":30,"users":["ops"]}]},
		"quota":[{"user":"ann","gpus":1}],
		"jobs":[
			{"id":"r","sync":"rigid","on":{"A":{"compute_s":60}},"progress":{"gpus":["a/0"],"elapsed_s":10}},
			{"id":"x","sync":"rigid","tasks":2,"on":{"A":{"compute_s":10}},"deadline_s":55,"late_weight":2},
			{"id":"y","sync":"rigid","on":{"A":{"compute_s":4}},"after":[{"job":"x","lag_s":5}]},
			{"id":"z","sync":"gang","on":{"B":{"compute_s":3}}},
			{"id":"p","sync":"rigid","user":"ann","on":{"C":{"compute_s":10}}},
			{"id":"q","sync":"rigid","user":"ann","on":{"C":{"compute_s":10}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := &hare.Schedule{Jobs: []string{"r", "x", "y", "z", "p", "q"}, Lanes: []hare.Lane{
		{GPU: "a/0", Job: []int32{1, 2}, StartUs: []int64{50_000_000, 65_000_000}},
		{GPU: "a/1", Job: []int32{1}, StartUs: []int64{50_000_000}},
		{GPU: "b/0", Job: []int32{3}, StartUs: []int64{30_000_000}},
		{GPU: "c/0", Job: []int32{4}, StartUs: []int64{0}},
		{GPU: "c/1", Job: []int32{5}, StartUs: []int64{10_000_000}}}}
	value, _, faults := verify.ScheduleValue(inst, s)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	res := &hare.Result{Objective: inst.Objective, Schedule: s, Value: &value}
	for job, want := range map[string]string{
		"r": `[{"state":"running","from_s":0,"to_s":50,"round":0,"rounds":1,"gpus":{"A":1}}]`,
		"x": `"cause":"held","from_s":0,"to_s":50,"for_s":50,"need":2,"need_s":10,"free":1,` +
			`"jobs":[{"job":"r","gpus":1,"until_s":50}]`,
		"y": `"cause":"after","from_s":0,"to_s":65,"for_s":65,"need":0,"need_s":0,"free":0,"until_s":65,` +
			`"jobs":[{"job":"x","gpus":0,"until_s":65}]`,
		"z": `"cause":"reserved","from_s":0,"to_s":30,"for_s":30,"need":1,"need_s":3,"free":0,"until_s":30`,
		"q": `"cause":"quota","user":"ann","from_s":0,"to_s":10,"for_s":10,"need":1,"need_s":10,"free":1,` +
			`"jobs":[{"job":"p","gpus":1,"until_s":10}]`,
	} {
		a, err := explain.Static(inst, res, explain.Request{Job: job})
		if err != nil {
			t.Errorf("%s: %v", job, err)
			continue
		}
		text, err := json.Marshal(a.Timeline)
		if err != nil || !strings.Contains(string(text), want) || len(a.Timeline) > 2 {
			t.Errorf("%s: %s", job, text)
		}
		switch job {
		case "x": // 60 of the job itself, and 5 s late at 2 a second
			if *a.LateS != 5_000_000 || a.Cost.String() != "70" || a.LeastS != 10_000_000 {
				t.Errorf("x: late %v, cost %s, least %v", a.LateS, a.Cost, a.LeastS)
			}
		case "r":
			if a.StartS != 0 || a.EndS != 50_000_000 || a.LeastS != 50_000_000 || a.Share != 0 {
				t.Errorf("r: %+v", a.Times)
			}
		}
	}
}
