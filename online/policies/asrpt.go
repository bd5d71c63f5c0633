package policies

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/estimate"
	"github.com/hare-sched/hare/online/list"
)

// asrpt is the state beyond that of list scheduling. All of it but starting follows from the events, the
// starts and the times of schedules, so that recorded starts leave the same state.
type asrpt struct {
	cfg      ASRPTConfig
	machine  singleMachine    // it stands at the time of the last schedule
	places   int64            // places in the queue that were given
	queue    []*list.JobState // the jobs that are completed virtually and wait, by place
	noted    []*list.JobState // jobs that may have begun to wait
	delayed  []*list.JobState // the jobs of the queue with a farUs, by it
	starting bool             // whether the queue is gone through
	placing  placing
	forest   estimate.SizeForest // where sizes are predicted by it, or by the median
}

// srptJob is what asrpt keeps of a job.
type srptJob struct {
	known, noted bool // whether the job has a size, and is in asrpt.noted
	queued       bool // whether it is in asrpt.queue
	virtual      machineJob
	place        int64 // in the queue, from 1 on; 0 while the virtual machine has the job
	completedUs  int64 // when the job came by its place
	// farUs is when the job could first have started, on GPUs too far apart, since it is in the queue; or −1.
	farUs int64
}

// touched notes a job that came, or whose round has begun or ended, and asks for a schedule where the
// virtual machine has completed a job or a delay has ended.
func (a *asrpt) touched(l *list.Scheduler, j *list.JobState) {
	if srptOf(j) == nil {
		j.Own = &srptJob{farUs: -1}
	}
	x := srptOf(j)
	if !x.noted {
		x.noted = true
		a.noted = append(a.noted, j)
	}
	if x.known && x.place == 0 && j.StartedUs() >= 0 { // the job starts before its virtual completion
		a.machine.remove(&x.virtual)
		a.complete(j, a.machine.nowUs)
	}
	if x.queued && j.Ready() == 0 && !a.starting {
		a.dequeue(j)
	}
	if l.NowUs() > a.machine.nowUs && (l.NowUs() >= a.machine.nextUs() || l.NowUs() >= a.delayedUntil()) {
		l.Reschedule()
	}
}

// wake is when the virtual machine completes the next job, or the next delay ends, where some GPU is free.
func (a *asrpt) wake(l *list.Scheduler) int64 {
	if !l.AnyFree() {
		return math.MaxInt64
	}
	return min(a.machine.nextUs(), a.delayedUntil())
}

// delayedUntil is when the next delay of a job in the queue ends after the last schedule, or math.MaxInt64.
func (a *asrpt) delayedUntil() int64 {
	for _, j := range a.delayed {
		if us := a.untilUs(j); us > a.machine.nowUs {
			return us
		}
	}
	return math.MaxInt64
}

// srptOf is what asrpt keeps of a job; nil before it has seen the job.
func srptOf(j *list.JobState) *srptJob {
	x, _ := j.Own.(*srptJob)
	return x
}

// untilUs is when the delay of a job ends that has begun to wait for GPUs nearer together.
func (a *asrpt) untilUs(j *list.JobState) int64 {
	return saturating.Add(srptOf(j).farUs, a.cfg.DelayUs)
}

// after notes the jobs in the queue that could start now, and wait for GPUs nearer together. It goes through the
// queue as startQueue does, with the same reservations, so that no delay begins while a reservation or a quota keeps
// a job from starting.
func (a *asrpt) after(l *list.Scheduler) {
	if a.cfg.DelayUs < 0 || len(a.queue) == 0 || !l.AnyFree() {
		return
	}
	l.ForgetReservations() // there are none where starts are adopted
	defer l.OpenQuotas()
	for _, j := range a.queue {
		switch {
		case !l.FitsWhenEmpty(j):
		case a.waits(l, j):
			if srptOf(j).farUs < 0 {
				srptOf(j).farUs = l.NowUs()
				a.delayed = append(a.delayed, j)
			}
		case a.cfg.Pass || l.Nodes() != nil && l.HeldByQuota(j):
		case !a.cfg.Backfill:
			return // it does not fit and blocks the others
		case !l.Reserved():
			l.Reserve(j)
		}
	}
}

