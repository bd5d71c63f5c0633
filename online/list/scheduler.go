// Package list is the engine of lists: list scheduling of jobs on GPUs by a Rule, with the state of jobs, GPUs and
// nodes, what is reserved for jobs that do not fit, the guard against starvation, and snapshots. Package policies has
// the rules.
package list

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// Scheduler is list scheduling (Graham 1966) with a Rule: whenever GPUs are free, it
// goes through the waiting jobs in the order of their priorities and starts each job
// that fits. It keeps the state of jobs and GPUs and implements online.Policy and
// online.Durable. A Scheduler is not safe for concurrent use.
//
// A step costs O(jobs + GPUs) at worst, and O(log GPUs + width) where no GPU becomes
// free. Without Rule.speeds the scheduler learns nothing from measured times; types on which a
// job's speed is not given come after the others, by name. A task that fails starts again at once where
// the job keeps its GPUs, with its whole round for gang and rigid jobs; otherwise the
// task waits for its turn, as under HLAS.
type Scheduler struct {
	rule      Rule
	nowUs     int64
	types     []string
	typeOf    map[string]int
	gpus      []GPU
	gpuOf     map[string]int
	vacant    []int   // indices of gpus without a name, descending
	free      [][]int // by type, ascending
	inService []int   // by type
	capacity  int64   // counts changes of inService
	jobs      []*JobState
	jobOf     map[string]*JobState
	serial    int
	changed   bool // whether a start may be possible since the last schedule
	out       []hare.Decision
	queue     priorityQueue
	reserved  reservation
	waiting   waitingJobs
	belief    *SizeBelief // nil without Rule.LearnSizes
	typicalUs int64       // RoundUs where no speed is known, with Rule.LearnSizes; 0 until it is asked for
	guard     guard

	described  placement.Described
	placedJobs int              // jobs with rules about nodes
	nodes      *placement.Nodes // nil where there are none; see arriveOnNodes
	onNodes    NodeReservation
	quotas     []hare.Quota // see online.WithQuota
	onQuotas   map[int32]QuotaReservation
	levelJobs  int   // jobs with times that go by the spread
	spreadAt   int64 // capacity at the last expectSpreads
}

var (
	_ online.Durable    = (*Scheduler)(nil)
	_ online.Observable = (*Scheduler)(nil)
	_ online.Waker      = (*Scheduler)(nil)
)

// GPU is the state of one GPU; a vacant slot has no name.
type GPU struct {
	Name      string
	Type      int
	node      int // node in the initial cluster; a GPU that joined later has a number of its own
	InService bool
	initial   bool      // whether the GPU is of the initial cluster and keeps its index
	Job       *JobState // the job that holds the GPU, or nil
	Task      int64     // the task that has started on the GPU and not ended, or −1
	lead      bool      // whether the GPU is the first of a task; only where nodes matter
	SinceUs   int64     // the start of that task
	// user is the number of the job that began on the GPU last since the GPU came into
	// service, or −1, and switched whether it was another job before the task.
	user     int
	switched bool
}

// NewOpened is NewListScheduler for a rule that goes by what the cluster has.
func NewOpened(cluster *hare.Cluster, r Rule) (*Scheduler, error) {
	if r.Opened != nil {
		if err := r.Opened(cluster); err != nil {
			return nil, err
		}
	}
	return New(cluster, r), nil
}

// NewListScheduler makes a scheduler for a valid cluster. GPUs without windows of
// service and without work are in service at once; the others when they join.
func New(cluster *hare.Cluster, r Rule) *Scheduler {
	l := &Scheduler{rule: r, typeOf: map[string]int{}, gpuOf: map[string]int{}, jobOf: map[string]*JobState{}}
	if r.LearnSizes {
		l.belief = &SizeBelief{}
	}
	if cluster == nil {
		return l
	}
	l.described.SetTopology(cluster.Topology)
	var types []string
	for _, n := range cluster.Nodes {
		for _, g := range n.GPUs {
			types = append(types, g.Type)
		}
	}
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		l.addType(t)
	}
	for node, n := range cluster.Nodes {
		l.described.Set(&cluster.Nodes[node])
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				i := l.addGPU(n.Name+"/"+strconv.Itoa(at), l.typeOf[g.Type])
				l.gpus[i].initial, l.gpus[i].node = true, node
				at++
				if n.Windows == nil && len(n.Busy) == 0 {
					l.enterService(i)
				}
			}
		}
	}
	return l
}

