package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// A Scheduler with quotas goes by nodes, and package placement counts what the jobs of each
// quota hold. A job that waits for a quota has no nodes reserved; what it reserves are GPUs of the
// quota, so that only jobs wait for it that the quota counts.

// lackingQuotas are the quotas that have no room for the next start of a job which nodes have room
// for when they are empty; nil where quotas have room, or nodes never do.
func (l *Scheduler) lackingQuotas(j *JobState) []int32 {
	if l.nodes == nil || !l.nodes.HasQuotas() || len(j.spec.Users) == 0 {
		return nil
	}
	n, mix := l.nextStart(j)
	return l.nodes.LackingForStart(j.shape, j.types(), n, mix && n > 1)
}

// HeldByQuota reports whether a quota holds a job back that did not start, and then keeps the
// quotas that lack room for the job as the rule reserves GPUs.
func (l *Scheduler) HeldByQuota(j *JobState) bool {
	lacking := l.lackingQuotas(j)
	if len(lacking) == 0 {
		return false
	}
	if l.rule.Strict {
		for _, q := range lacking {
			l.nodes.CloseQuota(q)
		}
		return true
	}
	l.reserveQuotas(j, lacking, l.nowUs)
	return true
}

// reserveQuotas keeps GPUs of quotas for a job that cannot start before a time, where no job before
// has reserved any.
func (l *Scheduler) reserveQuotas(j *JobState, quotas []int32, notBeforeUs int64) {
	n, _ := l.nextStart(j)
	for _, q := range quotas {
		if _, kept := l.onQuotas[q]; kept {
			continue
		}
		if l.onQuotas == nil {
			l.onQuotas = map[int32]QuotaReservation{}
		}
		v := l.ReserveQuota(q, times(n, j.spec.TaskGPUs()), notBeforeUs, l.expectedEndUs)
		v.ForJob = j
		l.onQuotas[q] = v
	}
}

// ReserveQuota finds when a quota is expected to have room for so many GPUs, not before a time.
// endUs says when a job is expected to release a GPU.
func (l *Scheduler) ReserveQuota(q int32, gpus, notBeforeUs int64,
	endUs func(*JobState, int) int64) QuotaReservation {
	var ends []int64
	for _, o := range l.jobs {
		for _, g := range o.gpus {
			if slices.Contains(l.nodes.Quotas(o.shape, l.gpus[g].Type), q) {
				ends = append(ends, endUs(o, g))
			}
		}
	}
	slices.Sort(ends)
	v := QuotaReservation{ShadowUs: max(l.nowUs, notBeforeUs), Extra: l.nodes.QuotaLeft(q) - gpus}
	for _, end := range ends {
		if end > v.ShadowUs && v.Extra >= 0 {
			return v
		}
		v.ShadowUs = max(v.ShadowUs, end)
		v.Extra++
	}
	if v.Extra < 0 {
		v.ShadowUs = math.MaxInt64 // others leave the quota before that
	}
	return v
}

// quotasAllow reports whether n tasks of a job may start in a mode beside what is kept of quotas
// for other jobs.
func (l *Scheduler) quotasAllow(j *JobState, m Mode, n int64) bool {
	if len(l.onQuotas) == 0 {
		return true
	}
	endUs := l.jobEndUs(j, m)
	for _, q := range l.nodes.Quotas(j.shape, m.Type) {
		if v, kept := l.onQuotas[q]; kept && v.ForJob != j && endUs > v.ShadowUs && v.Extra < times(n, j.spec.TaskGPUs()) {
			return false
		}
	}
	return true
}

// useQuotas takes what n tasks of a job that start in a mode need of the GPUs that are left beside
// what is kept of quotas.
func (l *Scheduler) useQuotas(j *JobState, m Mode, n int64) {
	if len(l.onQuotas) == 0 {
		return
	}
	endUs := l.jobEndUs(j, m)
	for _, q := range l.nodes.Quotas(j.shape, m.Type) {
		if v, kept := l.onQuotas[q]; kept && v.ForJob != j && endUs > v.ShadowUs {
			v.Extra -= times(n, j.spec.TaskGPUs())
			l.onQuotas[q] = v
		}
	}
}

// mustYield reports whether a job that is not rigid by itself must release its GPUs after a round,
// because a quota that counts it is exceeded.
func (l *Scheduler) mustYield(j *JobState) bool {
	return l.nodes != nil && j.spec.Sync != hare.Rigid && slices.ContainsFunc(j.gpus, func(g int) bool {
		return l.nodes.Exceeded(j.shape, l.gpus[g].Type)
	})
}

// OpenQuotas ends what a schedule has kept of quotas.
func (l *Scheduler) OpenQuotas() {
	if l.nodes != nil {
		l.nodes.OpenQuotas()
	}
	l.onQuotas = nil
}
