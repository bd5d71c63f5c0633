package planner_test

import (
	"context"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/planner"
)

// A plan lets the jobs of a quota follow each other, behind what they hold already, and others run
// beside them.
func TestPlansGoByQuotas(t *testing.T) {
	job := func(user string) planner.Job {
		return planner.Job{WeightMicro: 1e6, Tasks: 2, Sync: hare.Gang, Rounds: 10, Users: []string{user},
			On: []planner.Mode{{Type: 0, DurationUs: 1e6}}}
	}
	q := &planner.Question{Types: []string{"A"}, FreeUs: [][]int64{make([]int64, 6)},
		Jobs:   []planner.Job{job("ann"), job("ann"), job("bob")},
		Quotas: []hare.Quota{{User: "ann", GPUs: 2}},
		Held:   []planner.Held{{Users: []string{"ann"}, Type: 0, Count: 2, UntilUs: 7e6}}}
	plan, err := planner.Make(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	first := min(plan.Rows[0][0].StartUs, plan.Rows[1][0].StartUs)
	last := max(plan.Rows[0][0].StartUs, plan.Rows[1][0].StartUs)
	if first != 7e6 || last != 17e6 || plan.Rows[2][0].StartUs != 0 {
		t.Errorf("the jobs of the quota start at %d and %d µs, the other at %d: want 7 s, 17 s and 0", first, last,
			plan.Rows[2][0].StartUs)
	}
}
