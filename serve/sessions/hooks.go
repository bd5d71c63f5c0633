package sessions

import "time"

// Hooks are functions that Sessions calls for metrics. Nil hooks are not called. Hooks run
// in the goroutines of sessions and planners, so they must be fast and safe for concurrent
// use. No answer depends on a hook.
type Hooks struct {
	// Planned is called when a question for a plan has ended; took is how long the planner
	// worked on the question.
	Planned func(outcome PlanOutcome, took time.Duration)
	// Given is called when a plan that was made has been taken, refused or dropped, or when
	// the policy panicked with the plan; age is the time since the plan's question.
	Given func(outcome PlanOutcome, age time.Duration)
}

func (h *Hooks) planned(outcome PlanOutcome, took time.Duration) {
	if h.Planned != nil {
		h.Planned(outcome, took)
	}
}

func (h *Hooks) given(outcome PlanOutcome, age time.Duration) {
	if h.Given != nil {
		h.Given(outcome, age)
	}
}

// PlanOutcome says what became of a question for a plan, or of a plan.
type PlanOutcome string

// A question ends as made, failed, late, panicked or cancelled, and a plan that was made
// is taken or refused, or is dropped where the session leaves memory before.
const (
	PlanMade      PlanOutcome = "made"
	PlanFailed    PlanOutcome = "failed"    // the planner returned an error, or no plan
	PlanLate      PlanOutcome = "late"      // the planner needed more than Config.PlanTime
	PlanPanicked  PlanOutcome = "panicked"  // the planner, or the policy with the plan, panicked
	PlanCancelled PlanOutcome = "cancelled" // the state that the question was about is gone
	PlanTaken     PlanOutcome = "taken"
	PlanRefused   PlanOutcome = "refused" // the policy refused the plan
	PlanDropped   PlanOutcome = "dropped"
)

// PlanOutcomes lists all outcomes.
func PlanOutcomes() []PlanOutcome {
	return []PlanOutcome{PlanMade, PlanFailed, PlanLate, PlanPanicked, PlanCancelled, PlanTaken, PlanRefused,
		PlanDropped}
}
