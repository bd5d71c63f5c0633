package trace_test

import (
	"testing"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

func TestAddDeadlines(t *testing.T) {
	inst, err := trace.PhillyNodes(trace.PhillyNodesConfig{Jobs: 11, Load: 1, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := trace.ParseDeadlines("0.5:2")
	if err != nil {
		t.Fatal(err)
	}
	cfg.LateWeight, cfg.Seed = 3, 3
	if err := trace.AddDeadlines(inst, cfg); err != nil {
		t.Fatal(err)
	}
	due := 0
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.DeadlineUs == 0 {
			continue
		}
		due++
		least := min(j.On[0].ComputeUs, j.On[1].ComputeUs)
		if got := j.DeadlineUs - j.ReleaseUs; got != 2*least {
			t.Errorf("job %s is due %d µs after its release, and its least time is %d", j.ID, got, least)
		}
		if j.LateWeightMicro != 3*j.WeightMicro {
			t.Errorf("job %s has a late weight of %d", j.ID, j.LateWeightMicro)
		}
	}
	if due != 6 {
		t.Errorf("%d of 11 jobs have deadlines, want 6", due)
	}
	if inst.Objective != hare.ObjectiveJCTAndTardiness {
		t.Errorf("the objective is %s", inst.Objective)
	}
	if err := inst.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "0.5", "2:2", "-1:2", "0.5:0", "0.5:x", "NaN:1", "0.5:inf"} {
		if _, err := trace.ParseDeadlines(bad); err == nil {
			t.Errorf("deadlines %q were accepted", bad)
		}
	}
}
