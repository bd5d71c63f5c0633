package whatif

import (
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
)

// knownRules are the kinds of rules by which scenarios go.
const knownRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations | hare.RuleQuota |
	hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleDurations

// scaleDurations multiplies times. jobs is a copy, whose jobs share their profiles with the
// base.
func (s *Scenario) scaleDurations(jobs []hare.Job, gone []bool, index map[string]int, found *hare.InvalidErrors) {
	for _, ds := range s.Durations {
		if ds.ID == "" {
			for i := range jobs {
				if !gone[i] {
					ds.scale(&jobs[i], found)
				}
			}
			continue
		}
		i, ok := index[ds.ID]
		if !ok || gone[i] {
			found.Add(ds.at, "unknown_job", "there is no job %q in the scenario", hare.Clip(ds.ID))
			continue
		}
		ds.scale(&jobs[i], found)
	}
}

// scale multiplies the times of a job and rounds them up, so that a factor of at most 1 makes
// no time longer.
func (ds *DurationScale) scale(j *hare.Job, found *hare.InvalidErrors) {
	j.On = slices.Clone(j.On)
	for i := range j.On {
		for _, us := range []*int64{&j.On[i].ComputeUs, &j.On[i].SyncUs} {
			hi, lo := bits.Mul64(uint64(*us), uint64(ds.FactorMicro))
			lo, carry := bits.Add64(lo, 999_999, 0)
			if hi += carry; hi >= 1e6 {
				found.Add(ds.at, "too_large", "the times of job %q become too large", hare.Clip(j.ID))
				return
			}
			q, _ := bits.Div64(hi, lo, 1e6)
			if q > hare.MaxExact {
				found.Add(ds.at, "too_large", "the times of job %q become more than %s", hare.Clip(j.ID),
					hare.FormatMicros(hare.MaxExact))
				return
			}
			*us = int64(q)
		}
	}
}

// dropAfter removes dependencies: those that the scenario names, and those on jobs that are
// gone.
func (s *Scenario) dropAfter(jobs []hare.Job, gone []bool, index map[string]int, found *hare.InvalidErrors) {
	for _, d := range s.DropAfter {
		i, ok := index[d.Job]
		if !ok || gone[i] {
			found.Add(d.at+"/job", "unknown_job", "there is no job %q in the scenario", hare.Clip(d.Job))
			continue
		}
		j := &jobs[i]
		switch at := slices.IndexFunc(j.After, func(p hare.Predecessor) bool { return p.Job == d.After }); {
		case d.After == "":
			j.After = nil
		case at < 0:
			found.Add(d.at+"/after", "unknown_job", "job %q does not wait for a job %q", hare.Clip(d.Job), hare.Clip(d.After))
		default:
			j.After = slices.Delete(slices.Clone(j.After), at, at+1)
		}
	}
	if len(s.RemoveJobs) == 0 {
		return
	}
	isGone := func(p hare.Predecessor) bool {
		i, ok := index[p.Job]
		return ok && gone[i]
	}
	for i := range jobs {
		if slices.ContainsFunc(jobs[i].After, isGone) {
			jobs[i].After = slices.DeleteFunc(slices.Clone(jobs[i].After), isGone)
		}
	}
}

// withoutJobs returns the reservations without the jobs that are not there.
func withoutJobs(reservations []hare.Reservation, jobs []hare.Job) []hare.Reservation {
	if len(reservations) == 0 {
		return reservations
	}
	there := make(map[string]bool, len(jobs))
	for i := range jobs {
		there[jobs[i].ID] = true
	}
	out := slices.Clone(reservations)
	for i := range out {
		out[i].Jobs = slices.DeleteFunc(slices.Clone(out[i].Jobs), func(id string) bool { return !there[id] })
	}
	return out
}

// applyQuota changes quotas in their places, since certificates name them by their indices, and
// appends new ones.
func (s *Scenario) applyQuota(quota []hare.Quota) []hare.Quota {
	if len(s.SetQuota) == 0 {
		return quota
	}
	quota = slices.Clone(quota)
	for _, c := range s.SetQuota {
		at := slices.IndexFunc(quota, func(q hare.Quota) bool {
			return q.User == c.Quota.User && (q.Types == nil) == (c.Quota.Types == nil) && slices.Equal(q.Types, c.Quota.Types)
		})
		if at < 0 {
			quota = append(quota, c.Quota)
		} else {
			quota[at].GPUs = c.Quota.GPUs
		}
	}
	return quota
}

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
