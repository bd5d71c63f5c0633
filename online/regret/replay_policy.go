package regret

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// replayPolicy is a policy that learns from the simulator what it would have learned in
// the session: jobs arrive as they did there, with the speeds and hints that their users
// gave, and a task that runs where it ran there is measured as it was.
type replayPolicy struct {
	online.Policy
	replay *replay
	event  [1]hare.Event
}

// plannedReplayPolicy is a replayPolicy that follows plans made aside.
type plannedReplayPolicy struct {
	online.Planned
	told replayPolicy
}

var (
	_ online.Waker   = (*replayPolicy)(nil)
	_ online.Waker   = (*plannedReplayPolicy)(nil)
	_ online.Planned = (*plannedReplayPolicy)(nil)
)

// Step is online.Policy.Step.
func (p *plannedReplayPolicy) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	return p.told.Step(nowUs, events)
}

// WakeUs is online.Waker.WakeUs of the policy.
func (p *plannedReplayPolicy) WakeUs() int64 { return p.told.WakeUs() }

// WakeUs is online.Waker.WakeUs of the policy: the replay sends the ticks that this policy asks for, not those of
// the session.
func (rp *replayPolicy) WakeUs() int64 { return online.WakeUs(rp.Policy) }

// learning returns a policy that is given what the policy of the session was given.
func (rp *replay) learning(p online.Policy) online.Policy {
	told := replayPolicy{Policy: p, replay: rp}
	if planned, ok := p.(online.Planned); ok {
		return &plannedReplayPolicy{planned, told}
	}
	return &told
}

// Step is online.Policy.Step, of one event as the simulator sends them.
func (rp *replayPolicy) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	e := events[0]
	i, ok := rp.replay.jobOf[e.Job]
	if !ok {
		return rp.Policy.Step(nowUs, events)
	}
	j := &rp.replay.jobs[i]
	switch e.Type {
	case hare.EventJobArrived:
		spec := *e.Arrived
		spec.On, spec.Hints = j.on, j.past.job.Hints
		e.Arrived = &spec
	case hare.EventTaskEnded:
		t := &j.tasks[(e.Round-j.past.first)*j.past.job.Tasks+e.Task]
		if x := t.stayed(j.past.job.Sync); x.ComputeUs == e.ComputeUs && x.SyncUs == e.SyncUs {
			e.ComputeUs, e.SyncUs = t.computeUs, t.syncUs
		}
	case hare.EventTaskFailed:
		j.failed[[2]int64{e.Round, e.Task}]++
	case hare.EventJobEnded:
		j.over = true
	}
	rp.event[0] = e
	return rp.Policy.Step(nowUs, rp.event[:])
}

// known are the profiles of a job whose types have known times.
func known(given, times []hare.Profile) []hare.Profile {
	return slices.DeleteFunc(slices.Clone(given), func(p hare.Profile) bool {
		return !slices.ContainsFunc(times, func(q hare.Profile) bool { return q.Type == p.Type })
	})
}
