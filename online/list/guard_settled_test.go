package list_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// eager is a scheduler that looks at the quotas of all jobs at each event.
type eager struct{ *list.Scheduler }

func (e eager) Step(nowUs int64, events []hare.Event) (out []hare.Decision, err error) {
	for i := range events {
		e.Unsettle()
		more, err := e.Scheduler.Step(nowUs, events[i:i+1])
		if err != nil {
			return out, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// TestSettledQuotas plays jobs of users with quotas, many of which arrive at once: a scheduler that looks at the
// quotas
// of arrived jobs alone decides as one that looks at those of all jobs each time.
func TestSettledQuotas(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		inst.Cluster.Nodes = []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "a", Count: 6}}}}
		inst.Quota = []hare.Quota{{User: "ann", GPUs: 3 + rng.Int64N(2)}, {User: "bob", GPUs: 3}}
		for i := range 40 {
			inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint(i), WeightMicro: 1e6, Rounds: 1 + rng.Int64N(3),
				Tasks: 1 + rng.Int64N(3), Sync: []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid}[rng.IntN(3)],
				ReleaseUs: rng.Int64N(6) * 20e6, Users: []string{[]string{"ann", "bob", "cem"}[rng.IntN(3)]},
				On: []hare.Profile{{Type: "a", ComputeUs: 1e6 + rng.Int64N(50e6)}}})
		}
		var logs [2][]string
		backs := 0
		for k := range logs {
			l := list.New(sim.Cluster(inst), guardedRules(list.GuardConfig{Kappa: 1})["hgittins"])
			cfg := sim.Config{NoSchedule: true, Log: func(r wire.Record) error {
				backs += l.HeldBack()
				logs[k] = append(logs[k], fmt.Sprint(r.Event.Type, r.Event.Job, r.Decisions, l.HeldBack(), len(l.Due())))
				return nil
			}}
			var err error
			if k == 0 {
				_, err = sim.Run(t.Context(), inst, l, cfg)
			} else {
				_, err = sim.Run(t.Context(), inst, eager{l}, cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(logs[0]) != fmt.Sprint(logs[1]) || backs == 0 {
			t.Errorf("seed %d: the two differ, or no quota holds a job back (%d)", seed, backs)
		}
	}
}
