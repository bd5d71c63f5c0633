package sim

import "github.com/hare-sched/hare"

// JobTimes are the times of a job in a run of an engine outside of this package.
type JobTimes struct {
	ID                     string
	Weight                 float64 // > 0
	ArrivalS, StartS, EndS float64 // every job has ended
	// AloneS is the job's least time on an empty cluster, WorkS its least GPU-seconds, both above 0.
	AloneS, WorkS float64
	Counts        bool // whether means include the job
}

// NewMetrics computes the figures that follow from the times of jobs, by number, on so many GPUs; heldS is the GPU
// time up to the last end that jobs held, by type, and count the number of GPUs of each type. O(jobs log jobs).
func NewMetrics(jobs []JobTimes, heldS []float64, count []hare.TypeCount) *Metrics {
	m := &Metrics{}
	for i := range jobs {
		j := &jobs[i]
		m.TotalS = max(m.TotalS, j.EndS)
		m.Each = append(m.Each, JobFigures{
			ID: j.ID, Weight: j.Weight, ArrivalS: j.ArrivalS, StartS: j.StartS, EndS: j.EndS, JCTS: j.EndS - j.ArrivalS,
			WaitS: j.StartS - j.ArrivalS, Counts: j.Counts, FromS: j.ArrivalS, UntilS: j.EndS, AloneS: j.AloneS,
			WorkS: j.WorkS,
		})
	}
	gpus, held := 0, 0.
	for k, c := range count {
		gpus += c.Count
		held += heldS[k]
		m.Use = append(m.Use, hare.TypeUse{Type: c.Type, Use: heldS[k] / (m.TotalS * float64(c.Count))})
	}
	m.Fill(float64(gpus))
	m.Utilization = held / (m.TotalS * float64(gpus))
	return m
}