func (l *Scheduler) addType(name string) int {
	t := len(l.types)
	l.types = append(l.types, name)
	l.typeOf[name] = t
	l.free, l.inService = append(l.free, nil), append(l.inService, 0)
	return t
}

// addGPU makes a GPU known, out of service, in the least vacant slot.
func (l *Scheduler) addGPU(name string, gpuType int) int {
	i := len(l.gpus)
	if n := len(l.vacant); n > 0 {
		i = l.vacant[n-1]
		l.vacant = l.vacant[:n-1]
	} else {
		l.gpus = append(l.gpus, GPU{})
	}
	l.gpus[i] = GPU{Name: name, Type: gpuType, node: -1 - i, Task: -1, user: -1}
	l.gpuOf[name] = i
	return i
}

// Step is online.Policy.Step: events one by one, each with its decisions.
func (l *Scheduler) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	l.out = l.out[:0]
	for i := range events {
		if err := l.apply(nowUs, &events[i]); err != nil {
			return l.out, &online.RefusedError{Index: i, Err: err}
		}
		before := len(l.out)
		l.noteArrival(&events[i])
		if l.changed {
			l.changed = false
			l.prepare()
			l.guardDue()
			l.guardStart()
			if l.rule.Assign != nil {
				l.rule.Assign(l)
			} else {
				l.schedule()
			}
			l.guardShow()
			l.OpenQuotas()
			l.makePromise()
			l.afterSchedule()
		}
		l.guardWaits()
		l.guard.settled = l.guard.settled && len(l.out) == before
	}
	return l.out, nil
}

// noteArrival notes whether an event says no more than that a job arrived, which waits.
func (l *Scheduler) noteArrival(e *hare.Event) {
	g := &l.guard
	if e.Type != hare.EventJobArrived || e.Arrived.Progress != nil {
		g.settled, g.arrived = false, g.arrived[:0]
	} else if g.settled {
		g.arrived = append(g.arrived, l.jobOf[e.Arrived.ID])
	}
}

// WakeUs is online.Waker.WakeUs. Only rules that say so want ticks.
func (l *Scheduler) WakeUs() int64 {
	if l.rule.Wake == nil {
		return math.MaxInt64
	}
	return l.rule.Wake(l)
}

func (l *Scheduler) afterSchedule() {
	if l.rule.After != nil {
		l.rule.After(l)
	}
}

func (l *Scheduler) prepare() {
	l.expectSpreads()
	if l.belief != nil {
		l.belief.Learn(l)
		l.typicalUs = 0
	}
	if l.rule.Prepare != nil {
		l.rule.Prepare(l)
	}
}

// modesOf lists the types that a job may use, in the order in which it tries them.
func (l *Scheduler) modesOf(j *JobState) []Mode {
	var modes []Mode
	for i, p := range j.spec.On {
		if t, ok := l.typeOf[p.Type]; ok {
			m := Mode{t, p.ComputeUs, p.ComputeUs + j.givenSyncUs(i)}
			if p.ComputeUs == 0 {
				m.DurationUs = 0
			}
			modes = append(modes, m)
		}
	}
	l.sortModes(modes)
	return modes
}

// sortModes puts modes in the order in which a job tries them.
func (l *Scheduler) sortModes(modes []Mode) {
	slices.SortStableFunc(modes, func(a, b Mode) int {
		byName := strings.Compare(l.types[a.Type], l.types[b.Type])
		switch {
		case l.rule.TypesByName:
			return byName
		case (a.DurationUs == 0) != (b.DurationUs == 0):
			return cmp.Compare(b.DurationUs, a.DurationUs)
		}
		return cmp.Or(cmp.Compare(a.DurationUs, b.DurationUs), byName)
	})
}

