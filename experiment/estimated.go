package experiment

import (
	"context"
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy/task"
)

// stepper is the part of a policy that the simulator calls.
type stepper interface {
	Step(nowUs int64, events []hare.Event) ([]hare.Decision, error)
}

// misprofiled gives a policy estimated profiles in place of the true profiles: the policy
// plans with the estimated profiles, and the arrivals of jobs have them. The engine keeps
// the true profiles, so all other figures, such as the measured times of tasks, are true.
type misprofiled struct {
	policy stepper
	on     map[string][]hare.Profile // the estimated profiles by job
	events []hare.Event
}

// Step calls the policy with estimated profiles in the arrivals of jobs.
func (mp *misprofiled) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	mp.events = append(mp.events[:0], events...)
	for i := range mp.events {
		if e := &mp.events[i]; e.Arrived != nil {
			j := *e.Arrived
			j.On = mp.on[j.ID]
			e.Arrived = &j
		}
	}
	return mp.policy.Step(nowUs, mp.events)
}

// newPolicy makes the policy of a run.
func newPolicy(ctx context.Context, c *Case, info task.Info, cfg task.Config) (stepper, error) {
	if c.Estimated == nil {
		return info.New(ctx, c.Inst, cfg)
	}
	p, err := info.New(ctx, c.Estimated, cfg)
	if err != nil {
		return nil, err
	}
	m := &misprofiled{policy: p, on: map[string][]hare.Profile{}}
	for i := range c.Estimated.Jobs {
		m.on[c.Estimated.Jobs[i].ID] = c.Estimated.Jobs[i].On
	}
	return m, nil
}

// estimated returns a copy of inst in which each compute time and each synchronisation time
// is multiplied by a factor of its own, uniform in 1 ± share, and rounded to milliseconds.
// The deviations of one seed are in proportion to the share.
func estimated(inst *hare.Instance, share float64, seed uint64) *hare.Instance {
	rng := rand.New(rand.NewPCG(seed, 0x546f6c64)) // no other random numbers use this stream
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
