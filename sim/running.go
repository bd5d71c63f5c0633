package sim

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// withoutRunning is an instance as if nothing were done or ran at time 0, for its model: the
// model of an instance has no GPUs for others while work runs on them.
func withoutRunning(inst *hare.Instance) *hare.Instance {
	if !slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Progress != nil }) {
		return inst
	}
	out := *inst
	out.Jobs = slices.Clone(inst.Jobs)
	for i := range out.Jobs {
		out.Jobs[i].Progress = nil
	}
	return &out
}

// resume puts a job that arrives where its progress has it, and describes the progress to the
// policy: the round that runs, the GPUs of each task together, and how long ago the round began.
// Work on a GPU that is not in service is lost.
func (e *engine) resume(ji int32, arrived *hare.Job) error {
	j, spec := &e.jobs[ji], &e.inst.Jobs[ji]
	if spec.Progress == nil {
		return nil
	}
	j.round = spec.FirstRound()
	arrived.Progress = &hare.Progress{RoundsDone: j.round}
	if !spec.Running() {
		return nil
	}
	var gpus []int32
	for _, name := range spec.Progress.GPUs {
		gpus = append(gpus, e.gpuOf[name])
	}
	longest, spread := int64(0), 0
	if e.hasLevels(ji) {
		spread = e.spreadOf(gpus)
	}
	for _, g := range gpus {
		p := e.mode(ji, g)
		longest = max(longest, p.ComputeUs+syncUs(p, spread))
	}
	elapsedUs := spec.Progress.ElapsedUs
	j.round += elapsedUs / longest
	elapsedUs %= longest
	arrived.Progress.RoundsDone = j.round
	j.atStart = true
	if slices.ContainsFunc(gpus, func(g int32) bool { return !e.gpus[g].here() }) {
		e.markMoved(ji)
		return nil
	}
	slices.Sort(gpus)
	for _, g := range gpus {
		arrived.Progress.GPUs = append(arrived.Progress.GPUs, e.model.GPUs[g].ID)
	}
	arrived.Progress.ElapsedUs = elapsedUs
	n := e.groupSize(ji)
	for task := range spec.Tasks {
		of := gpus[:n]
		gpus = gpus[n:]
		e.hold(ji, of[0], 1)
		slot := e.launchOn(ji, of, task, e.mode(ji, of[0]))
		j.held = append(j.held, of...)
		e.slots[slot].syncUs = syncUs(e.mode(ji, of[0]), spread)
		failsUs := int64(0)
		if e.vary != nil {
			var err error
			if failsUs, err = e.drawTimes(&e.slots[slot], false); err != nil {
				return err
			}
		}
		if failsUs <= elapsedUs {
			failsUs = 0
		}
		t := &e.slots[slot]
		e.begin(slot, -min(elapsedUs, t.computeUs+t.syncUs), failsUs)
		for _, g := range of {
			e.gpus[g].sinceUs = 0
		}
	}
	return nil
}

// left are the rounds of a job that are neither done nor running at time 0, and for how many
// seconds running work goes on.
func left(inst *hare.Instance, job int) (rounds int64, runsS float64) {
	j := &inst.Jobs[job]
	rounds = j.Rounds - j.FirstRound()
	if j.Running() {
		rounds--
		if j.Sync == hare.Rigid {
			rounds = 0
		}
	}
	return rounds, float64(model.RunningUntilUs(inst, job)) / 1e6
}

// Constant is the part of the weighted completion time of the jobs that end with the work that runs
// at time 0, which bounds do not count.
func Constant(inst *hare.Instance) (sum hare.Amount) {
	for i := range inst.Jobs {
		if j := &inst.Jobs[i]; endsAtStart(j) {
			sum = sum.Add(hare.Product(j.WeightMicro, model.RunningUntilUs(inst, i)))
		}
	}
	return sum
}

// endsAtStart reports whether a job ends with the work that runs at time 0.
func endsAtStart(j *hare.Job) bool {
	return j.Running() && (j.Sync == hare.Rigid || j.FirstRound() == j.Rounds-1)
}

// tooSmall is the first quota that is too small for a round of a job, or for a task of a relaxed one, on
// each of the types that the job may use; −1 where there is none. gpus are those that the job needs at
// once.
func (e *engine) tooSmall(job int) (quota int, gpus int64) {
	j := &e.inst.Jobs[job]
	if gpus = j.TaskGPUs(); j.Sync != hare.Relaxed {
		gpus *= j.Tasks
	}
	quota = -1
	for i := range j.On {
		first := slices.IndexFunc(e.inst.Quota, func(q hare.Quota) bool {
			return q.Limits(j, j.On[i].Type) && q.GPUs < gpus && (!j.Mix || q.Types == nil)
		})
		if first < 0 {
			return -1, gpus
		}
		if quota < 0 {
			quota = first
		}
	}
	return quota, gpus
}

// announceQuotas tells the policy of the quotas, before all other events.
func (e *engine) announceQuotas() error {
	for i, q := range e.inst.Quota {
		for _, before := range e.inst.Quota[:i] {
			if before.User == q.User && slices.Equal(before.Types, q.Types) && (before.Types == nil) == (q.Types == nil) {
				q.GPUs = min(q.GPUs, before.GPUs)
			}
		}
		e.events[0] = hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &q}}
		if err := e.notify(); err != nil {
			return err
		}
	}
	return nil
}
