package solver

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/relax"
)

// Check returns the error with which Solve would refuse these options for this instance,
// before any work. It is O(jobs) for detail tasks, else O(1).
func Check(inst *hare.Instance, opt hare.Options, cfg Config) error {
	s := &solve{opt: Defaults(opt), cfg: cfg}
	if err := CheckOptions(s.opt); err != nil {
		return err
	}
	if err := inst.RefusePlaced("the solver"); err != nil {
		return err
	}
	for _, o := range []struct{ field, method string }{{"bound", s.opt.Bound}, {"order", s.opt.Order}} {
		if cfg.LP == nil && (o.method == relax.MethodQueyranne || o.method == relax.MethodPaper) {
			return &hare.InvalidError{Pointer: "/options/" + o.field, Code: "no_lp_engine", Detail: o.method +
				" needs the LP engine (HiGHS), which is not running: take another method, or see hare doctor"}
		}
	}
	if s.opt.Detail != "tasks" {
		return nil
	}
	s.model = hare.NewModel(inst)
	return s.checkDetail()
}
