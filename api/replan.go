package api

import (
	"net/http"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// replanFields are those of a request that goes on from an earlier result.
var replanFields = []string{"previous", "previous_instance", "at_s", "stability"}

// replanFaults finds what of such a request is missing.
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

// solveOrReplan plans an instance, or what is left of an earlier plan for it.
func (s *server) solveOrReplan(r *http.Request, req *wire.Request) (*hare.Result, error) {
	if req.Replan.Previous == nil {
		return s.svc.Solve(r.Context(), req.Instance, req.Options)
	}
	return s.svc.Replan(r.Context(), req.Instance, req.Replan, req.Options)
}
