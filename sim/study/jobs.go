package study

import (
	"github.com/hare-sched/hare/sim"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// EachJob returns the jobs of the run, by number.
func (run *Run) EachJob() []simulatedoc.Job {
	out := make([]simulatedoc.Job, len(run.Figures))
	for i := range run.Figures {
		x := run.jobRow(i)
		out[i] = simulatedoc.Job{ID: x.JobID, Weight: x.Weight, ArrivalS: x.ArrivalS, StartS: x.StartS, EndS: x.EndS,
			JCTS: x.JCTS, WaitS: x.WaitS, Slowdown: x.Slowdown, Rho: x.Rho, Preemptions: x.Preemptions, State: x.State,
			Counted: x.Counts}
	}
	return out
}

// RunOf returns the run that a server described, with the figures of its jobs where
// the server gave them.
func RunOf(described simulatedoc.Run) Run {
	or := func(x *float64, none float64) float64 {
		if x == nil {
			return none
		}
		return *x
	}
	run := Run{Run: described, Figures: make([]sim.JobFigures, len(described.Each))}
	for i := range described.Each {
		j := &described.Each[i]
		run.Figures[i] = sim.JobFigures{
			ID: j.ID, Weight: j.Weight, ArrivalS: j.ArrivalS, StartS: or(j.StartS, -1), EndS: or(j.EndS, -1),
			JCTS: or(j.JCTS, 0), WaitS: or(j.WaitS, 0), Slowdown: or(j.Slowdown, 0), Rho: or(j.Rho, 0),
			Preemptions: j.Preemptions, Dropped: j.State == "dropped", Counts: j.Counted,
		}
	}
	run.Each = nil
	return run
}
