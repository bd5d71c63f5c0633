package elastic

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hare-sched/hare/sim"
)

// RunConfig tunes Run. The zero value is Pollux's setting.
type RunConfig struct {
	// IntervalS is how often the policy is asked, in seconds; zero means 60.
	IntervalS int64
	// RestartS is the time that a job loses after every change of its GPUs, in
	// seconds; zero means 30, negative none.
	RestartS int64
	// Interference is the fraction by which a job that spans nodes is slowed while it
	// shares one of them with another job that spans nodes; at least 0, less than 1.
	Interference float64
	// First and Last are the numbers of the jobs that count, by arrival from 0:
	// the run ends when all of them have. Last zero means all jobs, and
	// otherwise is the last that counts.
	First, Last int
	// Progress, where not nil, is called after every 256th interval.
	Progress func(sim.LeaseProgress)
}

// Cluster is a list of nodes with GPUs of one type.
type Cluster struct {
	GPUType string
	Nodes   []int // number of GPUs of each node, ≥ 1
}

// Run plays jobs, in the order of their arrival, to a policy that may
// change the number and place of their GPUs at fixed intervals. name is used in
// messages.
//
// The mechanism is that of Pollux's simulator (OSDI 2021; petuum/adaptdl, branch
// osdi21-artifact, commit c793c70) [V]. The policy sees the jobs that have arrived
// and not ended at the end of every interval. A job whose GPUs change, in number,
// place or order of nodes, stands still for RestartS and goes on where it was; the
// rest of a restart that an interval cuts off is done in the next interval in which
// the job holds GPUs. The job then makes progress of
//
//	gain(batch, epoch) / (passes × (step − sync) + sync)
//
// a second, with step and sync as measured for its placement. An epoch ends at
// the same progress for all batches; how long its rest takes is rounded to
// whole seconds, halves to even. A job that ends leaves its GPUs idle for the
// rest of the interval.
//
// While no job is in the system, time jumps to the next interval in which one is, and
// the policy is not asked. Errors are *AllocationError, ErrStalled, and the errors of
// the policy, of the measurements and of ctx. An interval costs O(jobs in the system +
// nodes) and the policy's work; memory is proportional to jobs and nodes.
func Run(ctx context.Context, name string, cluster Cluster, jobs []Job, policy Policy,
	cfg RunConfig) (*Outcome, error) {
	if err := cfg.validate(len(jobs)); err != nil {
		return nil, err
	}
	if err := checkElastic(cluster, jobs); err != nil {
		return nil, err
	}
	e := newElasticEngine(name, cluster, jobs, policy, cfg)
	for e.left > 0 {
		if e.intervals%256 == 0 {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("sim: %w", ctx.Err())
			}
			if cfg.Progress != nil {
				cfg.Progress(sim.LeaseProgress{Done: e.counted - e.left, Jobs: e.counted, NowS: float64(e.nowS),
					Rounds: e.intervals})
			}
		}
		if err := e.interval(ctx); err != nil {
			return nil, err
		}
	}
	return e.outcome(), nil
}

// maxElasticS keeps times exact in float64.
const maxElasticS = 1 << 52

func (ec *RunConfig) validate(jobs int) error {
	if ec.IntervalS == 0 {
		ec.IntervalS = 60
	}
	if ec.RestartS == 0 {
		ec.RestartS = 30
	}
	ec.RestartS = max(0, ec.RestartS)
	if ec.Last == 0 {
		ec.Last = jobs - 1
	}
	switch {
	case ec.IntervalS < 1 || ec.IntervalS > 1e9:
		return errors.New("sim: an interval must be from 1 s to 1e9 s")
	case ec.RestartS > 1e9:
		return errors.New("sim: the restart cost must be at most 1e9 s")
	case !(ec.Interference >= 0 && ec.Interference < 1): // also NaN
		return errors.New("sim: interference is a fraction of speed, from 0 to less than 1")
	}
	return sim.Window{First: ec.First, Last: ec.Last}.Check(jobs)
}

func checkElastic(c Cluster, jobs []Job) error {
	if len(c.Nodes) == 0 {
		return errors.New("sim: a cluster needs nodes")
	}
	for i, n := range c.Nodes {
		if n < 1 {
			return fmt.Errorf("sim: node %d has no GPU", i)
		}
	}
	for i := range jobs {
		j := &jobs[i]
		switch {
		case !(j.ArrivalS >= 0 && j.ArrivalS < maxElasticS) || i > 0 && j.ArrivalS < jobs[i-1].ArrivalS:
			return fmt.Errorf("sim: job %.60q: arrivals must not be negative nor fall", j.ID)
		case !(j.Weight > 0 && j.Weight <= math.MaxFloat64) || min(j.GPUs, j.MaxGPUs, j.Batch, j.Epochs) < 1 ||
			j.Training == nil:
			return fmt.Errorf("sim: job %.60q: weight, GPUs, batch and epochs must be positive, with measurements "+
				"of its training", j.ID)
		case min(j.Limits.Init, j.Limits.Max, j.Limits.MaxLocal) < 1:
			return fmt.Errorf("sim: job %.60q: limits of batches must be positive", j.ID)
		}
	}
	return nil
}
