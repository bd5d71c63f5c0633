package api

import (
	"net/http"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// replanFields are the fields of a request that make it a replan of an earlier result.
var replanFields = []string{"previous", "previous_instance", "at_s", "stability"}

// replanFaults returns the faults of a replan with missing fields.
func replanFaults(req *hare.ReplanRequest) (faults hare.InvalidErrors) {
	given := req.Before != nil || req.HasAt || req.HasStability
	switch {
	case req.Previous == nil && given:
		faults = append(faults, &hare.InvalidError{Code: "missing_field",
			Detail: `"previous" is missing: previous_instance, at_s and stability belong to it`})
	case req.Previous != nil && !req.HasAt:
		faults = append(faults, &hare.InvalidError{Code: "missing_field",
			Detail: `"at_s" is missing: give the planning instant on the clock of the previous schedule`})
	}
	return faults
}

// solveOrReplan solves an instance or, where the request has an earlier result, plans
// what remains of that result.
func (s *server) solveOrReplan(r *http.Request, req *wire.Request) (*hare.Result, error) {
	if req.Replan.Previous == nil {
		return s.svc.Solve(r.Context(), req.Instance, solveOptions(&req.Options))
	}
	return s.svc.Replan(r.Context(), req.Instance, req.Replan, solveOptions(&req.Options))
}
