package trace

import (
	"testing"

	hare "github.com/hare-sched/hare"
)

func TestMold(t *testing.T) {
	inst, err := PhillyNodes(PhillyNodesConfig{Jobs: 20, Sync: "gang", Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	before := inst.Jobs[0]
	cfg := MoldConfig{Widths: []int64{1, 8, 12}, PerNode: 8, Reshape: true, ReshapeUs: 5, SwitchUs: 7}
	if err := Mold(inst, cfg); err != nil {
		t.Fatal(err)
	}
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	j := inst.Jobs[0]
	if len(j.Shapes) != 3 || !j.Reshape || j.ReshapeUs != 5 || j.Rounds != before.Rounds {
		t.Fatalf("%+v", j)
	}
	if s := j.Shapes[2]; s.Tasks != 2 || s.GPUsPerTask != 6 || s.On[0].SwitchUs != 7 {
		t.Errorf("12 GPUs: %+v", s)
	}
	// 8 times as many GPUs are 8^0.8 = 5.28 times as fast.
	one, eight := float64(j.Shapes[0].On[0].ComputeUs), float64(j.Shapes[1].On[0].ComputeUs)
	if x := one / eight; x < 5.27 || x > 5.29 {
		t.Errorf("8 GPUs are %.3f times as fast as one", x)
	}
	for name, cfg := range map[string]MoldConfig{
		"a width of 0":            {Widths: []int64{0}},
		"a change among one":      {Widths: []int64{2}, Reshape: true},
		"shapes of a relaxed job": {Widths: []int64{1, 2}},
	} {
		bad := &hare.Instance{Jobs: []hare.Job{{ID: "x", Tasks: 1, Rounds: 1}}}
		bad.Jobs[0].Sync = hare.Relaxed
		if Mold(bad, cfg) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
