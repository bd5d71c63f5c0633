package place

import (
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// opportunityCosts charge big jobs for what GPUs are worth to the jobs that are not
// placed yet. A GPU-second delays these jobs by 1/M s each, so for a job of weight w it
// is worth (their weights)/(w·M) of the job's own seconds.
type opportunityCosts struct {
	speed  []float64 // by type: the speed of a GPU, 1 if fastest for all jobs
	gpus   float64   // M: the number of GPUs, in GPUs of speed 1
	rest   float64   // the weight of the jobs not yet placed
	factor float64   // scales the costs; 0 places each job as if it were alone
	byJob  []float64 // by job: the cost at its last placement
}

func newOpportunityCosts(m *model.Model, factor float64) *opportunityCosts {
	oc := &opportunityCosts{speed: make([]float64, len(m.Types)), factor: factor, byJob: make([]float64, len(m.Jobs))}
	counts := make([]float64, len(m.Types))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		oc.rest += float64(j.WeightMicro)
		fast := room.Never
		for _, md := range j.Modes {
			fast = min(fast, md.ComputeUs)
		}
		for _, md := range j.Modes {
			oc.speed[md.Type] += float64(fast) / float64(md.ComputeUs)
			counts[md.Type]++
		}
	}
	for k, n := range counts {
		if n > 0 {
			oc.speed[k] /= n
		}
	}
	for i := range m.Classes {
		oc.gpus += float64(len(m.Classes[i].GPUs)) * oc.speed[m.Classes[i].Type]
	}
	return oc
}

// placed removes the weight of job i from the jobs not yet placed.
func (oc *opportunityCosts) placed(m *model.Model, i int) { oc.rest -= float64(m.Jobs[i].WeightMicro) }

// of returns the present cost for job i of holding one GPU, as a share of the job's
// time.
func (oc *opportunityCosts) of(m *model.Model, i int) float64 {
	w := float64(m.Jobs[i].WeightMicro)
	others := max(0, oc.rest-w)
	if oc.factor == 0 || others == 0 || oc.gpus == 0 {
		return 0
	}
	// A job of no weight is charged as if it had a little.
	return oc.factor * others / (max(w, others*1e-4) * oc.gpus)
}
