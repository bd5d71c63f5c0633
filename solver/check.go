package solver

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
)

// Check returns the error with which Solve would refuse these options for this instance,
// before any work. It is O(jobs) for detail tasks, else O(1).
func Check(inst *hare.Instance, opt hare.Options, cfg Config) error {
	s := &solve{opt: Defaults(opt), cfg: cfg}
	if err := CheckOptions(s.opt); err != nil {
		return err
	}
	inst = WithObjective(inst, opt.Objective)
	if err := checkPlaced(inst, s.opt); err != nil {
		return err
	}
	if _, err := findMethod(s.opt.Method, cfg.Methods); err != nil {
		return err
	}
	if err := checkEngine(s.opt, cfg.LP); err != nil {
		return err
	}
	if s.opt.Detail != "tasks" {
		return nil
	}
	s.model = model.New(inst)
	return s.checkDetail()
}

// checkEngine refuses the options that need an LP engine where there is none.
func checkEngine(opt hare.Options, engine relax.LP) error {
	for _, o := range []struct{ field, method string }{{"bound", opt.Bound}, {"order", opt.Order}} {
		if err := relax.NeedsEngine(o.method, engine); err != nil {
			return &hare.InvalidError{Pointer: "/options/" + o.field, Code: "no_lp_engine", Detail: err.Error()}
		}
	}
	return nil
}

// knownRules are the kinds of rules by which plans and bounds go.
const knownRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations | hare.RuleQuota |
	hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleLevels | hare.RuleShapes |
	hare.RuleDurations | hare.RuleSwitch

// checkPlaced refuses instances with rules that plans do not know, and the options that do not
// go by the rules of the instance: the relaxations of the papers and their rules of assignment
// know single GPUs, jobs that do not wait for others and one objective alone. Empty options
// pass.
func checkPlaced(inst *hare.Instance, opt hare.Options) error {
	if err := inst.RefuseRules("the solver", knownRules); err != nil {
		return err
	}
	return checkMethods(inst, opt)
}

// checkMethods refuses the options that do not go by the objective, or by nodes where nodes
// matter.
func checkMethods(inst *hare.Instance, opt hare.Options) error {
	for _, o := range []struct{ option, method string }{{"bound", opt.Bound}, {"order", opt.Order}} {
		paper := o.method == relax.MethodQueyranne || o.method == relax.MethodPaper
		if paper && inst.Objective != hare.ObjectiveWeightedJCT ||
			o.method == hare.MethodMachine && inst.Objective == hare.ObjectiveMakespan {
			return &hare.InvalidError{Pointer: "/options/" + o.option, Code: "not_supported",
				Detail: fmt.Sprintf("%q does not go by the objective %s: take %s", o.method, inst.Objective,
					hare.MethodPrice)}
		}
	}
	why := ""
	if pointer, placed := inst.Placed(); placed {
		why = "nodes, which matter because of " + pointer
	} else if pointer = inst.FirstRule(hare.RuleNodes | hare.RuleProgress | hare.RuleDurations); pointer != "" {
		why = pointer
	} else {
		return nil
	}
	refuse := func(option, value, others string) error {
		return &hare.InvalidError{Pointer: "/options/" + option, Code: "not_supported",
			Detail: fmt.Sprintf("%q does not go by %s: take %s", value, why, others)}
	}
	for _, o := range []struct{ option, method string }{{"bound", opt.Bound}, {"order", opt.Order}} {
		if o.method == relax.MethodQueyranne || o.method == relax.MethodPaper {
			return refuse(o.option, o.method, hare.MethodPrice)
		}
	}
	if opt.Assign != "" && opt.Assign != string(greedy.Insertion) {
		return refuse("assign", opt.Assign, string(greedy.Insertion))
	}
	return nil
}
