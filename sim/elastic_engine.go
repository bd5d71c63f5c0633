package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// elasticEngine is the cluster between two intervals.
type elasticEngine struct {
	name    string
	cluster ElasticCluster
	cfg     ElasticConfig
	specs   []ElasticJob
	policy  ElasticPolicy

	nowS          int64
	intervals     int64 // in which jobs were there
	arrived       int
	counted, left int // jobs of the window; of them not ended
	jobs          []elasticJobState
	present       []int32 // jobs that came and have not ended, by number
	spanning      []int   // jobs on more than one node, by node
	used          []int   // GPUs given out, by node
	state         ElasticState
	busyS, lostS  float64 // GPU-seconds held, and of them in restarts
	moves, stops  int64
}

// elasticJobState is one job.
type elasticJobState struct {
	held        []NodeGPUs
	gpus        int
	restartS    int64 // still to stand still
	stepS       float64
	batch       int // of a step as it is dealt out
	progress    float64
	epoch       int
	gain        float64
	endProgress float64 // of the epoch
	known       bool    // both are of this batch and epoch
	startS      int64
	endS        int64 // below 0: not yet
	restarts    int64
	preemptions int64
}

func newElasticEngine(name string, cluster ElasticCluster, jobs []ElasticJob, policy ElasticPolicy,
	cfg ElasticConfig) *elasticEngine {
	n := cfg.Last - cfg.First + 1
	e := &elasticEngine{
		name: name, cluster: cluster, cfg: cfg, specs: jobs, policy: policy, counted: n, left: n,
		jobs: make([]elasticJobState, len(jobs)), spanning: make([]int, len(cluster.Nodes)),
		used: make([]int, len(cluster.Nodes)),
	}
	for i := range e.jobs {
		e.jobs[i].startS, e.jobs[i].endS = -1, -1
	}
	e.state.Nodes = cluster.Nodes
	return e
}

// interval runs jobs to the end of the interval, and lets the policy choose for
// the next one.
func (e *elasticEngine) interval(ctx context.Context) error {
	if len(e.present) == 0 && e.arrived < len(e.specs) {
		// No need to stop before the last end of an interval at which nobody is there.
		if n := int64(math.Ceil(e.specs[e.arrived].ArrivalS))/e.cfg.IntervalS - 1; n*e.cfg.IntervalS > e.nowS {
			e.nowS = n * e.cfg.IntervalS
		}
	}
	for _, i := range e.present {
		if err := e.run(i); err != nil {
			return err
		}
	}
	e.nowS += e.cfg.IntervalS
	if e.nowS > maxElasticS {
		return fmt.Errorf("%w: policy %s: after 2^52 s", ErrStalled, e.name)
	}
	e.present = slices.DeleteFunc(e.present, func(i int32) bool { return e.jobs[i].endS >= 0 })
	for e.arrived < len(e.specs) && e.specs[e.arrived].ArrivalS <= float64(e.nowS) {
		e.present = append(e.present, int32(e.arrived))
		e.arrived++
	}
	if len(e.present) == 0 || e.left == 0 {
		return nil
	}
	e.intervals++
	return e.allocate(ctx)
}

// run is what a job does in an interval.
func (e *elasticEngine) run(i int32) error {
	j, spec := &e.jobs[i], &e.specs[i]
	if j.gpus == 0 {
		return nil
	}
	slow := 1.0
	if e.disturbed(j) {
		slow = 1 - e.cfg.Interference
	}
	leftS := e.cfg.IntervalS
	wait := min(j.restartS, leftS)
	j.restartS -= wait
	leftS -= wait
	e.lostS += float64(wait) * float64(j.gpus)
	for leftS > 0 && j.endS < 0 {
		if !j.known {
			var err error
			if j.gain, j.endProgress, _, err = spec.Training.Epoch(j.batch, j.epoch); err != nil {
				return fmt.Errorf("sim: job %.60q at %d s, epoch %d with batches of %d: %w", spec.ID, e.nowS, j.epoch,
					j.batch, err)
			}
			j.known = true
		}
		speed := j.gain / j.stepS * slow
		if !(speed > 0) { // also NaN
			return fmt.Errorf("sim: job %.60q at %d s, epoch %d with batches of %d: its measurements give no progress", spec.ID, e.nowS, j.epoch, j.batch)
		}
		if reached := j.progress + float64(speed*float64(leftS)); reached < j.endProgress {
			j.progress = reached
			leftS = 0
			break
		}
		took := min(leftS, max(0, int64(math.RoundToEven((j.endProgress-j.progress)/speed))))
		j.progress = j.endProgress
		leftS -= took
		j.known = false
		if j.epoch++; j.epoch == spec.Epochs {
			j.endS = e.nowS + e.cfg.IntervalS - leftS
			if int(i) >= e.cfg.First && int(i) <= e.cfg.Last {
				e.left--
			}
		}
	}
	heldS := e.cfg.IntervalS
	if j.endS >= 0 {
		heldS -= leftS
	}
	e.busyS += float64(heldS) * float64(j.gpus)
	return nil
}

