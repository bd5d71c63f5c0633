package hare

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rules are the kinds of rules that an instance may have beyond jobs on single GPUs. A part of
// Hare that does not know a kind refuses instances that have it (RefuseRules).
type Rules uint16

// These are the kinds of rules, each with the page that explains it.
const (
	RuleNodes    Rules = 1 << iota // docs/reference/model.md: nodes matter (Placed)
	RuleProgress                   // docs/reference/model.md#running-work-reservations-and-quotas: rounds are done
	// docs/reference/model.md#running-work-reservations-and-quotas: work runs at time 0
	RuleRunning
	RuleReservations // docs/reference/model.md#running-work-reservations-and-quotas
	RuleQuota        // docs/reference/model.md#running-work-reservations-and-quotas
	RuleAfter        // docs/reference/model.md
	RuleTardiness    // docs/reference/model.md: the objective jct_and_tardiness
	RuleMakespan     // docs/reference/model.md: the objective makespan
	RuleSwitch       // docs/reference/model.md: switch_s
	RuleWithin       // docs/reference/model.md: the tasks of a round keep together
	RuleSpread       // docs/reference/model.md: synchronisation takes longer where tasks are far apart
	RuleShapes       // docs/reference/model.md: shapes
	RuleDurations    // docs/reference/model.md: durations

	RuleLevels = RuleWithin | RuleSpread
)

// FirstRule returns the pointer of the first field of the instance that makes it have a rule
// beyond known; "" means that there is none. It takes O(nodes + jobs).
func (inst *Instance) FirstRule(known Rules) string {
	lacks := func(r Rules) bool { return known&r != r }
	switch {
	case inst.Objective == ObjectiveJCTAndTardiness && lacks(RuleTardiness),
		inst.Objective == ObjectiveMakespan && lacks(RuleMakespan):
		return "/objective"
	case len(inst.Cluster.Reservations) > 0 && lacks(RuleReservations|RuleNodes):
		return "/cluster/reservations"
	case len(inst.Quota) > 0 && lacks(RuleQuota|RuleNodes):
		return "/quota"
	}
	for i := range inst.Jobs {
		j, field := &inst.Jobs[i], ""
		switch {
		case j.FirstRound() > 0 && lacks(RuleProgress), j.Running() && lacks(RuleRunning|RuleNodes):
			field = "progress"
		case len(j.After) > 0 && lacks(RuleAfter):
			field = "after"
		case j.Within != "" && lacks(RuleWithin|RuleNodes):
			field = "within"
		case lacks(RuleSpread|RuleNodes) && j.Spreads():
			field = j.spreadField()
		case len(j.Shapes) > 0 && lacks(RuleShapes):
			field = "shapes"
		case len(j.Durations) > 0 && lacks(RuleDurations):
			field = "durations"
		case lacks(RuleSwitch):
			field = j.firstSwitch()
		}
		if field != "" {
			return "/jobs/" + strconv.Itoa(i) + "/" + field
		}
	}
	if known&RuleNodes == 0 {
		return inst.placedBy()
	}
	return ""
}

// RefuseRules returns the error of a part of Hare, such as "the simulator", that knows only
// some kinds of rules, where the instance has others.
func (inst *Instance) RefuseRules(who string, known Rules) error {
	pointer := inst.FirstRule(known)
	if pointer == "" {
		return nil
	}
	field := pointer[strings.LastIndexByte(pointer, '/')+1:]
	what := strconv.Quote(field)
	switch field {
	case "objective":
		what = fmt.Sprintf("objective %q", inst.Objective)
	case "sync_s":
		what = `"sync_s" by level`
	}
	return &InvalidError{Pointer: pointer, Code: "not_supported",
		Detail: fmt.Sprintf("%s is not supported by %s in this version: %s", what, who, ruleRemedy(field))}
}

// ruleRemedy says what to do where a field of a rule is refused.
func ruleRemedy(field string) string {
	const plans = "; hare solve and hare bound support it"
	switch field {
	case "objective":
		return "use weighted_jct" + plans
	case "reservations":
		return `leave it out, or close the nodes for that time by "in_service_s"` + plans
	case "after":
		return `leave it out, or give the job a "release_s" at which the other jobs may have ended` + plans
	case "shapes":
		return `give the job one of them, as "tasks", "gpus_per_task" and "on"` + plans
	case "durations":
		return "leave them out: times are used as they are written; hare bound --expected uses them"
	case "switch_s":
		return "leave it out" + plans
	}
	return "leave it out"
}

// RefuseForPolicy refuses instances with any rule for a policy that knows none. known are the rules
// that others know, which are such as like.
func (inst *Instance) RefuseForPolicy(name, like string, known Rules) error {
	if err := inst.RefuseRules("the simulator", known); err != nil {
		return err
	}
	err := inst.RefuseRules("policy "+name, 0)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		invalid.Detail += ", or use a policy that supports it, such as " + like
	}
	return err
}

// Placed reports whether plans go by nodes: a task needs several GPUs, CPUs or memory that a node
// limits, tasks must be on distinct nodes or near each other, a job may not use every node at
// every time, work runs at time 0, or there are quotas. pointer names the first field that makes nodes matter.
// It takes O(nodes + jobs).
func (inst *Instance) Placed() (pointer string, placed bool) {
	switch {
	case len(inst.Cluster.Reservations) > 0:
		return "/cluster/reservations", true
	case len(inst.Quota) > 0:
		return "/quota", true
	}
	pointer = inst.placedBy()
	return pointer, pointer != ""
}

// placedBy returns the pointer of the first field of a node or a job that makes nodes matter,
// and "" where there is none.
func (inst *Instance) placedBy() string {
	cpus, memory := false, false
	for i := range inst.Cluster.Nodes {
		cpus = cpus || inst.Cluster.Nodes[i].CPUMilli > 0
		memory = memory || inst.Cluster.Nodes[i].MemoryMiB > 0
	}
	for i := range inst.Jobs {
		j, field := &inst.Jobs[i], ""
		switch {
		case j.TaskGPUs() > 1:
			field = "gpus_per_task"
		case slices.ContainsFunc(j.Shapes, func(s Shape) bool { return s.TaskGPUs() > 1 }):
			field = "shapes"
		case j.DistinctNodes:
			field = "distinct_nodes"
		case j.Within != "":
			field = "within"
		case j.Spreads():
			field = j.spreadField()
		case len(j.Only) > 0:
			field = "only"
		case len(j.Exclude) > 0:
			field = "exclude"
		case cpus && j.CPUMilliPerTask > 0:
			field = "cpus_per_task"
		case memory && j.MemoryMiBPerTask > 0:
			field = "memory_mib_per_task"
		case j.Running():
			field = "progress"
		default:
			continue
		}
		return "/jobs/" + strconv.Itoa(i) + "/" + field
	}
	return ""
}
