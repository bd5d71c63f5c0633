package task

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// ASRPTConfig tunes NewASRPT. The zero value is the default.
type ASRPTConfig struct {
	// DelayUs is τ, how long a job that is heavy on communication waits for GPUs that are near
	// together, from its virtual completion on. Zero means 300 s, below zero not at all.
	DelayUs int64
	// Heavy is the least α_max/α_min of jobs that are heavy on communication, at least 1. Zero
	// means 1.5.
	Heavy float64
	// Near is the largest α/α_min of GPUs on which such a job starts at once, at least 1. Zero
	// means 1.1.
	Near float64
	// Pass lets jobs pass one that does not fit; otherwise the first job that does not fit keeps
	// all behind it from starting.
	Pass bool
	// Eager starts jobs that the virtual machine has not completed on GPUs that no completed job
	// can use, the shortest first; otherwise such GPUs idle while other jobs run.
	Eager bool
	// Trust takes estimate_s of a job as its size, where the policy is told no sizes. Otherwise an
	// estimate counts as far as those of jobs that ended were right.
	Trust bool
}

func (cfg ASRPTConfig) withDefaults() ASRPTConfig {
	if cfg.DelayUs == 0 {
		cfg.DelayUs = 300e6
	}
	if cfg.Heavy == 0 {
		cfg.Heavy = 1.5
	}
	if cfg.Near == 0 {
		cfg.Near = 1.1
	}
	return cfg
}

// NewASRPT is A-SRPT (arXiv 2501.05563): a virtual machine with the speed of all GPUs does each job by
// preemptive SRPT, and the jobs start on the cluster, as gangs that keep their GPUs until they end, in the
// order in which the virtual machine completes them. A job that is heavy on communication waits for a
// while where the GPUs at hand lie far apart. The policy knows how long jobs take; in sessions it goes by
// estimates, and those of jobs that have arrived stay what they were at the arrival.
//
// [V] The virtual machine, the start after the virtual completion, no preemption on the cluster, the delay of
// jobs that are heavy on communication. [S] The virtual size: iterations × α_min × GPUs, with α_min the time
// of an iteration on GPUs as near together as can be; α_max is that on GPUs which are all apart. [I] The
// values of the thresholds and of τ; the speed of the virtual machine is the number of GPUs in service,
// whatever their types; times on the fastest type in service that is wide enough; jobs behind one that is
// delayed may pass it, and jobs behind one that does not fit may not (ASRPTConfig.Pass); an idle cluster
// starts the job that is the first on the virtual machine at once. The policy asks for ticks at virtual
// completions and ends of delays while a GPU is free (online.Waker). A job that lost its GPUs has the place in
// the queue that it had.
//
// An event takes O(log jobs) for each job that arrives, completes or starts, and O(types) beside; with
// Pass, or where jobs are delayed, O(jobs) that are completed and wait.
func NewASRPT(cluster *hare.Cluster, sizes JobSizes, cfg ASRPTConfig) *ListScheduler {
	return NewListScheduler(cluster, cfg.rule(sizes.Rounds))
}

// rule is the rule for the rounds of each job; nil means that they are learned.
func (cfg ASRPTConfig) rule(rounds map[string]int64) Rule {
	a := &asrpt{cfg: cfg.withDefaults()}
	return Rule{
		Name: "asrpt", Hold: hare.Rigid, Strict: !cfg.Pass, Rounds: rounds, LearnSizes: rounds == nil,
		Priority: func(_ *ListScheduler, j *JobState) float64 { return float64(j.serial) },
		prepare:  a.prepare, assign: a.assign, touched: a.touched, left: a.left, wake: a.wake,
		state: a.encode, restore: a.decode,
	}
}

