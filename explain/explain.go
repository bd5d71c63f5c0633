// Package explain says why a job of a schedule starts and ends when it does,
// what its GPUs cost at the certificate's prices, and which change would let it
// end earlier.
//
// Its files are layers: what is asked (request, instance), a schedule as one job sees it (view, free), the causes of
// its waits (causes, holders, waits), its time and its prices (times, price, timeline), and on top the answers:
// Explain, Search, ListJobs and PricesOf.
package explain

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// DefaultTime is the time limit of the search for changes where the caller sets
// none.
const DefaultTime = 10 * time.Second

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
		return nil, errNoLanes
	}
	value, ends, faults := verify.ScheduleValue(inst, res.Schedule)
	if len(faults) > 0 {
		return nil, &hare.InvalidError{Pointer: "/schedule", Code: "invalid_schedule",
			Detail: "this is not a schedule of the instance: " + faults[0].String()}
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
