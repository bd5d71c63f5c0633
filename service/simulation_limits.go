package service

import "github.com/hare-sched/hare"

// SimulationLimits bound a simulation by its input, so that time and memory are
// bounded before it begins. Zeroes limit nothing.
type SimulationLimits struct {
	Runs int   // policies · repeats
	Jobs int   // of a run
	Sum  int   // of the jobs of all runs, whose figures are kept
	Work int64 // tasks of a run of the task engine, which are simulated one by one
}

// before refuses what is too large by the request alone.
func (l *SimulationLimits) before(r *SimulationRequest) error {
	if n := len(r.Policies) * r.repeats(); l.Runs > 0 && n > l.Runs {
		at := "/repeat"
		if len(r.Policies) > l.Runs {
			at = "/policies"
		}
		return invalidAt(at, "too_large", "%d policies, %d times each, make %d runs: at most %d are allowed here", len(r.Policies), r.repeats(), n, l.Runs)
	}
	if g := r.Generate; g != nil && l.Jobs > 0 && g.Jobs > l.Jobs {
		return invalidAt("/generate/jobs", "too_large", "%d jobs: at most %d are allowed here", g.Jobs, l.Jobs)
	}
	return nil
}

// after refuses what is too large by the jobs that were read.
func (l *SimulationLimits) after(r *SimulationRequest, in *simulationInput) error {
	at := "/instance"
	switch {
	case r.Trace != nil:
		at = "/trace"
	case r.Generate != nil:
		at = "/generate/jobs"
	}
	jobs, runs := in.jobs(), len(r.Policies)*r.repeats()
	if l.Jobs > 0 && jobs > l.Jobs {
		return invalidAt(at, "too_large", "%d jobs: at most %d are allowed here", jobs, l.Jobs)
	}
	if l.Sum > 0 && jobs > l.Sum/max(1, runs) {
		return invalidAt(at, "too_large", "%d jobs in %d runs: at most %d of both together are allowed here", jobs, runs, l.Sum)
	}
	if in.tasks != nil && l.Work > 0 {
		if n := tasksOf(in.tasks, l.Work); n > l.Work {
			return invalidAt(at, "too_large", "the jobs have more than %d tasks, which are simulated one by one: merge rounds (quantum_s), or take fewer jobs", l.Work)
		}
	}
	return nil
}

// tasksOf counts rounds · tasks of all jobs, as far as most + 1.
func tasksOf(inst *hare.Instance, most int64) int64 {
	n := int64(0)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Rounds > (most-n)/max(1, j.Tasks) {
			return most + 1
		}
		n += j.Rounds * j.Tasks
	}
	return n
}
