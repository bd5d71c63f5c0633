package greedy

import "github.com/hare-sched/hare"

// charges tell big jobs what GPUs are worth to the jobs that are not placed
// yet: a GPU-second delays them all by 1/M s, so for a job of weight w it is
// worth (their weights)/(w·M) of its own seconds.
type charges struct {
	speed  []float64 // by type: of its GPUs, 1 where fastest for all jobs
	gpus   float64   // M, in GPUs of speed 1
	rest   float64   // weight of the jobs not yet placed
	factor float64   // scales the charges; 0 places each job as if it were alone
	thrift []float64 // by job, when last placed
}

func newCharges(m *hare.Model, factor float64) *charges {
	c := &charges{speed: make([]float64, len(m.Types)), factor: factor, thrift: make([]float64, len(m.Jobs))}
	counts := make([]float64, len(m.Types))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		c.rest += float64(j.WeightMicro)
		fast := never
		for _, md := range j.Modes {
			fast = min(fast, md.ComputeUs)
		}
		for _, md := range j.Modes {
			c.speed[md.Type] += float64(fast) / float64(md.ComputeUs)
			counts[md.Type]++
		}
	}
	for k, n := range counts {
		if n > 0 {
			c.speed[k] /= n
		}
	}
	for i := range m.Classes {
		c.gpus += float64(len(m.Classes[i].GPUs)) * c.speed[m.Classes[i].Type]
	}
	return c
}

// placed notes that job i has its place; what remains pays for the next.
func (c *charges) placed(m *hare.Model, i int) { c.rest -= float64(m.Jobs[i].WeightMicro) }

// of is the charge to job i now, as a share of its time for each GPU.
func (c *charges) of(m *hare.Model, i int) float64 {
	w := float64(m.Jobs[i].WeightMicro)
	others := max(0, c.rest-w)
	if c.factor == 0 || others == 0 || c.gpus == 0 {
		return 0
	}
	// Jobs of no weight pay as if they had a little.
	return c.factor * others / (max(w, others*1e-4) * c.gpus)
}
