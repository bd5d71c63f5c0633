package task

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// rule is what makes one task policy differ from another. All of them place
// tasks by the same desk.
type rule struct {
	// hold is the least that a job keeps its GPUs for: Relaxed compute alone,
	// Gang a round on GPUs that start together, Rigid until it ends. The sync of
	// the job is kept where it asks for more. A job that is relaxed by itself
	// mixes types where no type is as wide as its rounds, and goes task by task
	// where all GPUs together are not, and for the rest of a round that lost a GPU.
	hold hare.Sync
	// blind takes types in the order of their names, and not the fastest first.
	blind bool
	// strict stops at the first job that does not fit; others pass it over,
	// under easy only where that does not delay it.
	strict, easy bool
	// key orders the jobs that wait, the least first; ties go by arrival.
	key func(*desk, *seat) float64
	// review is called for each waiting job before the keys are; may be nil.
	review func(*desk, *seat)
	// plan is called before those, after events that changed who waits; may be nil.
	plan func(*desk, []*seat)
	// began is called before a job starts tasks on GPUs of a kind that it takes;
	// may be nil.
	began func(d *desk, s *seat, kind int)
	// rounds has the rounds of each job, for policies that know them.
	rounds map[string]int64
}

// desk drives a rule: it keeps the books of jobs and GPUs and decides which
// tasks start. A step is O(jobs + GPUs) at worst, and O(log GPUs + width) where
// no GPU becomes free. It implements online.Policy and is not for concurrent
// use. It learns nothing from measured times. A task that fails starts again at
// once where the job keeps its GPUs, with its whole round for gang and rigid
// jobs, and else waits its turn, as under HLAS.
type desk struct {
	rule    rule
	oneNode bool // Config.OneNode
	nowUs   int64
	kinds   []string // sorted
	kindOf  map[string]int
	gpus    []deskGPU
	gpuOf   map[string]int
	free    [][]int // by kind, ascending
	total   []int   // by kind, in service
	jobs    []*seat // by arrival
	jobOf   map[string]*seat
	serial  int
	changed bool // since the last fill
	out     []hare.Decision
	line    waiting
	keep    reservation
}

var _ online.Policy = (*desk)(nil)

type deskGPU struct {
	name    string
	kind    int
	node    int
	here    bool
	job     *seat // that holds it
	task    int64 // that computes, or −1
	sinceUs int64 // when that started
}

// seat is the state of one job.
type seat struct {
	spec   *hare.Job
	serial int
	rounds int64 // 0: the policy does not know
	modes  []deskMode

	round, next, ended int64   // next: the least task of the round that never started
	redo               []int64 // tasks of the round that were lost
	gpus               []int   // held
	hold               hare.Sync
	done               bool // all rounds are

	arrivedUs, startedUs int64 // first start, −1 before
	stateUs              int64 // since when it runs or waits
	executedUs, waitedUs int64 // before that
	active               int64 // tasks that have started and not ended
	queue                int   // for rules with queues
	kind                 int   // for rules that give types, −1: any
	leaseUs              int64 // end of the last lease, for rules with leases
	key                  float64
}

type deskMode struct {
	kind              int
	computeUs, longUs int64 // longUs: with synchronisation
}

// newDesk makes a desk for inst, whose steady GPUs are in service; the policies
// that know sizes have read them before.
func newDesk(inst *hare.Instance, r rule) *desk {
	d := &desk{rule: r, kindOf: map[string]int{}, gpuOf: map[string]int{}, jobOf: map[string]*seat{}}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			d.kinds = append(d.kinds, g.Type)
		}
	}
	slices.Sort(d.kinds)
	d.kinds = slices.Compact(d.kinds)
	for i, k := range d.kinds {
		d.kindOf[k] = i
	}
	d.free, d.total = make([][]int, len(d.kinds)), make([]int, len(d.kinds))
	for ni, n := range inst.Cluster.Nodes {
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				name := n.Name + "/" + strconv.Itoa(at)
				at++
				d.gpuOf[name] = len(d.gpus)
				d.gpus = append(d.gpus, deskGPU{name: name, kind: d.kindOf[g.Type], node: ni, task: -1})
				if n.Windows == nil && len(n.Busy) == 0 {
					d.join(len(d.gpus) - 1)
				}
			}
		}
	}
	return d
}

