package elastic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare/sim"
)

// maxIdle is how many intervals a policy that chooses batches may leave an empty cluster to
// jobs that wait, with no job to come.
const maxIdle = 1000

// elasticEngine is the state of the cluster between two intervals.
type elasticEngine struct {
	name    string
	cluster Cluster
	cfg     RunConfig
	specs   []Job
	policy  Policy
	batches BatchPolicy // the policy, or nil where it chooses no batches

	nowS          int64
	intervals     int64 // intervals in which jobs were in the system
	arrived       int
	counted, left int // jobs of the window, and those of them that have not ended
	jobs          []elasticJobState
	present       []int32 // jobs that have arrived and not ended, by number
	spanning      []int   // by node, the jobs on it that span nodes
	used          []int   // by node, the GPUs that are allocated
	state         State
	busyS, lostS  float64 // GPU-seconds held, and those of them spent in restarts
	moves, stops  int64
	idle          int64 // intervals without a job that holds GPUs, up to now
}

// elasticJobState is one job.
type elasticJobState struct {
	held        []NodeGPUs
	gpus        int
	restartS    int64 // what is left of the restart
	placement   []int
	local       int // samples of a pass on each GPU
	passes      int
	passS       float64 // time of a pass with the exchange of gradients
	syncS       float64 // time of the exchange
	stepS       float64
	batch       int // samples of a step, as split over the GPUs
	attainedS   float64
	progress    float64
	epoch       int
	gain        float64
	endProgress float64 // progress at which the epoch ends
	ended       bool    // whether an epoch has ended since the batch was chosen
	known       bool    // whether gain and endProgress are of this batch and epoch
	startS      int64
	endS        int64 // below 0: the job has not ended
	restarts    int64
	preemptions int64
}

func newElasticEngine(name string, cluster Cluster, jobs []Job, policy Policy,
	cfg RunConfig) *elasticEngine {
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
	e.batches, _ = policy.(BatchPolicy)
	return e
}

// interval runs the jobs to the end of the interval, and asks the policy for the
// allocation of the next interval.
func (ee *elasticEngine) interval(ctx context.Context) error {
	if len(ee.present) == 0 && ee.arrived < len(ee.specs) {
		// Time jumps to the last end of an interval before the next arrival.
		if n := int64(math.Ceil(ee.specs[ee.arrived].ArrivalS))/ee.cfg.IntervalS - 1; n*ee.cfg.IntervalS > ee.nowS {
			ee.nowS = n * ee.cfg.IntervalS
		}
	}
	for _, i := range ee.present {
		if err := ee.run(i); err != nil {
			return err
		}
	}
	ee.nowS += ee.cfg.IntervalS
	if ee.nowS > maxElasticS {
		return fmt.Errorf("%w: policy %s: after 2^52 s", sim.ErrStalled, ee.name)
	}
	ee.present = slices.DeleteFunc(ee.present, func(i int32) bool { return ee.jobs[i].endS >= 0 })
	for ee.arrived < len(ee.specs) && ee.specs[ee.arrived].ArrivalS <= float64(ee.nowS) {
		ee.present = append(ee.present, int32(ee.arrived))
		ee.arrived++
	}
	if len(ee.present) == 0 || ee.left == 0 {
		return nil
	}
	ee.intervals++
	return ee.allocate(ctx)
}

