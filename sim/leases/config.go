package leases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// RunConfig tunes Run. The zero value is Gavel's setting.
type RunConfig struct {
	// LeaseS is the length of a lease in seconds; zero means 360.
	LeaseS float64
	// ResetS is the least time between two calls of a SharePolicy, in seconds;
	// zero means 1,920, negative none.
	ResetS float64
	// RestartS is the time that is lost at the start of a lease on GPUs that the job
	// did not hold in the round before, in seconds; less than LeaseS.
	RestartS float64
	// Seed is the seed of the draws for LeaseTraits.ShuffleTypes and for FaultRate.
	Seed uint64
	// Faults take GPUs out of service at given times, FaultRate at random ones. A fault
	// ends the lease of the GPU, and the work of the lease is lost, because the job's
	// last checkpoint is from the end of its last lease. The other GPUs of the gang idle
	// until the round ends. A SharePolicy sees the cluster as if all GPUs were in
	// service, and a round lends the GPUs that are; a HoldPolicy sees State.Out.
	// Gavel has no faults.
	Faults    []Fault
	FaultRate FaultRate
	// KeepSteps checkpoints a job with every step, so that a fault loses only the
	// current step.
	KeepSteps bool
	// First and Last are the numbers of the jobs that count, by arrival from 0:
	// the run ends when all of them have. Last zero means all jobs, and
	// otherwise is the last that counts.
	First, Last int
	// PairRates is State.PairRates.
	PairRates func(a, b *Job, gpuType int) (float64, float64)
	// Fork says how the copies of a job progress under a ForkingHoldPolicy.
	Fork Fork
	// Progress, where not nil, is called after every 256th round.
	Progress func(sim.LeaseProgress)
}

// Cluster is the number of GPUs by type. Types must be in ascending order.
type Cluster struct {
	Types []string
	GPUs  []int // by type
	// NodeSize is the number of GPUs of a node, by type; the last node of a type may have
	// fewer. Nil, or 0 for a type, means that all GPUs of a type are on one node. A node
	// has GPUs of one type.
	NodeSize []int
}

// GPUsPerNode is the number of GPUs of a node of the type.
func (lc *Cluster) GPUsPerNode(gpuType int) int {
	if gpuType < len(lc.NodeSize) && lc.NodeSize[gpuType] > 0 {
		return lc.NodeSize[gpuType]
	}
	return lc.GPUs[gpuType]
}

// Run plays jobs, in the order of their arrival, to a policy that lends the
// cluster's GPUs for leases; policy is a SharePolicy or a HoldPolicy. name is used in
// messages.
//
// The mechanism is that of Gavel's simulator (OSDI 2020; commit c4fa400), which
// docs/use/policies.md describes. A round gives each chosen gang a lease of LeaseS. The
// gang runs ⌊rate × LeaseS⌋ steps, or the steps that it has left if these are fewer,
// and the lease ends when the steps are done. A round ends with its latest lease; then
// the jobs that arrived meanwhile enter, and the next round is chosen. A job that ends
// early therefore leaves its GPUs idle for the rest of the round, and rounds differ in
// length.
//
// The priority of a job on a type is its share over the fraction of time that it has
// received on the type since shares were last computed; every job starts with half a
// lease received. Ties go to the greater deficit (time due less time received), then to
// the greater share, then to the earlier job. Each type chooses its jobs by priority,
// one type after another; a gang that does not fit is skipped.
//
// Where a gang's steps are fewer than its GPUs, the lease is lost, because Gavel gives
// each worker whole steps; after five such leases in a row the job is dropped
// (Record.Dropped). After a time in which no job runs, the jobs of the next round
// count that time as received. Both rules are Gavel's.
//
// Errors are *hare.InvalidError of the faults in cfg, *AllocationError, ErrStalled, and
// the errors of the policy and of ctx. A round costs O(A log A + GPUs) for A jobs in the
// system; memory is proportional to jobs and GPUs, and to pairs of jobs in the system
// where a policy pairs jobs. Times are float64 seconds, as in Gavel; the same input
// gives the same run.
func Run(ctx context.Context, name string, cluster Cluster, jobs []Job, policy any,
	cfg RunConfig) (*Outcome, error) {
	if err := cfg.validate(len(jobs)); err != nil {
		return nil, err
	}
	if err := checkLeases(cluster, jobs); err != nil {
		return nil, err
	}
	e, err := newLeaseEngine(name, cluster, jobs, policy, cfg)
	if err != nil {
		return nil, err
	}
	for e.left > 0 {
		if e.rounds%256 == 0 {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("sim: %w", ctx.Err())
			}
			if cfg.Progress != nil {
				cfg.Progress(sim.LeaseProgress{Done: e.counted - e.left, Jobs: e.counted, NowS: e.nowS, Rounds: e.rounds})
			}
		}
		if err := e.round(ctx); err != nil {
			return nil, err
		}
	}
	return e.outcome(), nil
}