// prepare lets the virtual machine go on, and looks at the jobs that may have begun to wait.
func (a *asrpt) prepare(l *list.Scheduler) {
	a.machine.advance(l.NowUs(), func(m *machineJob, atUs int64) { a.complete(m.job, atUs) })
	a.machine.speed = int64(l.GPUs())
	for _, j := range a.noted {
		x := srptOf(j)
		if x.noted = false; l.Job(j.Spec().ID) != j {
			continue
		}
		if !x.known {
			x.known = true
			x.virtual = machineJob{job: j, serial: j.Number(), left: a.size(l, j)}
			a.machine.add(&x.virtual)
			if j.StartedUs() >= 0 { // the job ran when it came
				a.machine.remove(&x.virtual)
				a.complete(j, a.machine.nowUs)
			}
		}
		if x.place > 0 {
			a.enqueue(j)
		}
	}
	clear(a.noted)
	a.noted = a.noted[:0]
}

// size is the work of a job that arrives on the virtual machine.
func (a *asrpt) size(l *list.Scheduler, j *list.JobState) int64 {
	us := saturating.Mul(a.rounds(l, j), a.leastUs(l, j))
	if h := j.Spec().Hints; a.cfg.Trust && l.LearnsSizes() && h != nil && h.EstimateUs > 0 {
		us = h.EstimateUs
	}
	return max(1, saturating.Mul(us, j.Width()))
}

// rounds is how many rounds a job that arrives is believed to have left, at least 1.
func (a *asrpt) rounds(l *list.Scheduler, j *list.JobState) int64 {
	all := int64(0)
	switch a.cfg.Predict {
	case SizesForest:
		all = a.forest.Predict(labelsOf(j), numbersOf(j))
	case SizesMedian:
		all = a.forest.Median()
	default:
		return j.RoundsLeft()
	}
	if all == 0 {
		return list.FirstRounds // nothing has ended
	}
	return max(1, all-j.Round())
}

// labelsOf is the class of a job for a forest.
func labelsOf(j *list.JobState) (all []estimate.Label) {
	if h := j.Spec().Hints; h != nil {
		for _, l := range h.Class {
			all = append(all, estimate.Label(l))
		}
	}
	return all
}

// numbersOf are the numbers of a job for a forest: its GPUs, and the logarithms of a round on its fastest type
// and of its estimate.
func numbersOf(j *list.JobState) []int64 {
	estimateUs := int64(0)
	if h := j.Spec().Hints; h != nil {
		estimateUs = h.EstimateUs
	}
	return []int64{j.Width(), estimate.Log2(max(1, j.FastestUs())), estimate.Log2(max(1, estimateUs))}
}

// complete gives a job that has left the virtual machine at a time the next place in the queue.
func (a *asrpt) complete(j *list.JobState, atUs int64) {
	a.places++
	srptOf(j).place, srptOf(j).completedUs = a.places, atUs
	a.enqueue(j)
}

// enqueue puts a completed job that waits in the queue.
func (a *asrpt) enqueue(j *list.JobState) {
	if srptOf(j).queued || j.Ready() == 0 {
		return
	}
	srptOf(j).queued = true
	at, _ := slices.BinarySearchFunc(a.queue, srptOf(j).place, byPlace)
	a.queue = slices.Insert(a.queue, at, j)
}

// dequeue takes a job out of the queue.
func (a *asrpt) dequeue(j *list.JobState) {
	at, _ := slices.BinarySearchFunc(a.queue, srptOf(j).place, byPlace)
	a.queue = slices.Delete(a.queue, at, at+1)
	a.unqueued(j)
}

// unqueued forgets what is kept of a job while it is in the queue.
func (a *asrpt) unqueued(j *list.JobState) {
	srptOf(j).queued = false
	if srptOf(j).farUs >= 0 {
		srptOf(j).farUs = -1
		a.delayed = slices.DeleteFunc(a.delayed, func(o *list.JobState) bool { return o == j })
	}
}

