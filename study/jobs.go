package study

import "github.com/hare-sched/hare/sim"

// Job is one job of a run in JSON. Figures that the job does not have are null.
type Job struct {
	ID          string   `json:"id"`
	Weight      float64  `json:"weight"`
	ArrivalS    float64  `json:"arrival_s"`
	StartS      *float64 `json:"start_s"`
	EndS        *float64 `json:"end_s"`
	JCTS        *float64 `json:"jct_s"`
	WaitS       *float64 `json:"wait_s"`
	Slowdown    *float64 `json:"slowdown"`
	Rho         *float64 `json:"rho"`
	Preemptions int64    `json:"preemptions"`
	State       string   `json:"state"`   // ended, dropped or unfinished
	Counted     bool     `json:"counted"` // the job is in the window of jobs that count
}

// EachJob returns the jobs of the run, by number.
func (r *Run) EachJob() []Job {
	out := make([]Job, len(r.Each))
	for i := range r.Each {
		x := r.jobRow(i)
		out[i] = Job{x.JobID, x.Weight, x.ArrivalS, x.StartS, x.EndS, x.JCTS, x.WaitS, x.Slowdown, x.Rho, x.Preemptions,
			x.State, x.Counts}
	}
	return out
}

// SetEachJob is the inverse of EachJob.
func (r *Run) SetEachJob(jobs []Job) {
	or := func(x *float64, none float64) float64 {
		if x == nil {
			return none
		}
		return *x
	}
	r.Each = make([]sim.JobFigures, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		r.Each[i] = sim.JobFigures{
			ID: j.ID, Weight: j.Weight, ArrivalS: j.ArrivalS, StartS: or(j.StartS, -1), EndS: or(j.EndS, -1),
			JCTS: or(j.JCTS, 0), WaitS: or(j.WaitS, 0), Slowdown: or(j.Slowdown, 0), Rho: or(j.Rho, 0),
			Preemptions: j.Preemptions, Dropped: j.State == "dropped", Counts: j.Counted,
		}
	}
}
