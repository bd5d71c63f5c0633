package solver

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// offerCheckpoint lets the caller take the best pair so far: that of plan, or of the
// incumbent if plan is nil or returns nil. A schedule without a bound is no pair, so there
// is no checkpoint before the first bound. The plain rules offer no checkpoint, since only
// their own schedule is the answer.
func (s *solve) offerCheckpoint(plan func() *greedy.Plan) {
	if s.cfg.Checkpoint == nil || !s.searches() || s.incumbent == nil && plan == nil || s.best.rel == nil {
		return
	}
	if s.stability.chargesMoves() {
		// If moves have a price, the answer has the least sum of value and price of moves. A
		// plan that the search has found so far may be of less value than the answer. The kept
		// plan is not, so only the kept plan is offered.
		if s.stability.kept == nil {
			return
		}
		plan = func() *greedy.Plan { return s.stability.kept }
	}
	s.takeShown()
	s.cfg.Checkpoint(func() (*hare.Result, error) {
		// The copy is finished as the solve would be.
		c, res := *s, *s.res
		c.res, c.cfg.Progress, c.cfg.Checkpoint = &res, nil, nil
		if c.opt.Detail == "tasks" {
			c.opt.Detail = "lanes" // the list is made from the schedule
		}
		c.adoptShownBound()
		if plan != nil {
			if p := plan(); p != nil && (c.incumbent == nil || s.stability.chargesMoves() ||
				p.Value(c.model).Cmp(c.incumbent.Value(c.model)) < 0) {
				c.incumbent = p
			}
		}
		r, err := c.finish()
		if err == nil {
			r.Reproducible = false // the clock decides where the checkpoint is taken
			if s.stability != nil {
				r.Replan = s.stability.fillReplan(&c)
			}
		}
		return r, err
	})
}
