package explain_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

const twoRacks = `{"hare": "instance/v1", "cluster": {"topology": ["rack"], "nodes": [
	{"name": "a", "gpus": {"A": 2}, "labels": {"rack": "r"}}, {"name": "b", "gpus": {"A": 2}, "labels": {"rack": "s"}}]},
	"jobs": [
	{"id": "one", "sync": "rigid", "on": {"A": {"compute_s": 10}}, "progress": {"gpus": ["a/0"]}},
	{"id": "two", "sync": "rigid", "on": {"A": {"compute_s": 20}}, "progress": {"gpus": ["b/0"]}},
	{"id": "near", "sync": "gang", "tasks": 2, "rounds": 2, "within": "rack", "on": {"A": {"compute_s": 4}}},
	{"id": "far", "sync": "gang", "tasks": 2, "on": {"A": {"compute_s": 4, "sync_s": {"node": 1, "any": 5}}}}]}`

// A round within a rack waits until one rack has the GPUs, and a round that is spread says what that
// costs.
func TestExplainLevels(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(twoRacks), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sched := &hare.Schedule{Jobs: []string{"one", "two", "near", "far"}, Lanes: []hare.Lane{
		{GPU: "a/0", Job: []int32{2}, Rounds: []int64{2}, StartUs: []int64{10e6}, PeriodUs: []int64{4e6}},
		{GPU: "a/1", Job: []int32{3, 2}, Rounds: []int64{1, 2}, StartUs: []int64{0, 10e6}, PeriodUs: []int64{0, 4e6}},
		{GPU: "b/1", Job: []int32{3}, StartUs: []int64{0}},
	}}
	value, _, faults := verify.ScheduleValue(inst, sched)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	res := &hare.Result{Objective: inst.Objective, Schedule: sched, Value: &value}
	a, err := explain.Explain(context.Background(), inst, res, explain.Request{Job: "near"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, w := range a.Timeline[0].Waits {
		causes = append(causes, w.Cause)
		if w.Within != "rack" || w.Cause == "fragmented" && (w.FromS != 9e6 || w.ToS != 10e6 || w.Need != 2 || w.Free != 2) {
			t.Errorf("%+v", w)
		}
	}
	if !slices.Equal(causes, []string{"held", "fragmented"}) {
		t.Errorf("near waits for %v", causes)
	}
	a, err = explain.Explain(context.Background(), inst, res, explain.Request{Job: "far"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := a.Timeline[0]
	if len(at.Spread) != 1 || at.Spread[0].Level != "any" || at.Spread[0].RoundS != 9e6 || at.Spread[0].MoreS != 4e6 ||
		at.ToS != 9e6 {
		t.Errorf("far: %+v", at)
	}
}

// Explanations of optimal plans of tiny instances with levels end when the jobs do, no round could have
// started while its wait says that too little is free, and the rounds of a job are all counted by
// level.
func TestExplainRandomLevels(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	waits, spread := map[string]int{}, 0
	for seed := range seeds {
		inst := brute.RandomLevels(rand.New(rand.NewPCG(seed, 71)))
		_, sched, done := brute.OptimumOnNodes(inst, 5000)
		if !done || sched == nil {
			continue
		}
		value, ends, faults := verify.ScheduleValue(inst, sched)
		if len(faults) > 0 {
			t.Fatal(seed, faults)
		}
		res := &hare.Result{Objective: inst.Objective, Schedule: sched, Value: &value}
		for i := range inst.Jobs {
			a, err := explain.Explain(context.Background(), inst, res, explain.Request{Job: inst.Jobs[i].ID}, nil)
			if err != nil {
				t.Fatalf("seed %d, job %d: %v", seed, i, err)
			}
			last := a.Timeline[len(a.Timeline)-1]
			if int64(last.ToS) != ends[i] {
				t.Errorf("seed %d, job %d ends at %d: %+v", seed, i, ends[i], last)
			}
			for _, s := range a.Timeline {
				covered := int64(0)
				for _, w := range s.Waits {
					waits[w.Cause]++
					covered = max(covered, int64(w.ToS))
				}
				if len(s.Waits) > 0 && covered != int64(s.ToS) {
					t.Errorf("seed %d, job %d: waits to %d of %+v", seed, i, covered, s)
				}
				rounds := int64(0)
				for _, x := range s.Spread {
					spread++
					rounds += x.Rounds
				}
				if len(s.Spread) > 0 && rounds != s.Rounds {
					t.Errorf("seed %d, job %d: %d of %d rounds by level", seed, i, rounds, s.Rounds)
				}
			}
		}
	}
	t.Log(waits, spread)
	if !testing.Short() && (waits["fragmented"] < 3 || spread < 20) {
		t.Errorf("waits %v, %d spreads", waits, spread)
	}
}
