package list

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Status is online.Observable.Status.
func (l *Scheduler) Status() online.Status {
	s := online.Status{Policy: l.rule.Name, NowUs: l.nowUs, Jobs: len(l.jobs), GPUs: []online.TypeStatus{}}
	for q := range len(l.rule.ThresholdsUs) + 1 {
		x := online.QueueStatus{Name: l.queueName(q)}
		if q < len(l.rule.ThresholdsUs) {
			x.ThresholdUs = l.rule.ThresholdsUs[q]
		}
		s.Queues = append(s.Queues, x)
	}
	for _, j := range l.jobs {
		s.Queues[j.Queue].Jobs++
		if j.active == 0 {
			s.Queues[j.Queue].Waiting++
		}
		s.WaitingTasks = min(math.MaxInt64-j.Ready(), s.WaitingTasks) + j.Ready()
		s.RunningTasks += j.active
	}
	for t, name := range l.types {
		if n, free := l.inService[t], len(l.free[t]); n > 0 {
			x := online.TypeStatus{Type: name, InService: int64(n), Free: int64(free), Held: int64(n - free)}
			l.guardStatus(t, &x)
			s.GPUs = append(s.GPUs, x)
		}
	}
	slices.SortFunc(s.GPUs, func(a, b online.TypeStatus) int { return strings.Compare(a.Type, b.Type) })
	if us := l.WakeUs(); us < math.MaxInt64 {
		s.WakeUs = us
	}
	return s
}

func (l *Scheduler) queueName(q int) string {
	switch {
	case len(l.rule.ThresholdsUs) == 0:
		return "all"
	case q == 0:
		return "first"
	case q == len(l.rule.ThresholdsUs):
		return "last"
	}
	return fmt.Sprint(q + 1)
}

// Explain is online.Observable.Explain.
func (l *Scheduler) Explain(id string) (online.JobStatus, bool) {
	j := l.jobOf[id]
	if j == nil {
		return online.JobStatus{}, false
	}
	s := online.JobStatus{
		Job: id, Sync: j.spec.Sync.String(), State: "running", Round: j.round, Tasks: j.spec.Tasks,
		TasksReady: j.Ready(), TasksActive: j.active, TasksEnded: j.ended, ArrivedUs: j.arrivedUs,
		StartedUs: j.startedUs,
		Queue:     l.queueName(j.Queue), ExecutedUs: j.executedUs, WaitedUs: j.waitedUs, GuardUs: -1,
		Speeds: []online.SpeedEstimate{},
	}
	total := j.totalUs
	if j.active > 0 {
		s.ExecutedUs += l.nowUs - j.sinceUs
		total += l.nowUs - j.sinceUs
	} else {
		s.State = "waiting"
		s.WaitedUs += l.nowUs - j.sinceUs
		if s.GuardUs = l.guardUs(j); len(j.guarded.gpus) > 0 {
			s.State = "gathering"
		}
	}
	s.AttainedUs, s.CountedUs = times(j.spec.Tasks, total), times(j.spec.Tasks, s.ExecutedUs)
	priority := l.rule.Priority(l, j)
	for _, o := range l.jobs {
		if p := l.rule.Priority(l, o); o != j && o.Ready() > 0 &&
			(p < priority || p == priority && o.serial < j.serial) &&
			sharesType(o, j) {
			s.JobsAhead++
		}
	}
	for _, m := range j.modes {
		if m.ComputeUs > 0 {
			s.Speeds = append(s.Speeds, online.SpeedEstimate{Type: l.types[m.Type], ComputeUs: m.ComputeUs,
				Source: "given"})
		}
	}
	hold, _ := l.Holding(j)
	for _, m := range j.modes {
		if n := l.Most(j, m.Type); n >= j.spec.Tasks || hold == hare.Relaxed && n > 0 {
			s.GPUType = l.types[m.Type]
			break
		}
	}
	s.Why, s.Reason = l.why(j, &s), l.reason(j, &s)
	return s, true
}

