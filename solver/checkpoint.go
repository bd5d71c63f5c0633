package solver

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// offer lets the caller take the best pair so far: that of plan, or of the
// incumbent where plan is nil or gives nil. Plain rules offer nothing, since
// what comes before their own schedule is not answered.
func (s *solve) offer(plan func() *greedy.Plan) {
	if s.cfg.Checkpoint == nil || !s.searches() || s.incumbent == nil && plan == nil {
		return
	}
	if s.settle.prices() {
		// What is met on the way may have a lesser value than the plan that is
		// chosen in the end, for its moves; the plan to keep has not.
		if s.settle.keep == nil {
			return
		}
		plan = func() *greedy.Plan { return s.settle.keep }
	}
	s.cfg.Checkpoint(func() (*hare.Result, error) {
		// The end of a solve is the end of a copy as well.
		c, res := *s, *s.res
		c.res, c.cfg.Progress, c.cfg.Checkpoint = &res, nil, nil
		if c.opt.Detail == "tasks" {
			c.opt.Detail = "lanes" // the list is made of the schedule
		}
		c.takeShown()
		if plan != nil {
			if p := plan(); p != nil && (c.incumbent == nil || s.settle.prices() || p.Value(c.model).Cmp(c.incumbent.Value(c.model)) < 0) {
				c.incumbent = p
			}
		}
		r, err := c.finish()
		if err == nil {
			r.Reproducible = false // where it is taken is for the clock to say
			if s.settle != nil {
				r.Replan = s.settle.tell(&c)
			}
		}
		return r, err
	})
}
