package leases

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// Outcome is the result of Run; Metrics has its figures of jobs.
type Outcome struct {
	Counted, Dropped int     // jobs of the window, and those of them that were dropped
	MeanJCTS         float64 // mean of end − arrival over the jobs of the window that were not dropped; 0 without any
	// TotalS is the time at which the run ended; without a window, the makespan.
	TotalS float64
	// Utilization is the mean over GPUs of the time in leases over TotalS. Idle time
	// before a round counts as time of the round (see Run).
	Utilization       float64
	UtilizationByType []float64
	Rounds, Leases    int64
	Lost              int64 // leases with fewer steps than GPUs, and the leases of Cut
	Cut               int64 // leases that a fault ended
	// LostS are the GPU-seconds of lost leases, SwitchS those of restarts, DownS those
	// that faults took out of service up to TotalS.
	LostS, SwitchS, DownS float64
	// Switches counts the changes of job on a GPU from one lease to the next.
	Switches int64
	// Preemptions counts how often a job that had not ended lost its GPUs, or moved, at
	// the end of a lease.
	Preemptions int64
	// Extended is the fraction of the leases of unfinished jobs after which the job kept
	// the same GPUs.
	Extended float64
	Jobs     []Record // all jobs that arrived, by number

	first, last int // first and last number of the jobs that count
}

// Record is one job of a run. EndS is below 0 where the job had not ended when the
// run ended, StartS where the job had never held a GPU.
type Record struct {
	ID                     string
	ArrivalS, StartS, EndS float64
	StepsRun, Preemptions  int64
	Dropped                bool
}

func (le *leaseEngine) outcome() *Outcome {
	o := &Outcome{
		Counted: le.counted, TotalS: le.nowS, Rounds: le.rounds, Leases: le.stats.leases,
		Lost: le.stats.lost, Cut: le.stats.cut, LostS: le.stats.lostS, SwitchS: le.stats.switchS,
		Switches:    le.stats.switches,
		Preemptions: le.stats.preemptions, first: le.cfg.First, last: le.cfg.Last,
	}
	if le.stats.chances > 0 {
		o.Extended = float64(le.stats.extended) / float64(le.stats.chances)
	}
	sum, n := 0.0, 0.0
	for i := range le.jobs[:le.arrived] {
		j, spec := &le.jobs[i], &le.specs[i]
		r := Record{spec.ID, spec.ArrivalS, j.startS, -1, j.stepsRun, j.preemptions, j.dropped}
		if j.over {
			r.EndS = j.latestS
		}
		o.Jobs = append(o.Jobs, r)
		switch {
		case i < le.cfg.First || i > le.cfg.Last:
		case j.dropped:
			o.Dropped++
		default:
			sum += j.latestS - spec.ArrivalS
			n++
		}
	}
	if n > 0 {
		o.MeanJCTS = sum / n
	}
	le.use(o)
	return o
}

// use divides the time in leases by the time in service.
func (le *leaseEngine) use(o *Outcome) {
	down := make([]float64, len(le.busyS)) // mean number of GPUs that were out, by type
	if le.faults != nil && le.nowS > 0 {
		for k, downS := range le.downS() {
			o.DownS += downS
			down[k] = downS / le.nowS
		}
	}
	gpus := 0.0
	for k, busyS := range le.busyS {
		share, n := 0.0, float64(le.cluster.GPUs[k])-down[k]
		if le.nowS > 0 {
			share = busyS / le.nowS
		}
		use := 0.0
		if n > 0 {
			use = share / n
		}
		o.UtilizationByType = append(o.UtilizationByType, use)
		o.Utilization += share
		gpus += n
	}
	if gpus > 0 {
		o.Utilization /= gpus
	}
}

// Metrics computes the figures of a run of jobs on a cluster, over the jobs of the window
// that were not dropped. A job's slowdown and rho compare with the time of its steps at
// its greatest rate on a type wide enough; a lost lease counts as one task. The cost is
// O(jobs log jobs).
func (lo *Outcome) Metrics(c Cluster, jobs []Job) *sim.Metrics {
	x := &sim.Metrics{
		TotalS: lo.TotalS, Utilization: lo.Utilization, Switches: lo.Switches, SwitchS: lo.SwitchS,
		Preemptions: lo.Preemptions,
		LostTasks:   lo.Lost, LostS: lo.LostS, DownS: lo.DownS,
	}
	gpus := 0.0
	for k, kind := range c.Types {
		x.Use = append(x.Use, hare.TypeUse{Type: kind, Use: lo.UtilizationByType[k]})
		gpus += float64(c.GPUs[k])
	}
	for i := range lo.Jobs {
		j, spec := &lo.Jobs[i], &jobs[i]
		f := sim.JobFigures{
			ID: j.ID, Weight: spec.Weight, ArrivalS: j.ArrivalS, StartS: j.StartS, EndS: j.EndS,
			Preemptions: j.Preemptions, Dropped: j.Dropped, Counts: i >= lo.first && i <= lo.last,
			FromS: j.ArrivalS, UntilS: lo.TotalS,
		}
		if j.EndS >= 0 {
			f.UntilS, f.JCTS = j.EndS, j.EndS-j.ArrivalS
		}
		if j.StartS >= 0 {
			f.WaitS = j.StartS - j.ArrivalS
		}
		f.AloneS = float64(spec.Steps) / greatestRate(c, spec)
		f.WorkS = f.AloneS * float64(spec.GPUs)
		x.Each = append(x.Each, f)
	}
	x.Fill(gpus)
	return x
}

// greatestRate is the greatest rate of a job over the types that are wide enough.
func greatestRate(c Cluster, j *Job) float64 {
	most := 0.0
	for k, rate := range j.Rate {
		if c.GPUs[k] >= j.GPUs {
			most = max(most, rate)
		}
	}
	return most
}
