package place

import (
	"bytes"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// threeNodes has jobs of 4, 4, 4 and 8 GPUs on three servers of 8. When the wide job
// starts, half of each of two servers is free, and the third one is empty.
func threeNodes(rounds int64) (*model.Model, *Plan) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for _, name := range []string{"a", "b", "c"} {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "V100", Count: 8}}})
	}
	plan := &Plan{}
	add := func(id string, width, compute, start int64) {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: id, WeightMicro: 1e6, Rounds: rounds, Tasks: width,
			Sync: hare.Rigid,
			On:   []hare.Profile{{Type: "V100", ComputeUs: compute}}})
		plan.Jobs = append(plan.Jobs, []room.Block{{Width: int32(width), Tasks: 1, Rounds: rounds, StartUs: start * rounds,
			PeriodUs: compute, HoldUs: compute}})
		plan.EndUs = append(plan.EndUs, (start+compute)*rounds)
	}
	add("short", 4, 10, 0)
	add("long", 4, 90, 0)
	add("middle", 4, 90, 0)
	add("wide", 8, 10, 10)
	return model.New(inst), plan
}

func TestWideJobGetsTheEmptyNode(t *testing.T) {
	for _, rounds := range []int64{1, 1_000_000_000} { // a run of rounds takes as long as one round
		m, plan := threeNodes(rounds)
		var before []byte
		for range 3 {
			s, err := plan.Schedule(m)
			if err != nil {
				t.Fatal(err)
			}
			if value, _, faults := verify.ScheduleValue(m.Instance, s); len(faults) > 0 ||
				value.Cmp(plan.Value(m)) != 0 {
				t.Fatal(value, faults)
			}
			for _, l := range s.Lanes {
				for _, job := range l.Job {
					if s.Jobs[job] == "wide" && l.GPU[0] != 'c' {
						t.Errorf("the wide job got %s", l.GPU)
					}
				}
			}
			var b bytes.Buffer
			if err := wire.EncodeResult(&b, &hare.Result{Schedule: s}); err != nil {
				t.Fatal(err)
			}
			if before != nil && !bytes.Equal(before, b.Bytes()) {
				t.Error("the same plan gave other bytes")
			}
			before = b.Bytes()
		}
	}
}
