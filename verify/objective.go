package verify

import (
	"slices"

	"github.com/hare-sched/hare"
)

// objectiveOf returns the value of a schedule with these ends, and the constant: what the jobs
// cost that end with their running work. A makespan counts all jobs and has no constant. ok is
// false if a sum does not fit 127 bits.
func objectiveOf(inst *hare.Instance, ru *running, ends []int64) (value, constant hare.Amount, ok bool) {
	if inst.Objective == hare.ObjectiveMakespan {
		return hare.Product(1_000_000, slices.Max(append([]int64{0}, ends...))), constant, true
	}
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		sum := &value
		if ru.jobs[i].fixed {
			sum = &constant
		}
		// Terms are below 2^107 and not negative, so a sum beyond 127 bits is noticed.
		*sum = sum.Add(hare.Product(job.WeightMicro, ends[i]-job.ReleaseUs))
		*sum = sum.Add(hare.Product(lateWeight(inst, job), max(0, ends[i]-job.DeadlineUs)))
		if sum.Sign() < 0 {
			return value, constant, false
		}
	}
	return value, constant, true
}

// checkConstant checks that the result states what its fixed jobs cost, and nothing where there
// are none.
func checkConstant(inst *hare.Instance, res *hare.Result, ends []int64, r *Report) {
	bad := func(detail string) { r.fault(Fault{Constraint: CodeValue, Detail: detail}) }
	ru, err := newRunning(inst)
	if err != nil {
		bad(err.Error())
		return
	}
	none := inst.Objective == hare.ObjectiveMakespan ||
		!slices.ContainsFunc(ru.jobs, func(s standing) bool { return s.fixed })
	if none {
		if res.Constant != nil {
			bad("the result states a constant, although no job ends with its running work, or the objective is makespan")
		}
		return
	}
	_, constant, ok := objectiveOf(inst, ru, ends)
	if !ok || res.Constant == nil || res.Constant.Cmp(constant) != 0 {
		bad("the jobs that end with their running work cost " + constant.String() + ", not the result's constant")
		return
	}
	r.Constant = &constant
}

// checkOrderOfJobs checks that no job starts before the jobs for which it waits have ended and
// their lags have passed.
func checkOrderOfJobs(inst *hare.Instance, starts, ends []int64) []Fault {
	var faults []Fault
	var index map[string]int
	for i := range inst.Jobs {
		for _, p := range inst.Jobs[i].After {
			if index == nil {
				index = indexOf(inst)
			}
			if ready := ends[index[p.Job]] + p.LagUs; starts[i] < ready && len(faults) < maxFaults {
				faults = append(faults, Fault{Constraint: CodeAfter, Job: inst.Jobs[i].ID, ByUs: ready - starts[i],
					Detail: "the job starts before a job for which it waits has ended and its lag has passed"})
				break
			}
		}
	}
	return faults
}