// Rows is online.Observable.Rows.
func (l *Scheduler) Rows() []online.JobRow {
	jobs := slices.Clone(l.jobs)
	priorities := make(map[*JobState]float64, len(jobs))
	for _, j := range jobs {
		priorities[j] = l.rule.Priority(l, j)
	}
	slices.SortStableFunc(jobs, func(a, b *JobState) int {
		// The guard serves jobs with a ticket first, by ticket; 0 is none, which less one is the largest number.
		if a.guarded.ticket != b.guarded.ticket {
			return cmp.Compare(uint64(a.guarded.ticket-1), uint64(b.guarded.ticket-1))
		}
		return cmp.Compare(priorities[a], priorities[b])
	})
	rows := make([]online.JobRow, len(jobs))
	for i, j := range jobs {
		rows[i] = l.Row(j)
	}
	return rows
}

// Row is what lists say of a job.
func (l *Scheduler) Row(j *JobState) online.JobRow {
	r := online.JobRow{Job: j.spec.ID, Sync: j.spec.Sync.String(), State: "running", GPUs: j.Width(),
		WeightMicro: j.spec.WeightMicro, ArrivedUs: j.arrivedUs, StartedUs: j.startedUs, StartUs: -1, EndUs: -1,
		EarliestEndUs: -1}
	if j.active == 0 {
		if r.State = "waiting"; len(j.guarded.gpus) > 0 {
			r.State = "gathering"
		}
	}
	for i := range j.spec.On {
		r.Types = append(r.Types, j.spec.On[i].Type)
	}
	for _, g := range j.gpus {
		r.RunningOn = append(r.RunningOn, l.gpus[g].Name)
	}
	if len(j.gpus) > 0 {
		r.GPUs = int64(len(j.gpus))
	}
	slices.Sort(r.Types)
	slices.Sort(r.RunningOn)
	return r
}

// reason is why, for a list.
func (l *Scheduler) reason(j *JobState, s *online.JobStatus) online.Reason {
	if s.TasksReady == 0 || s.State == "running" {
		return online.Reason{}
	}
	if r, found := l.NoPlace(j); found {
		return r
	}
	if x := &j.guarded; x.ticket > 0 {
		free := int64(0)
		for _, g := range x.gpus {
			if l.gpus[g].Job == nil {
				free++
			}
		}
		return online.GathersGPUs(j.Width(), free)
	}
	need, lack, best := l.atOnce(j), int64(0), -1
	for _, m := range j.modes {
		short := max(0, need-int64(len(l.free[m.Type])))
		if int64(l.inService[m.Type]) >= need && (best < 0 || short < lack) {
			best, lack = m.Type, short
		}
	}
	switch {
	case best >= 0 && lack > 0:
		return online.BusyGPUs(lack, l.types[best])
	case best >= 0 && l.nodes != nil:
		return online.NodesLackRoom(need)
	case best >= 0:
		return online.ForOthers()
	}
	free := int64(0) // it mixes types
	for _, m := range j.modes {
		free += int64(len(l.free[m.Type]))
	}
	if free < need {
		return online.BusyGPUs(need-free, "GPUs")
	}
	return online.ForOthers()
}

// atOnce is how many GPUs must be free for the next start of a job.
func (l *Scheduler) atOnce(j *JobState) int64 {
	if hold, _ := l.Holding(j); hold == hare.Relaxed {
		return j.spec.TaskGPUs()
	}
	return j.Width()
}

// NoPlace is why a job would not start even if all GPUs were free; false where it would.
func (l *Scheduler) NoPlace(j *JobState) (r online.Reason, found bool) {
	all, _ := l.Room(j)
	var most int64
	var types []string
	for _, p := range j.spec.On {
		types = append(types, p.Type)
	}
	for _, m := range j.modes {
		most = max(most, int64(l.inService[m.Type]))
	}
	switch need := l.atOnce(j); {
	case most == 0:
		slices.Sort(types)
		return online.NoneInService(types), true
	case all == 0 || !l.FitsWhenEmpty(j):
		if most >= need {
			return online.NodesLackRoom(need), true
		}
		return online.TooFewInService(need, most), true
	}
	return r, false
}

