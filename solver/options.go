package solver

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/wire"
)

// DefaultGap is the gap at which a solve stops if the caller names none.
const DefaultGap = 0.01

// Defaults fills in the names that opt leaves empty.
func Defaults(opt hare.Options) hare.Options {
	if opt.Bound == "" {
		opt.Bound = hare.MethodPrice
	}
	if opt.Order == "" {
		opt.Order = opt.Bound
	}
	if opt.Assign == "" {
		opt.Assign = string(greedy.Insertion)
	}
	if opt.Detail == "" {
		opt.Detail = "lanes"
	}
	return opt
}

// CheckOptions returns the first fault of opt, whose defaults must be filled in.
func CheckOptions(opt hare.Options) error {
	bad := func(field, format string, a ...any) error {
		return &hare.InvalidError{Pointer: "/options/" + field, Code: "invalid_option",
			Detail: fmt.Sprintf(format, a...)}
	}
	unknown := func(field, what, name string, known ...string) error {
		return bad(field, "unknown %s %.60q%s known: %s", what, name, cmp.Or(hare.Guess(name, known), ";"),
			strings.Join(known, ", "))
	}
	oneOf := func(x string, known ...string) bool {
		for _, k := range known {
			if x == k {
				return true
			}
		}
		return false
	}
	switch {
	case opt.TimeLimit < 0 || opt.TimeLimit > 24*time.Hour:
		return bad("time_limit_s", "must be between 0 and 86400")
	case opt.WorkLimit < 0:
		return bad("work_limit", "must not be negative")
	case !(opt.Gap >= 0 && opt.Gap <= 1):
		return bad("gap", "must be between 0 and 1")
	case !oneOf(opt.Bound, relax.Methods()...):
		return unknown("bound", "method", opt.Bound, relax.Methods()...)
	case !oneOf(opt.Order, append(relax.Methods(), "wspt", "arrival")...):
		return unknown("order", "order", opt.Order, append(relax.Methods(), "wspt", "arrival")...)
	case !oneOf(opt.Assign, string(greedy.EarliestAvailable), string(greedy.EarliestFinish), string(greedy.Insertion)):
		return unknown("assign", "rule", opt.Assign, string(greedy.EarliestAvailable), string(greedy.EarliestFinish),
			string(greedy.Insertion))
	case opt.Objective != "" && !oneOf(opt.Objective, hare.Objectives()...):
		return unknown("objective", "objective", opt.Objective, hare.Objectives()...)
	case opt.Method != "" && !oneOf(opt.Method, wire.PlanMethods()...):
		return unknown("method", "method", opt.Method, wire.PlanMethods()...)
	case !oneOf(opt.Detail, "none", "jobs", "lanes", "tasks"):
		return unknown("detail", "detail", opt.Detail, "none", "jobs", "lanes", "tasks")
	}
	return nil
}

// KeepsObjective returns the error of a part of Hare that plans with the instance's own
// objective alone, where the options name another.
func KeepsObjective(inst *hare.Instance, opt hare.Options, who string) error {
	if WithObjective(inst, opt.Objective) == inst {
		return nil
	}
	return &hare.InvalidError{Pointer: "/options/objective", Code: "not_supported",
		Detail: fmt.Sprintf("is not supported by %s in this version: leave it out", who)}
}

// checkDetail refuses, before the work, a result that could not be printed afterwards.
func (s *solve) checkDetail() error {
	if s.opt.Detail != "tasks" {
		return nil
	}
	var tasks int64 // below 2^53 in a valid instance
	for i := range s.model.Jobs {
		tasks += s.model.Jobs[i].Rounds * s.model.Jobs[i].Tasks
	}
	if tasks <= hare.MaxTaskObjects {
		return nil
	}
	return &hare.InvalidError{
		Pointer: "/options/detail", Code: "too_many_tasks",
		Detail: fmt.Sprintf("tasks lists up to %d tasks, and this instance has %d: use lanes", hare.MaxTaskObjects,
			tasks),
	}
}

// WithObjective returns the instance with an objective in place of its own, or the instance
// itself where objective is "".
func WithObjective(inst *hare.Instance, objective string) *hare.Instance {
	if objective == "" || objective == inst.Objective {
		return inst
	}
	other := *inst
	other.Objective = objective
	return &other
}