// parseASRPT reads {"delay_s": 300, "heavy": 1.5, "near": 1.1, "pass": false, "eager": false,
// "trust": false}.
func parseASRPT(parameters []byte) (Rule, error) {
	form := struct {
		DelayS *json.Number `json:"delay_s"`
		Heavy  *float64     `json:"heavy"`
		Near   *float64     `json:"near"`
		Pass   bool         `json:"pass"`
		Eager  bool         `json:"eager"`
		Trust  bool         `json:"trust"`
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return Rule{}, err
	}
	cfg := ASRPTConfig{Pass: form.Pass, Eager: form.Eager, Trust: form.Trust}
	if form.DelayS != nil {
		us, err := hare.ParseMicros(form.DelayS.String())
		if err != nil || us < 0 || us > hare.MaxExact {
			return Rule{}, invalid("/delay_s", "out_of_range", "asrpt: delay_s is %.60s: it must be from 0 to %s, with at "+
				"most six decimals", *form.DelayS, hare.FormatMicros(hare.MaxExact))
		}
		if cfg.DelayUs = us; us == 0 {
			cfg.DelayUs = -1
		}
	}
	for _, ratio := range []struct {
		name  string
		given *float64
		value *float64
	}{{"heavy", form.Heavy, &cfg.Heavy}, {"near", form.Near, &cfg.Near}} {
		if ratio.given == nil {
			continue
		}
		if !(*ratio.given >= 1 && *ratio.given <= maxRatio) {
			return Rule{}, invalid("/"+ratio.name, "out_of_range", "asrpt: %s is %v: it must be from 1 to %d", ratio.name,
				*ratio.given, int64(maxRatio))
		}
		*ratio.value = *ratio.given
	}
	return cfg.rule(nil), nil
}

// maxRatio is the greatest ratio of times of an iteration.
const maxRatio = 1_000_000

// asrpt is the state beyond that of list scheduling. All of it but starting follows from the events, the
// starts and the times of schedules, so that recorded starts leave the same state.
type asrpt struct {
	cfg      ASRPTConfig
	machine  singleMachine // it stands at the time of the last schedule
	places   int64         // places in the queue that were given
	queue    []*JobState   // the jobs that are completed virtually and wait, by place
	noted    []*JobState   // jobs that may have begun to wait
	starting bool          // whether the queue is gone through
}

// srptJob is what asrpt keeps of a job.
type srptJob struct {
	known, noted bool // whether the job has a size, and is in asrpt.noted
	queued       bool // whether it is in asrpt.queue
	virtual      machineJob
	place        int64 // in the queue, from 1 on; 0 while the virtual machine has the job
	completedUs  int64 // when the job came by its place
}

// touched notes a job that came, or whose round has begun or ended, and asks for a schedule where the
// virtual machine has completed a job or a delay has ended.
func (a *asrpt) touched(l *ListScheduler, j *JobState) {
	if j.srpt == nil {
		j.srpt = &srptJob{}
	}
	x := j.srpt
	if !x.noted {
		x.noted = true
		a.noted = append(a.noted, j)
	}
	if x.known && x.place == 0 && j.startedUs >= 0 { // the job starts before its virtual completion
		a.machine.remove(&x.virtual)
		a.complete(j, a.machine.nowUs)
	}
	if x.queued && j.ready() == 0 && !a.starting {
		a.dequeue(j)
	}
	if l.nowUs > a.machine.nowUs && (l.nowUs >= a.machine.nextUs() || l.nowUs >= a.delayedUntil()) {
		l.changed = true
	}
}

// wake is when the virtual machine completes the next job, or the next delay ends, where some GPU is free.
func (a *asrpt) wake(l *ListScheduler) int64 {
	if !l.anyFree() {
		return math.MaxInt64
	}
	return min(a.machine.nextUs(), a.delayedUntil())
}

// delayedUntil is when the next delay of a job in the queue may end, or math.MaxInt64.
func (a *asrpt) delayedUntil() int64 {
	if a.cfg.DelayUs < 0 {
		return math.MaxInt64
	}
	at, _ := slices.BinarySearchFunc(a.queue, a.machine.nowUs, func(j *JobState, nowUs int64) int {
		if a.untilUs(j) <= nowUs {
			return -1
		}
		return 1
	})
	if at == len(a.queue) {
		return math.MaxInt64
	}
	return a.untilUs(a.queue[at])
}

// untilUs is when the delay of a completed job ends.
func (a *asrpt) untilUs(j *JobState) int64 { return add(j.srpt.completedUs, a.cfg.DelayUs) }

