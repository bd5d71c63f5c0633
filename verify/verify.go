// Package verify checks schedules and certificates. It shares no code with the packages
// that make them: of this module's other packages it uses the types, the exact Amount and
// the hash, and nothing that resolves instances, schedules or bounds. The arithmetic is of
// integers and rational numbers, without a tolerance. Package verify refuses what it cannot
// check.
//
// The files stand in layers: exact arithmetic and the reading of instances; what a cluster offers at each time; the
// constraints of schedules, and the bounds by kind of certificate; and the driver, in this file (see README.md).
package verify

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Check verifies a result against its instance: every constraint, the value, and the bound
// that the certificate proves. A result without a schedule is refused. A plan for the rest
// of an earlier plan (a result with a replan object) may be checked against the rest, as any
// result, or against the whole instance: see CheckReplan. Neither inst nor res is trusted or
// modified.
func Check(inst *hare.Instance, res *hare.Result) *Report { return check(inst, res, nil, nil) }

// CheckReplan is Check for the rest of an earlier plan. The schedule that says what had
// started before the planning instant is the schedule of prev. If prev is nil or has no
// result, the schedule of the whole instance in res takes its place. CheckReplan derives the
// rest, and the constant that the value of the rest leaves out, from inst and that schedule,
// and compares what res states of them.
func CheckReplan(inst *hare.Instance, res *hare.Result, prev *Previous) *Report {
	return check(inst, res, prev, nil)
}

// Check is the function Check, except that it does not prove again what pf has proved. pf
// applies if res holds the certificate of pf (the same object in memory, not an equal one)
// and inst equals the instance of pf. A nil pf never applies.
func (pf *Proof) Check(inst *hare.Instance, res *hare.Result) *Report {
	return check(inst, res, nil, pf)
}

// CheckReplan is the function CheckReplan, except that it does not prove again what pf has
// proved.
func (pf *Proof) CheckReplan(inst *hare.Instance, res *hare.Result, prev *Previous) *Report {
	return check(inst, res, prev, pf)
}

func check(inst *hare.Instance, res *hare.Result, prev *Previous, p *Proof) *Report {
	if err := plausible(inst); err != nil {
		return &Report{Faults: []Fault{{Constraint: CodeInstance, Detail: err.Error()}}}
	}
	own := inst
	inst = asNamed(inst, res)
	sha := wire.SHA256(inst)
	switch {
	case res == nil || res.Replan == nil:
		return checkPlain(inst, res, sha, p)
	case res.InstanceSHA256 == sha && res.Replan.InstanceSHA256 != sha:
		r := checkPlain(inst, res, sha, p)
		r.Note = "its replan object was not checked: give the whole instance"
		return r
	}
	return checkReplan(inst, own, sha, res, prev, p)
}
