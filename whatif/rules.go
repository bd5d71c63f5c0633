package whatif

import (
	"slices"

	"github.com/hare-sched/hare"
)

// knownRules are the kinds of rules by which scenarios go.
const knownRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations | hare.RuleQuota |
	hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleDurations

// rulesEasier reports whether the rules of job l beyond nodes allow each start of a plan of job
// t, and whether l costs no more where it ends no later: equal work runs at time 0, the same
// users count it, it waits for no other jobs and no longer, and no deadline of t is later or
// weighs less.
func rulesEasier(l, t *hare.Job) bool {
	if l.FirstRound() != t.FirstRound() || l.Running() != t.Running() || !slices.Equal(l.Users, t.Users) {
		return false
	}
	if l.Running() && (!slices.Equal(l.Progress.GPUs, t.Progress.GPUs) || l.Progress.ElapsedUs != t.Progress.ElapsedUs) {
		return false
	}
	for _, p := range l.After {
		if !slices.ContainsFunc(t.After, func(q hare.Predecessor) bool { return q.Job == p.Job && q.LagUs >= p.LagUs }) {
			return false
		}
	}
	return l.LateWeightMicro == 0 || l.LateWeightMicro <= t.LateWeightMicro && l.DeadlineUs >= t.DeadlineUs
}

// limitsEasier reports whether each reservation and each quota of c is one of tight that limits
// no less: a quota of tight for the same user counts at least the same types and has no more
// GPUs; a reservation of tight has the same nodes, lasts as long and admits no other jobs.
func (c *constraints) limitsEasier(tight *constraints) bool {
	for i := range c.inst.Quota {
		q := &c.inst.Quota[i]
		if !slices.ContainsFunc(tight.inst.Quota, func(p hare.Quota) bool {
			return p.User == q.User && p.GPUs <= q.GPUs && (p.Types == nil || q.Types != nil && containsAll(p.Types, q.Types))
		}) {
			return false
		}
	}
	for i := range c.inst.Cluster.Reservations {
		r := &c.inst.Cluster.Reservations[i]
		if !slices.ContainsFunc(tight.inst.Cluster.Reservations, func(p hare.Reservation) bool {
			return p.FromUs <= r.FromUs && p.UntilUs >= r.UntilUs && slices.EqualFunc(p.Nodes, r.Nodes, equalValues) &&
				containsAll(r.Users, p.Users) && !slices.ContainsFunc(p.Jobs, func(id string) bool {
				return c.jobs[id] != nil && !slices.Contains(r.Jobs, id)
			})
		}) {
			return false
		}
	}
	return true
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(x string) bool { return !slices.Contains(all, x) })
}