func (lc *RunConfig) validate(jobs int) error {
	if lc.LeaseS == 0 {
		lc.LeaseS = 360
	}
	if lc.ResetS == 0 {
		lc.ResetS = 1920
	}
	if lc.Last == 0 {
		lc.Last = jobs - 1
	}
	switch {
	case !(lc.LeaseS > 0 && lc.LeaseS <= 1e9): // also NaN
		return errors.New("sim: a lease must be longer than 0 and at most 1e9 s")
	case !(lc.RestartS >= 0 && lc.RestartS < lc.LeaseS):
		return errors.New("sim: the restart cost must not be negative and must be less than a lease")
	case !(lc.Fork.MergeS >= 0 && lc.RestartS+lc.Fork.MergeS < lc.LeaseS):
		return errors.New("sim: merging copies must not take a negative time, and with a restart less than a lease")
	case !(lc.Fork.Efficiency >= 0 && lc.Fork.Efficiency <= 1):
		return errors.New("sim: the efficiency of copies must be above 0 and at most 1; 0 means 1")
	}
	return sim.Window{First: lc.First, Last: lc.Last}.Check(jobs)
}

// maxLeaseSteps keeps steps exact in float64.
const maxLeaseSteps = 1 << 53

func checkLeases(c Cluster, jobs []Job) error {
	if len(c.Types) == 0 || len(c.Types) != len(c.GPUs) {
		return errors.New("sim: a cluster needs types, and a number of GPUs for each")
	}
	if len(c.NodeSize) != 0 && len(c.NodeSize) != len(c.Types) || slices.ContainsFunc(c.NodeSize,
		func(n int) bool { return n < 0 }) {
		return errors.New("sim: the sizes of nodes must be one for each GPU type, and not negative")
	}
	for k := range c.Types {
		if c.GPUs[k] < 1 || k > 0 && c.Types[k] <= c.Types[k-1] {
			return fmt.Errorf("sim: GPU type %.60q: types must rise, with GPUs of each", c.Types[k])
		}
	}
	for i := range jobs {
		j := &jobs[i]
		switch {
		case !(j.ArrivalS >= 0 && j.ArrivalS < math.MaxInt64) || i > 0 && j.ArrivalS < jobs[i-1].ArrivalS:
			return fmt.Errorf("sim: job %.60q: arrivals must not be negative nor fall", j.ID)
		case !(j.Weight > 0) || j.GPUs < 1 || j.Steps < 1 || j.Steps > maxLeaseSteps || len(j.Rate) != len(c.Types):
			return fmt.Errorf("sim: job %.60q: weight, GPUs and steps must be positive, with a rate for each type",
				j.ID)
		}
		if j.SpreadRate != nil && len(j.SpreadRate) != len(c.Types) {
			return fmt.Errorf("sim: job %.60q: rates on several nodes are for %d types of %d", j.ID, len(j.SpreadRate),
				len(c.Types))
		}
		for k, r := range j.SpreadRate {
			if !(r >= 0 && r <= math.MaxFloat64) {
				return fmt.Errorf("sim: job %.60q: its rate on several nodes of %.60q is not a number from 0", j.ID,
					c.Types[k])
			}
		}
		if j.Rounds && j.Steps%int64(j.GPUs) != 0 {
			return fmt.Errorf("sim: job %.60q: %d steps are not whole rounds of %d GPUs", j.ID, j.Steps, j.GPUs)
		}
		fits := false
		for k, r := range j.Rate {
			if !(r >= 0 && r <= math.MaxFloat64) {
				return fmt.Errorf("sim: job %.60q: its rate on %.60q is not a number from 0", j.ID, c.Types[k])
			}
			fits = fits || r > 0 && c.GPUs[k] >= j.GPUs
		}
		if !fits {
			return fmt.Errorf("%w: job %.60q needs %d GPUs of one type that it can use", sim.ErrStalled, j.ID, j.GPUs)
		}
	}
	return nil
}