// run advances a job by one interval.
func (ee *elasticEngine) run(i int32) error {
	j, spec := &ee.jobs[i], &ee.specs[i]
	if j.gpus == 0 {
		return nil
	}
	slow := 1.0
	if ee.disturbed(j) {
		slow = 1 - ee.cfg.Interference
	}
	leftS := ee.cfg.IntervalS
	wait := min(j.restartS, leftS)
	j.restartS -= wait
	leftS -= wait
	ee.lostS += float64(wait) * float64(j.gpus)
	trained := leftS > 0 && ee.batches != nil
	for leftS > 0 && j.endS < 0 {
		if err := ee.tune(i); err != nil {
			return err
		}
		if !j.known {
			var err error
			if j.gain, j.endProgress, _, err = spec.Training.Epoch(j.batch, j.epoch); err != nil {
				return fmt.Errorf("sim: job %.60q at %d s, epoch %d with batches of %d: %w", spec.ID, ee.nowS, j.epoch,
					j.batch, err)
			}
			j.known = true
		}
		speed := j.gain / j.stepS * slow
		if !(speed > 0) { // also NaN
			return fmt.Errorf("sim: job %.60q at %d s, epoch %d with batches of %d: its measurements give no "+
				"progress", spec.ID, ee.nowS, j.epoch, j.batch)
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
		j.ended = true
		if j.epoch++; j.epoch == spec.Epochs {
			j.endS = ee.nowS + ee.cfg.IntervalS - leftS
			if int(i) >= ee.cfg.First && int(i) <= ee.cfg.Last {
				ee.left--
			}
		}
	}
	heldS := ee.cfg.IntervalS
	if j.endS >= 0 {
		heldS -= leftS
	}
	j.attainedS += float64(heldS) * float64(j.gpus)
	ee.busyS += float64(heldS) * float64(j.gpus)
	if trained && j.endS < 0 {
		return ee.split(i)
	}
	return nil
}

// tune tells a policy that chooses batches what the job measures, after the batch was chosen
// again if an epoch has ended.
func (ee *elasticEngine) tune(i int32) error {
	j, spec := &ee.jobs[i], &ee.specs[i]
	if ee.batches == nil {
		return nil
	}
	if j.ended {
		j.ended = false
		if err := ee.split(i); err != nil {
			return err
		}
	}
	training, ok := spec.Training.(GradientTraining)
	if !ok {
		return fmt.Errorf("sim: job %.60q: policy %s chooses batches, and no gradients were measured", spec.ID, ee.name)
	}
	seen := TrainingStep{Nodes: len(j.placement), GPUs: j.gpus, Local: j.local, StepS: j.passS, SyncS: j.syncS}
	var err error
	if seen.Sqr, seen.Variance, err = training.Gradients(j.batch, j.epoch); err == nil {
		err = ee.batches.Observe(spec, int(i), seen)
	}
	if err != nil {
		return fmt.Errorf("sim: job %.60q at %d s, epoch %d with batches of %d: %w", spec.ID, ee.nowS, j.epoch, j.batch,
			err)
	}
	return nil
}

// split splits the batch of a job over its GPUs, or lets a policy that chooses batches do so.
func (ee *elasticEngine) split(i int32) error {
	j, spec := &ee.jobs[i], &ee.specs[i]
	local, passes := 0, 0
	if ee.batches != nil && !spec.FixedBatch {
		local, passes = ee.batches.Split(spec, int(i), j.placement)
	} else {
		local, passes = spec.Split(j.gpus)
	}
	if local < 1 || passes < 1 {
		return fmt.Errorf("sim: job %.60q at %d s: policy %s splits a step into %d passes of %d samples", spec.ID,
			ee.nowS, ee.name, passes, local)
	}
	if j.stepS > 0 && local == j.local && passes == j.passes {
		return nil
	}
	j.local, j.passes, j.batch, j.known = local, passes, j.gpus*local*passes, false
	var err error
	if j.passS, j.syncS, err = spec.Training.Step(j.placement, local); err != nil {
		return fmt.Errorf("sim: job %.60q at %d s, as policy %s places it: %w", spec.ID, ee.nowS, ee.name, err)
	}
	j.stepS = j.passS + float64(float64(j.passS-j.syncS)*float64(passes-1))
	if !(j.stepS > 0 && j.stepS <= math.MaxFloat64) {
		return fmt.Errorf("sim: job %.60q at %d s: a step of %v s", spec.ID, ee.nowS, j.stepS)
	}
	return nil
}

// disturbed reports whether the job spans nodes and shares one with another job that
// spans nodes.
func (ee *elasticEngine) disturbed(j *elasticJobState) bool {
	return len(j.held) > 1 && slices.ContainsFunc(j.held, func(h NodeGPUs) bool { return ee.spanning[h.Node] > 1 })
}

// allocate asks the policy and moves the jobs whose GPUs change.
func (ee *elasticEngine) allocate(ctx context.Context) error {
	ee.state.NowS = float64(ee.nowS)
	ee.state.Jobs = ee.state.Jobs[:0]
	for _, i := range ee.present {
		ee.state.Jobs = append(ee.state.Jobs, View{Job: &ee.specs[i], Number: int(i),
			Epoch: ee.jobs[i].epoch, Held: ee.jobs[i].held, AttainedS: ee.jobs[i].attainedS,
			Restarts: ee.jobs[i].restarts})
	}
	all, err := ee.policy.Allocate(ctx, &ee.state)
	if err != nil {
		return fmt.Errorf("sim: policy %s at %d s: %w", ee.name, ee.nowS, err)
	}
	if len(all) != len(ee.present) {
		return fmt.Errorf("sim: policy %s at %d s: it allocates to %d of %d jobs", ee.name, ee.nowS, len(all),
			len(ee.present))
	}
	clear(ee.used)
	clear(ee.spanning)
	given := 0
	for n, i := range ee.present {
		if given += len(all[n]); len(all[n]) == 0 {
			all[n] = nil
		}
		if err := ee.count(i, all[n]); err != nil {
			return err
		}
		if !slices.Equal(all[n], ee.jobs[i].held) {
			if err := ee.move(i, all[n]); err != nil {
				return err
			}
		}
	}
	if ee.idle++; given > 0 || ee.arrived < len(ee.specs) {
		ee.idle = 0
	}
	// A search by chance may find nothing for a job that has just arrived.
	if ee.idle > 0 && (ee.batches == nil || ee.idle > maxIdle) {
		return fmt.Errorf("%w: policy %s at %d s gives job %.60q nothing on an empty cluster", sim.ErrStalled, ee.name,
			ee.nowS, ee.specs[ee.present[0]].ID)
	}
	return nil
}

// count adds up the allocated GPUs, and refuses an allocation that is not possible.
func (ee *elasticEngine) count(i int32, held []NodeGPUs) error {
	for n, h := range held {
		reason := ""
		switch {
		case h.Node < 0 || h.Node >= len(ee.used):
			reason = "there is no such node"
		case h.GPUs < 1:
			reason = fmt.Sprintf("job %.60q gets %d GPUs there", ee.specs[i].ID, h.GPUs)
		case slices.ContainsFunc(held[:n], func(o NodeGPUs) bool { return o.Node == h.Node }):
			reason = fmt.Sprintf("named twice for job %.60q", ee.specs[i].ID)
		case h.GPUs > ee.cluster.Nodes[h.Node]-ee.used[h.Node]:
			reason = fmt.Sprintf("job %.60q gets %d GPUs there, %d of %d are left", ee.specs[i].ID, h.GPUs,
				ee.cluster.Nodes[h.Node]-ee.used[h.Node], ee.cluster.Nodes[h.Node])
		}
		if reason != "" {
			return &sim.AllocationError{Policy: ee.name, NowS: float64(ee.nowS), GPU: "of node " + strconv.Itoa(h.Node),
				Reason: reason}
		}
		ee.used[h.Node] += h.GPUs
		if len(held) > 1 {
			ee.spanning[h.Node]++
		}
	}
	return nil
}

// move gives a job GPUs that differ from those that it holds, or none.
func (ee *elasticEngine) move(i int32, held []NodeGPUs) error {
	j := &ee.jobs[i]
	if j.gpus > 0 {
		j.preemptions++
		ee.stops++
	}
	j.held = slices.Clone(held)
	j.gpus, j.known = 0, false
	if len(held) == 0 {
		return nil
	}
	j.placement = j.placement[:0]
	for _, h := range held {
		j.gpus += h.GPUs
		j.placement = append(j.placement, h.GPUs)
	}
	j.stepS, j.ended = 0, false
	if err := ee.split(i); err != nil {
		return err
	}
	if j.startS < 0 {
		j.startS = ee.nowS
	} else {
		j.restarts++
	}
	j.restartS = ee.cfg.RestartS
	ee.moves++
	return nil
}