// prepare lets the virtual machine go on, and looks at the jobs that may have begun to wait.
func (a *asrpt) prepare(l *ListScheduler) {
	a.machine.advance(l.nowUs, func(m *machineJob, atUs int64) { a.complete(m.job, atUs) })
	a.machine.speed = int64(l.GPUs())
	for _, j := range a.noted {
		x := j.srpt
		if x.noted = false; l.jobOf[j.spec.ID] != j {
			continue
		}
		if !x.known {
			x.known = true
			x.virtual = machineJob{job: j, serial: j.serial, left: a.size(l, j)}
			a.machine.add(&x.virtual)
			if j.startedUs >= 0 { // the job ran when it came
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
func (a *asrpt) size(l *ListScheduler, j *JobState) int64 {
	us := times(j.RoundsLeft(), l.RoundUs(j))
	if h := j.spec.Hints; a.cfg.Trust && l.belief != nil && h != nil && h.EstimateUs > 0 {
		us = h.EstimateUs
	}
	return max(1, times(us, j.width()))
}

// complete gives a job that has left the virtual machine at a time the next place in the queue.
func (a *asrpt) complete(j *JobState, atUs int64) {
	a.places++
	j.srpt.place, j.srpt.completedUs = a.places, atUs
	a.enqueue(j)
}

// enqueue puts a completed job that waits in the queue.
func (a *asrpt) enqueue(j *JobState) {
	if j.srpt.queued || j.ready() == 0 {
		return
	}
	j.srpt.queued = true
	at, _ := slices.BinarySearchFunc(a.queue, j.srpt.place, byPlace)
	a.queue = slices.Insert(a.queue, at, j)
}

// dequeue takes a job out of the queue.
func (a *asrpt) dequeue(j *JobState) {
	at, _ := slices.BinarySearchFunc(a.queue, j.srpt.place, byPlace)
	a.queue = slices.Delete(a.queue, at, at+1)
	j.srpt.queued = false
}

func byPlace(j *JobState, place int64) int { return cmp.Compare(j.srpt.place, place) }

// left forgets a job that ended or was cancelled.
func (a *asrpt) left(_ *ListScheduler, j *JobState, _ bool) {
	if x := j.srpt; x.known && x.place == 0 {
		a.machine.remove(&x.virtual)
		x.known = false
	}
	if j.srpt.queued {
		a.dequeue(j)
	}
}

// assign starts what may start.
func (a *asrpt) assign(l *ListScheduler) {
	if a.startQueue(l) {
		return
	}
	for l.anyFree() && (a.cfg.Eager || a.idle(l)) {
		j := a.next(l)
		if j == nil || !a.starts(l, j) {
			return
		}
		for j.ready() > 0 && l.tryStart(j) {
		}
	}
}

// next is the first job on the virtual machine that could start on an empty cluster, and that no quota
// holds back; nil where there is none.
func (a *asrpt) next(l *ListScheduler) *JobState {
	var first *machineJob
	for i, m := range a.machine.jobs {
		if i > 0 && first == a.machine.jobs[0] {
			break
		}
		if first != nil && (m.left > first.left || m.left == first.left && m.serial > first.serial) {
			continue
		}
		if l.fitsWhenEmpty(m.job) && (l.nodes == nil || a.starts(l, m.job) || !l.heldByQuota(m.job)) {
			first = m
		}
	}
	if first == nil {
		return nil
	}
	return first.job
}

// idle reports whether no job holds a GPU.
func (a *asrpt) idle(l *ListScheduler) bool {
	for t := range l.free {
		if len(l.free[t]) < l.inService[t] {
			return false
		}
	}
	return true
}

// starts reports whether a job can start now.
func (a *asrpt) starts(l *ListScheduler, j *JobState) bool {
	if a.waits(l, j) {
		return false
	}
	n := j.spec.Tasks
	hold, mix := l.holding(j)
	if hold == hare.Relaxed {
		n = 1
	}
	room := int64(0)
	for _, m := range j.modes {
		if l.canUse(j, m, n) {
			return true
		}
		room += int64(len(l.free[m.gpuType]))
	}
	return mix && room >= times(n, j.spec.TaskGPUs())
}

// startQueue starts completed jobs in the order of the queue. It returns whether one that does not fit
// blocks the others.
func (a *asrpt) startQueue(l *ListScheduler) (blocked bool) {
	a.starting = true
	kept := a.queue[:0]
	for i, j := range a.queue {
		if blocked || !l.anyFree() {
			kept = append(kept, a.queue[i:]...)
			break
		}
		if !l.fitsWhenEmpty(j) || a.waits(l, j) {
			kept = append(kept, j)
			continue
		}
		for j.ready() > 0 && l.tryStart(j) {
		}
		if j.ready() > 0 {
			kept = append(kept, j)
			blocked = !a.cfg.Pass && (l.nodes == nil || !l.heldByQuota(j))
			continue
		}
		j.srpt.queued = false
	}
	clear(a.queue[len(kept):])
	a.queue, a.starting = kept, false
	return blocked
}

// waits reports whether a job is heavy on communication and waits for GPUs that are nearer together than
// those at hand.
func (a *asrpt) waits(l *ListScheduler, j *JobState) bool {
	if a.cfg.DelayUs < 0 || l.nodes == nil || j.startedUs >= 0 || j.spread.syncUs == nil || a.idle(l) ||
		j.srpt.place > 0 && l.nowUs >= a.untilUs(j) {
		return false
	}
	least := l.RoundUs(j)
	if float64(a.longestUs(l, j, least)) < a.cfg.Heavy*float64(least) {
		return false
	}
	us := a.atHandUs(l, j)
	return float64(us) > a.cfg.Near*float64(least)
}

// longestUs is α_max of a job on the type on which α_min is least.
func (a *asrpt) longestUs(l *ListScheduler, j *JobState, least int64) int64 {
	for _, m := range j.modes {
		if m.durationUs == least {
			for i := range j.spec.On {
				if p := &j.spec.On[i]; p.Type == l.types[m.gpuType] {
					return p.ComputeUs + p.SyncUs
				}
			}
		}
	}
	return 0
}

// atHandUs is how long a round of a job takes on the free GPUs that it would get, 0 where it would get
// none.
func (a *asrpt) atHandUs(l *ListScheduler, j *JobState) int64 {
	for _, m := range j.modes {
		if !l.canUse(j, m, j.spec.Tasks) {
			continue
		}
		gpus := l.pick(j, m.gpuType, j.spec.Tasks, l.avoid(j, m))
		for i := range j.spec.On {
			if p := &j.spec.On[i]; len(gpus) > 0 && p.Type == l.types[m.gpuType] {
				return p.ComputeUs + l.nodes.SyncUs(p, l.nodes.Spread(gpus))
			}
		}
	}
	return 0
}

// asrptSnapshot is the state of asrpt, with the jobs in the order of arrival.
type asrptSnapshot struct {
	NowUs  int64             `json:"now_us"`
	Places int64             `json:"places"`
	Jobs   []srptJobSnapshot `json:"jobs"`
}

// srptJobSnapshot is what asrpt keeps of a job. A job without a size has neither Left nor Place.
type srptJobSnapshot struct {
	Left        int64 `json:"left,omitempty"`
	Place       int64 `json:"place,omitempty"`
	CompletedUs int64 `json:"completed_us,omitempty"`
}

func (a *asrpt) encode(l *ListScheduler) any {
	out := asrptSnapshot{NowUs: a.machine.nowUs, Places: a.places}
	for _, j := range l.jobs {
		s := srptJobSnapshot{Place: j.srpt.place, CompletedUs: j.srpt.completedUs}
		if j.srpt.known && s.Place == 0 {
			s.Left = j.srpt.virtual.left
		}
		out.Jobs = append(out.Jobs, s)
	}
	return out
}

func (a *asrpt) decode(l *ListScheduler, state json.RawMessage) bool {
	var in asrptSnapshot
	if decodeState(state, &in) != nil || len(in.Jobs) != len(l.jobs) || in.NowUs < 0 || in.NowUs > l.nowUs ||
		in.Places < 0 {
		return false
	}
	*a = asrpt{cfg: a.cfg, places: in.Places, machine: singleMachine{nowUs: in.NowUs, speed: int64(l.GPUs())}}
	completedUs := map[int64]int64{}
	var places []int64
	for i, s := range in.Jobs {
		j := l.jobs[i]
		_, twice := completedUs[s.Place]
		if s.Left < 0 || s.Place < 0 || s.Place > in.Places || s.Left > 0 && s.Place > 0 || twice || s.CompletedUs < 0 ||
			s.CompletedUs > in.NowUs {
			return false
		}
		j.srpt = &srptJob{place: s.Place, completedUs: s.CompletedUs, known: s.Left > 0 || s.Place > 0}
		j.srpt.virtual = machineJob{job: j, serial: j.serial, left: s.Left, at: -1}
		switch {
		case s.Place > 0:
			completedUs[s.Place] = s.CompletedUs
			places = append(places, s.Place)
			a.enqueue(j)
		case s.Left > 0:
			a.machine.add(&j.srpt.virtual)
		default:
			j.srpt.noted = true
			a.noted = append(a.noted, j)
		}
	}
	slices.Sort(places)
	return slices.IsSortedFunc(places, func(x, y int64) int { return cmp.Compare(completedUs[x], completedUs[y]) })
}
