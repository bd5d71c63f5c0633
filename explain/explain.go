package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// DefaultTime is the time limit of the search for changes where the caller sets
// none.
const DefaultTime = 10 * time.Second

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

// NoJobError says that an instance has no such job.
type NoJobError struct {
	Job   string
	Known []string // the ids of the instance's jobs
}

func (e *NoJobError) Error() string {
	text := fmt.Sprintf("there is no job %.80q", e.Job)
	switch guess := hare.Guess(e.Job, e.Known); {
	case guess != "":
		text += guess
	case len(e.Known) > 0:
		text += "; the jobs are " + hare.Names(e.Known, 5)
	}
	return text
}

// aboutSchedule and aboutSolves are the values of Answer.About: they say which
// plans the answer describes.
const (
	aboutSchedule = "this result's schedule and certificate; every time is one of that schedule"
	aboutSolves   = aboutSchedule + "; changes are what Hare answers to the changed instance with the same options, " +
		"seed and work limit: not what the best possible plan would do"
)

// ErrNoLanes says that a result does not hold its schedule.
var ErrNoLanes = &hare.InvalidError{Pointer: "/schedule", Code: "no_lanes",
	Detail: "the result leaves the lanes of its schedule out: solve with detail lanes"}

// ErrRemainder says that a result is a plan of what is left of an earlier one, and that the instance is not the
// remainder that the result schedules.
var ErrRemainder = &hare.InvalidError{Pointer: "/instance", Code: "wrong_instance",
	Detail: "the result is a plan for the rest of an earlier one: give its replan.instance as the instance"}

// Explain explains one job of a result for an instance. Explain calls Static, and
// then Search where the request asks for changes. The solves aside, Explain is
// O(n log n + w · g) for n entries of the schedule, w waits of the job and g GPUs.
func Explain(ctx context.Context, inst *hare.Instance, res *hare.Result, req Request,
	solve SolveFunc) (*explaindoc.Answer, error) {
	a, err := Static(inst, res, req)
	if err == nil {
		Search(ctx, a, inst, res, req, solve)
	}
	return a, err
}

const outcomeScheduled = "scheduled"

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

// Static is the part of Explain that solves nothing: Static reads the schedule and
// the certificate alone. The error is a *NoJobError, or a *hare.InvalidError where
// the request, the schedule or the certificate is wrong or missing.
func Static(inst *hare.Instance, res *hare.Result, req Request) (*explaindoc.Answer, error) {
	switch {
	case req.ByUs < 0:
		return nil, &hare.InvalidError{Pointer: "/by_s", Code: "out_of_range", Detail: "by_s must be positive"}
	case req.EarlierUs < 0:
		return nil, &hare.InvalidError{Pointer: "/earlier_s", Code: "out_of_range",
			Detail: "earlier_s must be positive"}
	case req.ByUs > 0 && req.EarlierUs > 0:
		return nil, &hare.InvalidError{Pointer: "/earlier_s", Code: "conflict",
			Detail: "give by_s or earlier_s, not both"}
	}
	at, err := jobAt(inst, req.Job)
	if err != nil {
		return nil, err
	}
	job := &inst.Jobs[at]
	a := &explaindoc.Answer{About: aboutSchedule, Job: job.ID, Sync: job.Sync.String(), Outcome: outcomeScheduled}
	if res.Value == nil && res.Schedule == nil {
		a.Outcome = res.Termination
		for _, r := range res.Reasons {
			if r.Job == "" || r.Job == job.ID {
				a.Reasons = append(a.Reasons, explaindoc.Reason{Code: r.Code, Detail: r.Detail})
			}
		}
		if len(a.Reasons) == 0 {
			a.Notes = append(a.Notes, "no reason concerns this job: other jobs of the instance cannot run")
		}
		return a, nil
	}
	if inst, err = withObjective(inst, res); err != nil {
		return nil, err
	}
	if res.Schedule == nil {
		return nil, ErrNoLanes
	}
	value, ends, faults := verify.ScheduleValue(inst, res.Schedule)
	if len(faults) > 0 {
		return nil, &hare.InvalidError{Pointer: "/schedule", Code: "invalid_schedule",
			Detail: "this is no schedule of the instance: " + faults[0].String()}
	}
	v := newLaneView(withoutRunning(inst, res.Schedule))
	v.ends = ends
	runs := v.runsOf(at)
	a.Times = jobTimes(inst, newEmptyCluster(model.New(inst)), at, max(0, runs[0].start), ends[at], value)
	gap := 0.0
	if res.Bound != nil {
		gap = value.Sub(*res.Bound).Float()
	}
	p, err := newJobPrices(inst, v, at, res.Certificate)
	if err != nil {
		return nil, err
	}
	a.Notes = append(a.Notes, p.none...)
	p.explain(a, runs, gap)
	a.Timeline = v.timeline(at, runs, p)
	return a, nil
}

// jobAt finds a job by its id.
func jobAt(inst *hare.Instance, id string) (int, error) {
	for i := range inst.Jobs {
		if inst.Jobs[i].ID == id {
			return i, nil
		}
	}
	e := &NoJobError{Job: id, Known: make([]string, len(inst.Jobs))}
	for i := range inst.Jobs {
		e.Known[i] = inst.Jobs[i].ID
	}
	return 0, e
}

// withJobs returns inst with these jobs in place of its own.
func withJobs(inst *hare.Instance, jobs ...hare.Job) *hare.Instance {
	other := *inst
	other.Jobs = jobs
	return &other
}