// enterService puts a known GPU in service, free.
func (l *Scheduler) enterService(g int) {
	l.guardResized()
	x := &l.gpus[g]
	x.InService, x.user, x.switched = true, -1, false
	l.inService[x.Type]++
	l.capacity++
	l.waiting.stale = true
	if l.nodes != nil {
		l.nodes.Join(g, x.Type, l.described.Of(x.Name))
	}
	l.markFree(g)
}

// release takes a GPU from the job that holds it and frees it.
func (l *Scheduler) release(g int) {
	x := &l.gpus[g]
	i := slices.Index(x.Job.gpus, g)
	if l.nodes != nil {
		l.nodes.Free(g)
		x.Job.spread.held = 0
		if x.lead {
			l.nodes.Hold(g, x.Job.shape, -1)
		}
	}
	x.lead = false
	x.Job.gpus = slices.Delete(x.Job.gpus, i, i+1)
	if l.rule.Touched != nil {
		l.rule.Touched(l, x.Job)
	}
	x.Job, x.Task = nil, -1
	l.markFree(g)
}

func (l *Scheduler) releaseAll(j *JobState) {
	for len(j.gpus) > 0 {
		l.release(j.gpus[len(j.gpus)-1])
	}
}

func (l *Scheduler) markFree(g int) {
	t := l.gpus[g].Type
	at, _ := slices.BinarySearch(l.free[t], g)
	l.free[t] = slices.Insert(l.free[t], at, g)
	l.changed = true
}

// hold hands a free GPU of a type, by its place among the free ones, to a job.
func (l *Scheduler) hold(j *JobState, gpuType, at int) int {
	g := l.free[gpuType][at]
	l.free[gpuType] = slices.Delete(l.free[gpuType], at, at+1)
	l.gpus[g].Job = j
	if l.nodes != nil {
		l.nodes.Take(g)
		j.spread.held = 0
		if l.gpus[g].lead = len(j.gpus)%j.TaskGPUs() == 0; l.gpus[g].lead {
			l.nodes.Hold(g, j.shape, 1)
		}
	}
	j.gpus = append(j.gpus, g)
	return g
}

// start begins the job's next task on a GPU that it holds.
func (l *Scheduler) start(j *JobState, g int) {
	task := j.nextTask()
	if len(j.redo) > 0 {
		j.redo = j.redo[1:]
	} else {
		j.next++
	}
	x := &l.gpus[g]
	x.Task, x.SinceUs = task, l.nowUs
	if x.switched = x.user >= 0 && x.user != j.serial; x.switched {
		l.loseGPU(x.user)
	}
	x.user = j.serial
	if j.spec.GPUsPerTask > 1 {
		l.startOthers(j, g)
	}
	j.promise = nil
	if j.startedUs < 0 {
		j.startedUs = l.nowUs
	}
	l.activate(j, 1)
	l.touch(j)
	l.emit(hare.DecisionStart, j, task, x.Name, l.othersOf(j, g))
}

func (l *Scheduler) emit(t hare.DecisionType, j *JobState, task int64, gpu string, others hare.OtherGPUs) {
	l.out = append(l.out, hare.Decision{Type: t, Job: j.spec.ID, Round: j.round, Task: task, GPU: gpu, Others: others,
		AtUs: l.nowUs})
}

// activate counts tasks that run, and the time of running and waiting.
func (l *Scheduler) activate(j *JobState, by int64) {
	if j.active == 0 || j.active+by == 0 {
		if j.active == 0 {
			j.waitedUs += l.nowUs - j.sinceUs
		} else {
			j.executedUs += l.nowUs - j.sinceUs
			j.totalUs += l.nowUs - j.sinceUs
		}
		if j.active == 0 && by > 0 {
			l.guardTurn(j, false)
		}
		j.sinceUs = l.nowUs
		if j.active > 0 {
			l.guardTurn(j, true)
		}
	}
	j.active += by
}

