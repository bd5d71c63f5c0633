package whatif

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// knownRules are the kinds of rules by which scenarios go.
const knownRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations | hare.RuleQuota |
	hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleLevels | hare.RuleSwitch | hare.RuleShapes |
	hare.RuleDurations

// rulesEasier reports whether the rules of job l beyond nodes allow each start of a plan of job
// t, and whether l costs no more where it ends no later: equal work runs at time 0, the same
// users count it, it waits for no other jobs and no longer, and no deadline of t is later or
// weighs less.
func rulesEasier(l, t *hare.Job) bool {
	if l.FirstRound() != t.FirstRound() || l.Running() != t.Running() || !slices.Equal(l.Users, t.Users) {
		return false
	}
	if l.Running() && (!slices.Equal(l.Progress.GPUs, t.Progress.GPUs) || l.Progress.ElapsedUs != t.Progress.ElapsedUs ||
		l.Progress.Shape != t.Progress.Shape) {
		return false
	}
	for _, p := range l.After {
		if !slices.ContainsFunc(t.After, func(q hare.Predecessor) bool { return q.Job == p.Job && q.LagUs >= p.LagUs }) {
			return false
		}
	}
	return l.LateWeightMicro == 0 || l.LateWeightMicro <= t.LateWeightMicro && l.DeadlineUs >= t.DeadlineUs
}

// shapesEasier reports whether job l has the shapes of job t with equal tasks and no longer times,
// may keep as little together, and may change its shape where t may, as soon.
//
// Where levels matter, both clusters must have the same topology (levelsEasier). Rounds on equal
// nodes then have the same spread, so that a job that takes no longer at any level ends a round no
// later. A setup of a GPU is needed in c only where it is in tight: what c leaves out, jobs and last
// rounds of jobs, lies between entries of other jobs or of the same.
func (c *constraints) shapesEasier(l, t *hare.Job) bool {
	if len(l.Shapes) != len(t.Shapes) || t.Reshape && (!l.Reshape || l.ReshapeUs > t.ReshapeUs) {
		return false
	}
	within, _ := c.levels.Index(l.Within)
	if most, ok := c.levels.Index(t.Within); !ok || within < most {
		return false
	}
	for i := range t.ShapeCount() {
		a, b := l.Shape(i), t.Shape(i)
		if a.Tasks != b.Tasks || a.TaskGPUs() != b.TaskGPUs() || a.Counts != b.Counts {
			return false
		}
		for _, p := range b.On {
			at, found := slices.BinarySearchFunc(a.On, p.Type,
				func(q hare.Profile, kind string) int { return strings.Compare(q.Type, kind) })
			if !found || a.On[at].ComputeUs > p.ComputeUs || a.On[at].SwitchUs > p.SwitchUs {
				return false
			}
			for level := range c.levels.Names {
				if c.levels.SyncUs(&a.On[at], level) > c.levels.SyncUs(&p, level) {
					return false
				}
			}
		}
	}
	return true
}

// levelsEasier reports whether nodes that are in both clusters lie equally near to each other,
// where levels matter to a job of either.
func (c *constraints) levelsEasier(tight *constraints) bool {
	return slices.Equal(c.inst.Cluster.Topology, tight.inst.Cluster.Topology) || !c.levelled && !tight.levelled
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
