package sim

import "fmt"

// LeaseProgress is the progress of a run.
type LeaseProgress struct {
	Done, Jobs int // jobs that count and have ended, and all jobs that count
	NowS       float64
	Rounds     int64
}

// AllocationError says that a policy made an allocation that is not possible.
type AllocationError struct {
	Policy string
	NowS   float64
	GPU    string // a GPU or a type
	Reason string
}

func (ae *AllocationError) Error() string {
	return fmt.Sprintf("sim: policy %s at %.3f s: GPU %s: %s", ae.Policy, ae.NowS, ae.GPU, ae.Reason)
}