// schedule starts what fits, in the order of the priorities.
func (l *Scheduler) schedule() {
	if l.rule.Version != nil {
		l.scheduleWaiting()
		return
	}
	if !l.prioritize() {
		return
	}
	l.queue.init()
	for len(l.queue) > 0 && l.AnyFree() {
		j := l.queue.pop()
		for j.Ready() > 0 && l.TryStart(j) {
		}
		switch {
		case j.Ready() == 0 || !l.FitsWhenEmpty(j):
		case l.nodes != nil && (l.rule.Strict || l.rule.Backfill) && l.HeldByQuota(j):
		case l.rule.Strict:
			return
		case l.rule.Backfill && l.reserved.forJob == nil:
			l.Reserve(j)
		}
	}
}

// prioritize lists the jobs that wait and sets their priorities. It returns false where
// no job can start.
func (l *Scheduler) prioritize() bool {
	l.reserved, l.onNodes, l.onQuotas = reservation{}, nil, nil
	if !l.AnyFree() {
		return false
	}
	l.queue = l.queue[:0]
	for _, j := range l.jobs {
		if j.Ready() > 0 {
			l.queue = append(l.queue, j)
		}
	}
	if len(l.queue) == 0 {
		return false
	}
	if l.rule.Plan != nil {
		l.rule.Plan(l, l.queue)
	}
	for _, j := range l.queue {
		if l.rule.Review != nil {
			l.rule.Review(l, j)
		}
		j.priority = l.rule.Priority(l, j)
	}
	return true
}

func (l *Scheduler) AnyFree() bool {
	return slices.ContainsFunc(l.free, func(f []int) bool { return len(f) > 0 })
}

// ScheduleBy starts what fits in the order of another rule, which takes account of switches as the own rule does.
func (l *Scheduler) ScheduleBy(other *Rule) {
	own := l.rule
	l.rule = *other
	l.rule.OneNode, l.rule.Touched, l.rule.Setup = own.OneNode, own.Touched, own.Setup
	l.schedule()
	l.rule = own
}

// SetOneNode sets Rule.OneNode.
func (l *Scheduler) SetOneNode(one bool) { l.rule.OneNode = one }

// Reschedule makes a schedule follow the event at hand, or the next one.
func (l *Scheduler) Reschedule() { l.changed = true }

// NowUs is the time of the current event.
func (l *Scheduler) NowUs() int64 { return l.nowUs }

// Jobs is how many jobs have arrived and not ended.
func (l *Scheduler) Jobs() int { return len(l.jobs) }

// GPUs is how many GPUs are in service.
func (l *Scheduler) GPUs() int {
	n := 0
	for _, of := range l.inService {
		n += of
	}
	return n
}

// RoundUs is how long a round of a job takes on the fastest type that is in service
// and wide enough, or on the fastest type of all where none is. Where no speed is known,
// it is 0, or with Rule.LearnSizes the mean of the jobs that are there.
func (l *Scheduler) RoundUs(j *JobState) int64 {
	least, any := int64(0), int64(0)
	for _, m := range j.modes {
		if m.DurationUs == 0 {
			continue
		}
		if any == 0 || m.DurationUs < any {
			any = m.DurationUs
		}
		if l.Most(j, m.Type) >= j.spec.Tasks && (least == 0 || m.DurationUs < least) {
			least = m.DurationUs
		}
	}
	switch {
	case least > 0:
		return least
	case any > 0:
		return any
	}
	if l.typicalUs == 0 && l.belief != nil {
		l.typicalUs = l.meanRoundUs() // mostly nobody asks, and it takes O(jobs)
	}
	return l.typicalUs
}

// meanRoundUs is the mean time of a round over the jobs that are there, each on its
// fastest type, or 1 s where no speed is known. It takes O(jobs).
func (l *Scheduler) meanRoundUs() int64 {
	sum, n := int64(0), int64(0)
	for _, j := range l.jobs {
		if us := j.FastestUs(); us > 0 {
			sum, n = min(sum+us, hare.MaxExact), n+1
		}
	}
	if n == 0 {
		return 1e6
	}
	return max(1, sum/n)
}