// knowing gives the rounds of the jobs of inst.
func knowing(inst *hare.Instance) map[string]int64 {
	rounds := make(map[string]int64, len(inst.Jobs))
	for i := range inst.Jobs {
		rounds[inst.Jobs[i].ID] = inst.Jobs[i].Rounds
	}
	return rounds
}

// Step is online.Policy.Step.
func (d *desk) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	d.nowUs, d.out = nowUs, d.out[:0]
	for i := range events {
		if err := d.apply(&events[i]); err != nil {
			return d.out, &online.RefusedError{Index: i, Err: err}
		}
	}
	if d.changed {
		d.changed = false
		d.fill()
	}
	return d.out, nil
}

func (d *desk) apply(e *hare.Event) *hare.InvalidError {
	s, g := d.jobOf[e.Job], -1
	if e.GPU != "" {
		var ok bool
		if g, ok = d.gpuOf[e.GPU]; !ok {
			return &hare.InvalidError{Pointer: "/gpu", Code: "unknown_gpu", Detail: fmt.Sprintf("GPU %.60q is not in the cluster: name one of it", e.GPU)}
		}
	}
	switch e.Type {
	case hare.EventComputeEnded, hare.EventTaskEnded, hare.EventTaskFailed, hare.EventJobEnded, hare.EventJobCancelled:
		if s == nil {
			return &hare.InvalidError{Pointer: "/job", Code: "unknown_job", Detail: fmt.Sprintf("job %.60q neither runs nor waits: name one that does", e.Job)}
		}
	}
	switch e.Type {
	case hare.EventJobArrived:
		d.arrive(e.Arrived)
	case hare.EventComputeEnded:
		d.computed(s, g, e.Task)
	case hare.EventTaskEnded:
		d.taskEnded(s, g, e.Task)
	case hare.EventTaskFailed:
		d.taskFailed(s, g, e.Task)
	case hare.EventJobEnded, hare.EventJobCancelled:
		for len(s.gpus) > 0 {
			d.withdraw(s, s.gpus[0])
			d.release(s.gpus[0])
		}
		delete(d.jobOf, e.Job)
		at, _ := slices.BinarySearchFunc(d.jobs, s.serial, func(o *seat, serial int) int { return o.serial - serial })
		d.jobs = slices.Delete(d.jobs, at, at+1)
		d.changed = true
	case hare.EventGPUJoined:
		d.join(g)
	case hare.EventGPULeft:
		d.leave(g)
	case hare.EventTick:
		d.changed = true
	default:
		return &hare.InvalidError{Pointer: "/type", Code: "not_supported", Detail: fmt.Sprintf("this policy knows no %v: use fifo or hlas", e.Type)}
	}
	return nil
}

func (d *desk) arrive(spec *hare.Job) {
	s := &seat{spec: spec, serial: d.serial, rounds: d.rule.rounds[spec.ID], arrivedUs: d.nowUs, startedUs: -1, stateUs: d.nowUs, kind: -1}
	d.serial++
	for _, p := range spec.On {
		if k, ok := d.kindOf[p.Type]; ok {
			s.modes = append(s.modes, deskMode{k, p.ComputeUs, p.ComputeUs + p.SyncUs})
		}
	}
	slices.SortStableFunc(s.modes, func(a, b deskMode) int {
		if d.rule.blind {
			return cmp.Compare(a.kind, b.kind)
		}
		return cmp.Or(cmp.Compare(a.longUs, b.longUs), cmp.Compare(a.kind, b.kind))
	})
	d.jobs = append(d.jobs, s)
	d.jobOf[spec.ID] = s
	d.changed = true
}

// computed ends the compute of a task, if its GPU has not gone on since.
func (d *desk) computed(s *seat, g int, task int64) {
	x := &d.gpus[g]
	if x.job != s || x.task != task {
		return
	}
	x.task = -1
	if s.hold == hare.Relaxed {
		d.release(g)
	}
}