func sharesType(a, b *JobState) bool {
	return slices.ContainsFunc(a.modes, func(x Mode) bool {
		return slices.ContainsFunc(b.modes, func(y Mode) bool { return x.Type == y.Type })
	})
}

// why says in one or two sentences why a job runs or waits, and what would change
// that.
func (l *Scheduler) why(j *JobState, s *online.JobStatus) string {
	all, _ := l.Room(j)
	none, lacks := l.NoPlace(j)
	switch {
	case s.TasksReady == 0 && j.hold == hare.Rigid:
		return fmt.Sprintf("Its round %d runs on %s, which it keeps until the job ends.", j.round, count(len(j.gpus),
			"GPU", "GPUs"))
	case s.TasksReady == 0:
		return fmt.Sprintf("Its round %d runs (tasks on GPUs: %d of %d). The next round starts when all have ended.",
			j.round, j.active, j.spec.Tasks)
	case lacks && none.Code == online.Fragmented:
		return "No nodes in service that it may use have room for it, even if all of their GPUs were free. Nodes that " +
			"join would let it start."
	case all == 0:
		return "No GPU of a type that it has a profile for is in service. One that joins would let it start."
	case lacks:
		return fmt.Sprintf("It needs %d GPUs at once, and no type that it may use has that many in service. GPUs "+
			"that join would let it start.", l.atOnce(j))
	}
	passed := "a job that does not fit is passed over"
	if l.rule.Strict {
		passed = "a job that does not fit is waited for"
	}
	return fmt.Sprintf("Too few GPUs that it may use are free, and %s before it; under this policy %s.",
		count(s.JobsAhead, "job stands", "jobs stand"), passed) + l.guardWhy(j, s)
}

// guardUs is when a job that waits will be due if turns go on to take as long as now; −1
// where there is no guard or that time is beyond all documents.
func (l *Scheduler) guardUs(j *JobState) int64 {
	x := &j.guarded
	if !l.guards() || !j.waits() {
		return -1
	}
	if x.ticket > 0 {
		return l.nowUs
	}
	if x.back {
		return -1
	}
	miss, gpus := max(0, l.mayMiss(j)), int64(l.GPUs())
	if gpus == 0 {
		return -1
	}
	left := max(0, miss-(l.turnsNow()-x.turns))
	turnUs := max(l.guard.work, gpus*leastTurnUs)
	at := max(add(l.nowUs, mulDivUp(left, turnUs, gpus*nano)), add(x.sinceUs, mulDivUp(miss, x.roundUs, nano)))
	if at > hare.MaxExact {
		return -1
	}
	return at
}

// guardStatus completes the status of GPUs of a type by those that are kept for jobs that
// are due.
func (l *Scheduler) guardStatus(gpuType int, s *online.TypeStatus) {
	for _, j := range l.guard.due {
		for _, g := range j.guarded.gpus {
			if l.gpus[g].Type != gpuType || l.gpus[g].Job != nil {
				continue
			}
			if s.GatheredFor == "" {
				s.GatheredFor = j.spec.ID
			}
			s.Free--
			s.Gathered++
		}
	}
}

// guardWhy says what the guard does for a job that waits; "" where it does nothing.
func (l *Scheduler) guardWhy(j *JobState, s *online.JobStatus) string {
	switch x := &j.guarded; {
	case x.ticket > 0:
		free := 0
		for _, g := range x.gpus {
			if l.gpus[g].Job == nil {
				free++
			}
		}
		return fmt.Sprintf(" The starvation guard serves it, because it has waited too long: %s kept for it, and %d of "+
			"them %s free.", count(len(x.gpus), "GPU is", "GPUs are"), free, isAre(free))
	case s.GuardUs >= 0:
		return fmt.Sprintf(" The starvation guard would serve it in %s at the latest.", online.RoundedUp(s.GuardUs-l.nowUs))
	}
	return ""
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// count is a number with the words that go with it.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