// disturbed says that the job spans nodes and shares one with another that does.
func (e *elasticEngine) disturbed(j *elasticJobState) bool {
	return len(j.held) > 1 && slices.ContainsFunc(j.held, func(h NodeGPUs) bool { return e.spanning[h.Node] > 1 })
}

// allocate asks the policy and moves jobs.
func (e *elasticEngine) allocate(ctx context.Context) error {
	e.state.NowS = float64(e.nowS)
	e.state.Jobs = e.state.Jobs[:0]
	for _, i := range e.present {
		e.state.Jobs = append(e.state.Jobs, ElasticView{ElasticJob: &e.specs[i], Number: int(i),
			Epoch: e.jobs[i].epoch, Held: e.jobs[i].held})
	}
	all, err := e.policy.Allocate(ctx, &e.state)
	if err != nil {
		return fmt.Errorf("sim: policy %s at %d s: %w", e.name, e.nowS, err)
	}
	if len(all) != len(e.present) {
		return fmt.Errorf("sim: policy %s at %d s: it allocates to %d of %d jobs", e.name, e.nowS, len(all),
			len(e.present))
	}
	clear(e.used)
	clear(e.spanning)
	given := 0
	for n, i := range e.present {
		if given += len(all[n]); len(all[n]) == 0 {
			all[n] = nil
		}
		if err := e.count(i, all[n]); err != nil {
			return err
		}
		if !slices.Equal(all[n], e.jobs[i].held) {
			if err := e.move(i, all[n]); err != nil {
				return err
			}
		}
	}
	if given == 0 && e.arrived == len(e.specs) {
		return fmt.Errorf("%w: policy %s at %d s gives job %.60q nothing on an empty cluster", ErrStalled, e.name,
			e.nowS, e.specs[e.present[0]].ID)
	}
	return nil
}

// count adds up what is given out, and refuses what is not there.
func (e *elasticEngine) count(i int32, held []NodeGPUs) error {
	for n, h := range held {
		reason := ""
		switch {
		case h.Node < 0 || h.Node >= len(e.used):
			reason = "there is no such node"
		case h.GPUs < 1:
			reason = fmt.Sprintf("job %.60q gets %d GPUs there", e.specs[i].ID, h.GPUs)
		case slices.ContainsFunc(held[:n], func(o NodeGPUs) bool { return o.Node == h.Node }):
			reason = fmt.Sprintf("named twice for job %.60q", e.specs[i].ID)
		case h.GPUs > e.cluster.Nodes[h.Node]-e.used[h.Node]:
			reason = fmt.Sprintf("job %.60q gets %d GPUs there, %d of %d are left", e.specs[i].ID, h.GPUs,
				e.cluster.Nodes[h.Node]-e.used[h.Node], e.cluster.Nodes[h.Node])
		}
		if reason != "" {
			return &AllocationError{e.name, float64(e.nowS), "of node " + strconv.Itoa(h.Node), reason}
		}
		e.used[h.Node] += h.GPUs
		if len(held) > 1 {
			e.spanning[h.Node]++
		}
	}
	return nil
}

// move gives a job other GPUs than it holds, or none.
func (e *elasticEngine) move(i int32, held []NodeGPUs) error {
	j, spec := &e.jobs[i], &e.specs[i]
	if j.gpus > 0 {
		j.preemptions++
		e.stops++
	}
	j.held = slices.Clone(held)
	j.gpus, j.known = 0, false
	if len(held) == 0 {
		return nil
	}
	var placement []int
	for _, h := range held {
		j.gpus += h.GPUs
		placement = append(placement, h.GPUs)
	}
	local, passes := spec.Split(j.gpus)
	j.batch = j.gpus * local * passes
	stepS, syncS, err := spec.Training.Step(placement, local)
	if err != nil {
		return fmt.Errorf("sim: job %.60q at %d s, as policy %s places it: %w", spec.ID, e.nowS, e.name, err)
	}
	j.stepS = stepS + float64(float64(stepS-syncS)*float64(passes-1))
	if !(j.stepS > 0 && j.stepS <= math.MaxFloat64) {
		return fmt.Errorf("sim: job %.60q at %d s: a step of %v s", spec.ID, e.nowS, j.stepS)
	}
	if j.startS < 0 {
		j.startS = e.nowS
	} else {
		j.restarts++
	}
	j.restartS = e.cfg.RestartS
	e.moves++
	return nil
}
