package solver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/verify"
)

// ErrNoPlan says that a method found no schedule.
var ErrNoPlan = errors.New("no schedule was found")

// findMethod finds the method that options name, whose name is known; nil without an error for the
// search.
func findMethod(name string, methods []Method) (*Method, error) {
	if name == "" {
		return nil, nil
	}
	for i := range methods {
		if methods[i].Name == name {
			return &methods[i], nil
		}
	}
	return nil, &hare.InvalidError{Pointer: "/options/method", Code: "not_supported",
		Detail: fmt.Sprintf("this program does not have the method %.60q: leave the option out", name)}
}

// replansBySearch refuses a method where the rest of a plan is planned again: it would not know what
// runs and what to keep.
func replansBySearch(opt hare.Options) error {
	if opt.Method == "" {
		return nil
	}
	return &hare.InvalidError{Pointer: "/options/method", Code: "not_supported",
		Detail: "makes plans for whole instances, not for the rest of a plan: leave the option out"}
}

// byMethod lets the method make the plan.
func (s *solve) byMethod(ctx context.Context) error {
	s.event(PhaseAssign, true)
	began := time.Now()
	defer func() { s.res.Timing.Assign += time.Since(began) }()
	sched, err := s.method.Plan(ctx, s.inst, MethodInput{Seed: s.opt.Seed, LP: s.cfg.LP})
	none := func(format string, a ...any) {
		s.res.Reasons = append(s.res.Reasons, hare.Reason{Code: "no_schedule",
			Detail: fmt.Sprintf("the method %s ", s.method.Name) + fmt.Sprintf(format, a...)})
	}
	switch {
	case err != nil && ctx.Err() != nil:
		s.cut = true
		none("had not ended when its time was over: give it more time, or leave the option out")
		return nil
	case errors.Is(err, ErrNoPlan):
		none("finds none: %v", err)
		return nil
	case err != nil:
		return fmt.Errorf("method %s: %w", s.method.Name, err)
	}
	value, _, faults := verify.ScheduleValue(s.inst, sched)
	if len(faults) > 0 {
		return fmt.Errorf("solver: method %s: %w: %v", s.method.Name, ErrUnverified, faults[0])
	}
	p := greedy.FromSchedule(s.model, sched)
	if p == nil || p.Value(s.model).Cmp(value) != 0 {
		return &hare.InvalidError{Pointer: "/options/method", Code: "not_supported",
			Detail: fmt.Sprintf("the plan of %s for this instance is of a form that results do not hold in this version",
				s.method.Name)}
	}
	s.made, s.incumbent, s.value = sched, p, value
	return nil
}