func byPlace(j *list.JobState, place int64) int { return cmp.Compare(srptOf(j).place, place) }

// left forgets a job that ended or was cancelled.
func (a *asrpt) left(_ *list.Scheduler, j *list.JobState, ended bool) {
	if a.cfg.Predict != SizesTold && ended && j.Round() > 0 {
		a.forest.Ended(labelsOf(j), numbersOf(j), j.Round())
	}
	if x := srptOf(j); x.known && x.place == 0 {
		a.machine.remove(&x.virtual)
		x.known = false
	}
	if srptOf(j).queued {
		a.dequeue(j)
	}
}

// assign starts what may start.
func (a *asrpt) assign(l *list.Scheduler) {
	if a.startQueue(l) {
		return
	}
	for l.AnyFree() && (a.cfg.Eager || a.idle(l)) {
		j := a.next(l)
		if j == nil || !a.starts(l, j) {
			return
		}
		before := j.Ready()
		for j.Ready() > 0 && l.TryStart(j) {
		}
		if j.Ready() == before { // what is free is reserved
			return
		}
	}
}

// next is the first job on the virtual machine that could start on an empty cluster, and that no quota
// holds back; nil where there is none.
func (a *asrpt) next(l *list.Scheduler) *list.JobState {
	var first *machineJob
	for i, m := range a.machine.jobs {
		if i > 0 && first == a.machine.jobs[0] {
			break
		}
		if first != nil && (m.left > first.left || m.left == first.left && m.serial > first.serial) {
			continue
		}
		if l.FitsWhenEmpty(m.job) && (l.Nodes() == nil || a.starts(l, m.job) || !l.HeldByQuota(m.job)) {
			first = m
		}
	}
	if first == nil {
		return nil
	}
	return first.job
}

// idle reports whether no job holds a GPU.
func (a *asrpt) idle(l *list.Scheduler) bool {
	for t := range l.Free() {
		if len(l.Free()[t]) < l.InService()[t] {
			return false
		}
	}
	return true
}

// starts reports whether a job can start now.
func (a *asrpt) starts(l *list.Scheduler, j *list.JobState) bool {
	if a.waits(l, j) {
		return false
	}
	n := j.Spec().Tasks
	hold, mix := l.Holding(j)
	if hold == hare.Relaxed {
		n = 1
	}
	room := int64(0)
	for _, m := range j.Modes() {
		if l.CanUse(j, m, n) {
			return true
		}
		room += int64(len(l.Free()[m.Type]))
	}
	return mix && room >= saturating.Mul(n, j.Spec().TaskGPUs())
}

// startQueue starts completed jobs in the order of the queue. It returns whether one that does not fit
// blocks the others.
func (a *asrpt) startQueue(l *list.Scheduler) (blocked bool) {
	a.starting = true
	l.ForgetReservations()
	kept := a.queue[:0]
	for i, j := range a.queue {
		if blocked || !l.AnyFree() {
			kept = append(kept, a.queue[i:]...)
			break
		}
		if !l.FitsWhenEmpty(j) || a.waits(l, j) {
			kept = append(kept, j)
			continue
		}
		for j.Ready() > 0 && l.TryStart(j) {
		}
		if j.Ready() > 0 {
			kept = append(kept, j)
			switch {
			case a.cfg.Pass || l.Nodes() != nil && l.HeldByQuota(j):
			case !a.cfg.Backfill:
				blocked = true
			case !l.Reserved():
				l.Reserve(j)
			}
			continue
		}
		a.unqueued(j)
	}
	clear(a.queue[len(kept):])
	a.queue, a.starting = kept, false
	return blocked
}

