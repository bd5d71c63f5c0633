package experiment

import (
	"context"
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
)

// stepper is what the simulator asks of a policy.
type stepper interface {
	Step(nowUs int64, events []hare.Event) ([]hare.Decision, error)
}

// told gives a policy other profiles than the engine goes by: plans are made of
// them, and arrivals bring them. Everything else, as the measured times of tasks,
// stays true.
type told struct {
	policy stepper
	on     map[string][]hare.Profile // by job
	events []hare.Event
}

// Step is online.Policy.Step.
func (t *told) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	t.events = append(t.events[:0], events...)
	for i := range t.events {
		if e := &t.events[i]; e.Arrived != nil {
			j := *e.Arrived
			j.On = t.on[j.ID]
			e.Arrived = &j
		}
	}
	return t.policy.Step(nowUs, t.events)
}

// newPolicy makes the policy of a run.
func newPolicy(ctx context.Context, c *Case, info task.Info, cfg task.Config) (stepper, error) {
	if c.Told == nil {
		return info.New(ctx, c.Inst, sim.Cluster(c.Inst), cfg)
	}
	p, err := info.New(ctx, c.Told, sim.Cluster(c.Told), cfg)
	if err != nil {
		return nil, err
	}
	t := &told{policy: p, on: map[string][]hare.Profile{}}
	for i := range c.Told.Jobs {
		t.on[c.Told.Jobs[i].ID] = c.Told.Jobs[i].On
	}
	return t, nil
}

// wrong is inst with each compute time and each synchronisation time multiplied
// by a factor of its own, uniform in 1 ± share, to the millisecond. The same seed
// draws the same deviations whatever the share.
func wrong(inst *hare.Instance, share float64, seed uint64) *hare.Instance {
	rng := rand.New(rand.NewPCG(seed, 0x546f6c64)) // "Told"
	out := *inst
	out.Jobs = append([]hare.Job(nil), inst.Jobs...)
	off := func(us int64) int64 {
		factor := 1 + share*(2*rng.Float64()-1)
		return int64(float64(us)*factor/1000+0.5) * 1000
	}
	for i := range out.Jobs {
		j := &out.Jobs[i]
		j.On = append([]hare.Profile(nil), j.On...)
		for k := range j.On {
			j.On[k].ComputeUs = max(1000, off(j.On[k].ComputeUs))
			j.On[k].SyncUs = off(j.On[k].SyncUs)
		}
	}
	return &out
}
