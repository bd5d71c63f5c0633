package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// A Scheduler with quotas goes by nodes, and package placement counts what the jobs of each
// quota hold. A job that waits for a quota has no nodes reserved; what it reserves are GPUs of the
// quota, so that only jobs wait for it that the quota counts.

// QuotaReservation keeps GPUs of a quota for the first job that it holds back: EASY backfill.
type QuotaReservation struct {
	ForJob   *JobState
	ShadowUs int64 // when the quota is expected to have room for the job
	Extra    int64 // GPUs of the quota that the job will not need then
}

// setQuota replaces a quota. It takes O(jobs + GPUs).
func (l *Scheduler) setQuota(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := online.CheckNewQuota(e, l.quotas); err != nil {
		return err
	}
	l.nowUs, l.changed = nowUs, true
	l.quotas = online.WithQuota(l.quotas, e.Quota())
	l.nodes = nil
	if l.placedJobs > 0 || len(l.quotas) > 0 {
		l.goByNodes()
	} else {
		l.nodesChanged()
	}
	l.resized()
	return nil
}

// lackingQuotas are the quotas that have no room for the next start of a job which nodes have room
// for when they are empty; nil where quotas have room, or nodes never do.
func (l *Scheduler) lackingQuotas(j *JobState) (lacking []int32) {
	if l.nodes == nil || !l.nodes.HasQuotas() || len(j.spec.Users) == 0 {
		return nil
	}
	n, mix := l.nextStart(j)
	var types []int
	for _, m := range j.modes {
		types = append(types, m.Type)
		if l.nodes.Most(j.shape, m.Type) < n {
			continue
		}
		if l.nodes.QuotaRoom(j.shape, m.Type) >= n {
			return nil
		}
		lacking = append(lacking, l.nodes.Lacking(j.shape, m.Type, n)...)
	}
	if mix && n > 1 && l.nodes.MostTogether(j.shape, types) >= n {
		if l.nodes.QuotaRoomTogether(j.shape, types) >= n {
			return nil
		}
		for _, t := range types {
			lacking = append(lacking, l.nodes.Lacking(j.shape, t, n)...)
		}
	}
	return lacking
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

// jobEndUs is when a job that starts now in a mode is expected to end.
func (l *Scheduler) jobEndUs(j *JobState, m Mode) int64 {
	if m.DurationUs == 0 {
		return math.MaxInt64
	}
	return add(l.nowUs, SpanUs(j.RoundsLeft(), m.DurationUs))
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

// heldBack says of the jobs that wait which are held back by their quotas: for them the clock of
// turns stands still.
func (l *Scheduler) heldBack() {
	g := &l.guard
	quotas := l.nodes != nil && l.nodes.HasQuotas()
	if !quotas && g.back == 0 {
		g.settled, g.arrived = false, g.arrived[:0]
		return
	}
	jobs := l.jobs
	if g.settled {
		jobs = g.arrived
	}
	g.settled, g.arrived = true, g.arrived[:0]
	for _, j := range jobs {
		x := &j.guarded
		back := quotas && j.waits() && len(l.lackingQuotas(j)) > 0
		switch {
		case back && !x.back:
			x.missed = add(x.missed, l.missedNow(j))
			x.wait++
			x.back = true
			g.back++
		case !back && x.back:
			l.comeBack(j)
			if j.waits() {
				x.turns, x.sinceUs = l.turnsNow(), l.nowUs
				g.fresh = append(g.fresh, j)
			}
		}
	}
}

// comeBack notes that no quota holds a job back.
func (l *Scheduler) comeBack(j *JobState) {
	if j.guarded.back {
		j.guarded.back = false
		l.guard.back--
	}
}

// heldQuota is what is held of quotas for a job that is due.
type heldQuota struct {
	shape   placement.Shape
	gpuType int
	tasks   int64
}

// holdNeed holds of quotas what the next start of a job needs that is due: on the types of the GPUs
// that are reserved for the job, or on the first type that has nodes for it.
func (l *Scheduler) holdNeed(j *JobState) {
	if !l.nodes.HasQuotas() || len(j.spec.Users) == 0 {
		return
	}
	hold := func(gpuType int, tasks int64) {
		l.nodes.HoldQuota(j.shape, gpuType, tasks)
		l.guard.quotas = append(l.guard.quotas, heldQuota{j.shape, gpuType, tasks})
	}
	if len(j.guarded.gpus) > 0 {
		for at, g := range l.nodes.Group(j.guarded.gpus) {
			if at%j.TaskGPUs() == 0 {
				hold(l.gpus[g].Type, 1)
			}
		}
		return
	}
	n, mix := l.nextStart(j)
	for _, m := range j.modes {
		if mix || l.nodes.Most(j.shape, m.Type) >= n {
			hold(m.Type, n)
			return
		}
	}
}

// releaseNeeds gives back what holdNeed has held.
func (l *Scheduler) releaseNeeds() {
	for _, h := range l.guard.quotas {
		l.nodes.HoldQuota(h.shape, h.gpuType, -h.tasks)
	}
	l.guard.quotas = l.guard.quotas[:0]
}

// checkProgress checks what a job that arrives says of its progress, and finds its GPUs.
func (l *Scheduler) checkProgress(a *hare.Job) (gpus []int, err *hare.InvalidError) {
	return placement.CheckRunning(a, func(name string) placement.Found {
		g, ok := l.gpuOf[name]
		if !ok {
			return placement.Found{}
		}
		x := &l.gpus[g]
		found := placement.Found{GPU: g, Type: l.types[x.Type], Here: x.InService, Held: x.Job != nil}
		if found.Held {
			found.By = x.Job.spec.ID
		}
		return found
	}, func() *placement.Nodes {
		if l.nodes != nil {
			return l.nodes
		}
		nodes := placement.New()
		nodes.SetTopology(l.described.Topology())
		for g := range l.gpus {
			if l.gpus[g].InService {
				nodes.Join(g, l.gpus[g].Type, l.described.Of(l.gpus[g].Name))
			}
		}
		return nodes
	})
}

// resume starts the round of a job that runs when it arrives, without decisions.
func (l *Scheduler) resume(j *JobState, gpus []int, elapsedUs int64) {
	l.OpenRound(j)
	told := -1
	for _, g := range gpus {
		t := l.gpus[g].Type
		if t != told && l.rule.Started != nil {
			l.rule.Started(l, j, t)
		}
		told = t
		at, _ := slices.BinarySearch(l.free[t], g)
		l.hold(j, t, at)
	}
	for at, g := range gpus {
		x := &l.gpus[g]
		x.SinceUs, x.user, x.switched = l.nowUs-elapsedUs, j.serial, false
		if at%j.TaskGPUs() > 0 {
			continue
		}
		x.Task = j.next
		j.next++
		l.activate(j, 1)
	}
	j.startedUs = l.nowUs
	l.touch(j)
}
