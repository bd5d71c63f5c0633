package explain

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// SolveFunc solves one instance, as Service.Solve and solver.Solve do.
type SolveFunc func(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error)

// Request says what to explain.
type Request struct {
	Job string
	// ByUs asks for changes with which the job ends by this time, EarlierUs for
	// changes with which the job ends earlier by this many microseconds. Zero asks
	// for no changes; at most one of the two may be set.
	ByUs, EarlierUs int64
	// Recheck solves the unchanged instance again too. It is for results that
	// another version or other settings may have produced.
	Recheck bool
}

// aboutSchedule and aboutSolves are the values of Answer.About: they say which
// plans the answer describes.
const (
	aboutSchedule = "this result's schedule and certificate; every time is one of that schedule"
	aboutSolves   = aboutSchedule + "; changes are what Hare answers to the changed instance with the same options, " +
		"seed and work limit: not what the best possible plan would do"
)

const outcomeScheduled = "scheduled"

// errNoLanes says that a result does not hold its schedule.
var errNoLanes = &hare.InvalidError{Pointer: "/schedule", Code: "no_lanes",
	Detail: "the result leaves the lanes of its schedule out: solve with detail lanes"}

// ErrRemainder says that a result is a plan of what is left of an earlier one, and that the instance is not the
// remainder that the result schedules.
var ErrRemainder = &hare.InvalidError{Pointer: "/instance", Code: "wrong_instance",
	Detail: "the result is a plan for the rest of an earlier one: give its replan.instance as the instance"}

// knownRules are the kinds of rules by which explanations go.
const knownRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations | hare.RuleQuota |
	hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleLevels | hare.RuleDurations | hare.RuleSwitch |
	hare.RuleShapes

// withObjective returns the instance with the objective of its result, which the caller may
// have named in the options, or the error for rules by which explanations do not go, or
// ErrRemainder.
func withObjective(inst *hare.Instance, res *hare.Result) (*hare.Instance, error) {
	inst = solver.WithObjective(inst, res.Objective)
	if res.Replan != nil && res.InstanceSHA256 != wire.SHA256(inst) {
		return nil, ErrRemainder
	}
	return inst, inst.RefuseRules("explain", knownRules)
}
