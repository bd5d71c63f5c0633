package regret

import (
	"slices"

	"github.com/hare-sched/hare"
)

// setQuota records a quota. Hindsight has each quota as loose as it ever was while tasks ran: what
// happened keeps to it. One that was first set after a start is left out, because more may have been
// held before.
func (h *Hindsight) setQuota(q *hare.Quota) {
	h.version++
	at := slices.IndexFunc(h.quotas,
		func(o hare.Quota) bool { return o.User == q.User && slices.Equal(o.Types, q.Types) })
	switch {
	case at < 0 && h.started:
		h.quotaChanged = true
	case at < 0:
		h.quotas = append(h.quotas, hare.Quota{User: q.User, GPUs: q.GPUs, Types: slices.Clone(q.Types)})
	case !h.started:
		h.quotas[at].GPUs = q.GPUs
	case h.quotas[at].GPUs != q.GPUs:
		h.quotaChanged = true
		h.quotas[at].GPUs = max(h.quotas[at].GPUs, q.GPUs)
	}
}

// limits are the quotas that limit something.
func (h *Hindsight) limits() (limits []hare.Quota) {
	for _, q := range h.quotas {
		if q.GPUs < hare.MaxGPUs {
			limits = append(limits, q)
		}
	}
	return limits
}

// resume opens the tasks of a job that runs when it arrives.
func (h *Hindsight) resume(j *pastJob) error {
	p := j.job.Progress
	if p == nil {
		return nil
	}
	j.first = p.RoundsDone
	if j.arrivedUs > 0 && len(p.GPUs) > 0 {
		h.runsLate = j.job.ID
		return nil
	}
	n := int(j.job.TaskGPUs())
	for at := 0; at+n <= len(p.GPUs); at += n {
		t := taskRun{round: j.first, task: int64(at / n), startUs: -p.ElapsedUs, computeEnd: unknownTime, ran: true}
		if err := h.place(&t, p.GPUs[at:at+n]); err != nil {
			return err
		}
		j.open[[2]int64{t.round, t.task}] = t
	}
	return nil
}

// progressOf is the progress of a job whose whole rounds took these tasks, as a job of an instance with
// these times: the round that ran at the start is there if it ended as it ran. In the instance the round
// ends no later than it did.
func (h *Hindsight) progressOf(j *pastJob, tasks []taskRun, on []hare.Profile, sync hare.Sync) *hare.Progress {
	p := &hare.Progress{RoundsDone: j.first}
	if len(tasks) == 0 || !tasks[0].ran || sync == hare.Relaxed {
		if j.first == 0 {
			return nil
		}
		return p
	}
	endUs, longestUs := int64(0), int64(0)
	for i := range tasks[:j.job.Tasks] {
		t := &tasks[i]
		endUs = max(endUs, t.endsAt)
		for _, g := range append([]int{t.gpu}, t.others...) {
			p.GPUs = append(p.GPUs, h.gpus[g].name)
			for _, profile := range on {
				if profile.Type == h.gpus[g].kind {
					longestUs = max(longestUs, profile.DurationUs())
				}
			}
		}
	}
	if endUs == 0 { // it had ended when the session began
		return &hare.Progress{RoundsDone: j.first + 1}
	}
	p.ElapsedUs = min(j.job.Progress.ElapsedUs, longestUs-1)
	return p
}

// endsAtStart reports whether a job ends with the work that runs at the start, whatever a policy does.
func endsAtStart(j *hare.Job) bool {
	return j.Running() && (j.Sync == hare.Rigid || j.FirstRound() == j.Rounds-1)
}

// relax takes the levels from a job that is bounded as a relaxed one.
func relax(j *hare.Job) {
	j.Within = ""
	for i := range j.On {
		p := &j.On[i]
		for _, at := range p.SyncAt {
			p.SyncUs = min(p.SyncUs, at.SyncUs)
		}
		p.SyncAt = nil
	}
}

// settle gives an instance the topology, where jobs of the session go by levels, and its times by
// spread their form. Bandwidths and GPU types are left out, because no bound goes by them.
func (h *Hindsight) settle(inst *hare.Instance) {
	inst.Cluster.Topology, inst.Cluster.Bandwidths, inst.Cluster.GPUTypes = nil, nil, nil
	if slices.ContainsFunc(h.jobs, func(j *pastJob) bool { return usesLevels(j.job) }) {
		inst.Cluster.Topology = h.cluster.Topology
		inst.SettleLevels()
	}
}

func usesLevels(j *hare.Job) bool {
	return j.Within != "" || slices.ContainsFunc(j.On, func(p hare.Profile) bool { return p.SyncAt != nil })
}