func (d *desk) taskEnded(s *seat, g int, task int64) {
	d.computed(s, g, task)
	s.ended++
	d.activate(s, -1)
	if s.ended < s.spec.Tasks {
		return
	}
	s.round++
	s.ended, s.next, s.redo = 0, 0, nil
	s.done = s.rounds > 0 && s.round == s.rounds
	if !s.done && s.hold == hare.Rigid && int64(len(s.gpus)) == s.spec.Tasks {
		for _, g := range s.gpus {
			d.start(s, g)
		}
		return
	}
	if s.done && s.spec.Sync == hare.Rigid {
		return // its GPUs come back when it ends
	}
	d.changed = true
	d.releaseAll(s)
}

// activate counts tasks that run, and the time of running and waiting.
func (d *desk) activate(s *seat, by int64) {
	if s.active == 0 || s.active+by == 0 {
		if s.active == 0 {
			s.waitedUs += d.nowUs - s.stateUs
		} else {
			s.executedUs += d.nowUs - s.stateUs
		}
		s.stateUs = d.nowUs
	}
	s.active += by
}

func (d *desk) join(g int) {
	x := &d.gpus[g]
	x.here = true
	d.total[x.kind]++
	d.giveBack(g)
}

func (d *desk) release(g int) {
	x := &d.gpus[g]
	i := slices.Index(x.job.gpus, g)
	x.job.gpus = slices.Delete(x.job.gpus, i, i+1)
	x.job, x.task = nil, -1
	d.giveBack(g)
}

func (d *desk) releaseAll(s *seat) {
	for len(s.gpus) > 0 {
		d.release(s.gpus[len(s.gpus)-1])
	}
}

func (d *desk) giveBack(g int) {
	k := d.gpus[g].kind
	at, _ := slices.BinarySearch(d.free[k], g)
	d.free[k] = slices.Insert(d.free[k], at, g)
	d.changed = true
}

// take hands a free GPU of a kind, by its place among them, to a job.
func (d *desk) take(s *seat, kind, at int) int {
	g := d.free[kind][at]
	d.free[kind] = slices.Delete(d.free[kind], at, at+1)
	d.gpus[g].job = s
	s.gpus = append(s.gpus, g)
	return g
}

// start begins the job's next task on a GPU that it holds.
func (d *desk) start(s *seat, g int) {
	task := s.next
	if len(s.redo) > 0 {
		task, s.redo = s.redo[0], s.redo[1:]
	} else {
		s.next++
	}
	x := &d.gpus[g]
	x.task, x.sinceUs = task, d.nowUs
	if s.startedUs < 0 {
		s.startedUs = d.nowUs
	}
	d.activate(s, 1)
	d.out = append(d.out, hare.Decision{Type: hare.DecisionStart, Job: s.spec.ID, Round: s.round, Task: task, GPU: x.name, AtUs: d.nowUs})
}

// ready is how many tasks of the round wait for a start.
func (s *seat) ready() int64 {
	if s.done {
		return 0
	}
	return s.spec.Tasks - s.next + int64(len(s.redo))
}

// fill starts what fits, in the order of the keys.
func (d *desk) fill() {
	if !d.anyFree() {
		return
	}
	d.line = d.line[:0]
	for _, s := range d.jobs {
		if s.ready() > 0 {
			d.line = append(d.line, s)
		}
	}
	if len(d.line) == 0 {
		return
	}
	if d.rule.plan != nil {
		d.rule.plan(d, d.line)
	}
	for _, s := range d.line {
		if d.rule.review != nil {
			d.rule.review(d, s)
		}
		s.key = d.rule.key(d, s)
	}
	d.line.init()
	d.keep = reservation{}
	for len(d.line) > 0 && d.anyFree() {
		s := d.line.pop()
		for s.ready() > 0 && d.place(s) {
		}
		switch {
		case s.ready() == 0 || !d.fits(s):
		case d.rule.strict:
			return
		case d.rule.easy && d.keep.forJob == nil:
			d.reserve(s)
		}
	}
}

func (d *desk) anyFree() bool {
	return slices.ContainsFunc(d.free, func(f []int) bool { return len(f) > 0 })
}
