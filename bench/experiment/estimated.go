package experiment

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
)

// stepper is the part of a policy that the simulator calls.
type stepper interface {
	Step(nowUs int64, events []hare.Event) ([]hare.Decision, error)
}

// told changes what a policy learns of the jobs that arrive. The engine keeps the true
// profiles, so all other figures, such as the measured times of tasks, are true.
type told struct {
	policy stepper
	on     map[string][]hare.Profile // the estimated profiles by job; nil for the true ones
	hints  map[string]*hare.JobHints // what the user says, by job
	events []hare.Event
}

// Step calls the policy with the changed arrivals of jobs.
func (to *told) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	to.events = append(to.events[:0], events...)
	for i := range to.events {
		e := &to.events[i]
		if e.Arrived == nil {
			continue
		}
		j := *e.Arrived
		if j.Hints = to.hints[j.ID]; to.on != nil {
			j.On = to.on[j.ID]
		}
		e.Arrived = &j
	}
	return to.policy.Step(nowUs, to.events)
}

// WakeUs is online.Waker.WakeUs of the policy, where it wants ticks.
func (to *told) WakeUs() int64 {
	if w, ok := to.policy.(interface{ WakeUs() int64 }); ok {
		return w.WakeUs()
	}
	return math.MaxInt64
}

// toldPlanned is a told for the policy that follows plans, so that the simulator makes the
// plans with the latency that it is given.
type toldPlanned struct {
	*rolling.Policy
	told *told
}

// Step calls the policy with the changed arrivals of jobs.
func (tp *toldPlanned) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	return tp.told.Step(nowUs, events)
}

// newPolicy makes the policy of a run.
func newPolicy(ctx context.Context, c *Case, info policies.Info, cfg policies.Config) (stepper, error) {
	inst := c.Inst
	if c.Estimated != nil {
		inst = c.Estimated
	}
	p, err := info.New(ctx, inst, cfg)
	if err != nil || c.Estimated == nil && c.Hints == nil {
		return p, err
	}
	to := &told{policy: p, hints: c.Hints}
	if c.Estimated != nil {
		to.on = map[string][]hare.Profile{}
		for i := range inst.Jobs {
			to.on[inst.Jobs[i].ID] = inst.Jobs[i].On
		}
	}
	if r, ok := p.(*rolling.Policy); ok {
		return &toldPlanned{r, to}, nil
	}
	return to, nil
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
