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

// SetHooks sets the hooks. Calls that have begun may end without calling the new hooks.
func (ss *Sessions) SetHooks(h Hooks) { ss.hooks.Store(&h) }

// currentHooks returns the hooks of SetHooks; without them, hooks that do nothing.
func (ss *Sessions) currentHooks() *Hooks {
	if h := ss.hooks.Load(); h != nil {
		return h
	}
	return &Hooks{}
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