// asrptSnapshot is the state of asrpt, with the jobs in the order of arrival.
type asrptSnapshot struct {
	NowUs  int64             `json:"now_us"`
	Places int64             `json:"places"`
	Jobs   []srptJobSnapshot `json:"jobs"`
	// Forest is of rules that predict sizes by it.
	Forest *estimate.SizeForestSnapshot `json:"forest,omitempty"`
	// Hardware is of rules with graphs.
	Hardware *graphHardware `json:"hardware,omitempty"`
}

// srptJobSnapshot is what asrpt keeps of a job. A job without a size has neither Left nor Place.
type srptJobSnapshot struct {
	Left        int64 `json:"left,omitempty"`
	Place       int64 `json:"place,omitempty"`
	CompletedUs int64 `json:"completed_us,omitempty"`
	// FarUs is left out where the job has none.
	FarUs *int64 `json:"far_us,omitempty"`
}

func (a *asrpt) encode(l *list.Scheduler) any {
	out := asrptSnapshot{NowUs: a.machine.nowUs, Places: a.places, Hardware: a.placing.hardware}
	for _, j := range l.Active() {
		s := srptJobSnapshot{Place: srptOf(j).place, CompletedUs: srptOf(j).completedUs}
		if srptOf(j).known && s.Place == 0 {
			s.Left = srptOf(j).virtual.left
		}
		if srptOf(j).farUs >= 0 {
			s.FarUs = &srptOf(j).farUs
		}
		out.Jobs = append(out.Jobs, s)
	}
	if a.cfg.Predict != SizesTold {
		out.Forest = a.forest.Snapshot()
	}
	return out
}

func (a *asrpt) decode(l *list.Scheduler, state json.RawMessage) bool {
	var in asrptSnapshot
	if list.DecodeState(state, &in) != nil || len(in.Jobs) != len(l.Active()) || in.NowUs < 0 || in.NowUs > l.NowUs() ||
		in.Places < 0 {
		return false
	}
	*a = asrpt{cfg: a.cfg, placing: a.placing, places: in.Places,
		machine: singleMachine{nowUs: in.NowUs, speed: int64(l.GPUs())}}
	if h := in.Hardware; (a.cfg.Named != nil) != (h != nil) ||
		h != nil && (!slices.Equal(h.Topology, l.Topology()) || a.equip(h) != nil) {
		return false
	}
	if (a.cfg.Predict != SizesTold) != (in.Forest != nil) || in.Forest != nil && !a.forest.Restore(in.Forest) {
		return false
	}
	completedUs := map[int64]int64{}
	var places []int64
	for i, s := range in.Jobs {
		j := l.Active()[i]
		_, twice := completedUs[s.Place]
		if s.Left < 0 || s.Place < 0 || s.Place > in.Places || s.Left > 0 && s.Place > 0 || twice || s.CompletedUs < 0 ||
			s.CompletedUs > in.NowUs {
			return false
		}
		j.Own = &srptJob{place: s.Place, completedUs: s.CompletedUs, known: s.Left > 0 || s.Place > 0, farUs: -1}
		srptOf(j).virtual = machineJob{job: j, serial: j.Number(), left: s.Left, at: -1}
		switch {
		case s.Place > 0:
			completedUs[s.Place] = s.CompletedUs
			places = append(places, s.Place)
			a.enqueue(j)
			if s.FarUs != nil {
				if !srptOf(j).queued || *s.FarUs < 0 || *s.FarUs > in.NowUs {
					return false
				}
				srptOf(j).farUs = *s.FarUs
				a.delayed = append(a.delayed, j)
			}
		case s.Left > 0:
			a.machine.add(&srptOf(j).virtual)
		default:
			srptOf(j).noted = true
			a.noted = append(a.noted, j)
		}
	}
	slices.SortStableFunc(a.delayed, func(x, y *list.JobState) int {
		return cmp.Or(cmp.Compare(srptOf(x).farUs, srptOf(y).farUs), cmp.Compare(srptOf(x).place, srptOf(y).place))
	})
	slices.Sort(places)
	return slices.IsSortedFunc(places, func(x, y int64) int { return cmp.Compare(completedUs[x], completedUs[y]) })
}
