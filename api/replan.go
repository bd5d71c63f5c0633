package api

import "github.com/hare-sched/hare"

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
