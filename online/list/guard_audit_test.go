package list_test

import (
	"context"
	"fmt"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// guardAudit checks the log of a run against theorems 1 and 2 of
// docs/inside/online.md#the-guard-of-rolling-and-hgittins. It keeps clocks of its own, in floating point, from nothing
// but events and decisions.
type guardAudit struct {
	kappa float64
	size  map[string]int64 // the rounds that each rigid job was believed to have on arrival

	records []wire.Record
	tickets []map[string]bool // behind each record, the jobs that wait with a ticket
	held    map[string]bool   // of them, behind the record of the replay
	late    bool              // whether jobs may get tickets for being late
	lateUs  int64             // the GPU time of the rounds for which they got them
	widest  float64           // the GPU time of the largest round
	jobs    map[string]*auditedJob
	order   []*auditedJob // by arrival
	types   map[string]string
	here    map[string]bool // GPUs in service
	gpus    map[string]int  // in service by type

	nowUs          int64
	turns, work    float64
	servedUs       float64 // GPU time of rounds that began while the policy had their jobs due, each round once
	roundsUs       float64 // of one round of each job that has arrived
	inServiceUs    float64
	served         map[string]int64 // by job, the same rounds as servedUs
	fault          error            // what theorem 2 does not allow
	longestUs      int64            // the longest hold of a round
	longestRigidUs int64
	waits          int     // waits of jobs that were due
	tightest       float64 // the longest of them over its bound
}

type auditedJob struct {
	spec        *hare.Job
	roundUs     float64
	work        float64
	round       int64
	ended       int64
	active      int64
	missed      float64
	waits       bool
	turns       float64 // at the start of the wait
	sinceUs     int64
	arrivedUs   int64
	dueUs       int64           // since when the job is due, or since the last change of GPUs; −1 while it is not
	rivals      map[string]bool // jobs that may have earlier tickets
	heldUs      int64           // since when it holds GPUs
	holds       bool
	together    bool
	taskSinceUs map[int64]int64
}

// slack allows for rounding in the clocks.
const slack = 1e-5

// run simulates an instance under a rule and checks the log with κ in the place of the
// rule's own.
func (ga *guardAudit) run(ctx context.Context, inst *hare.Instance, rule list.Rule, cfg sim.Config) error {
	ga.size = map[string]int64{}
	if size := rule.Guard.Size(); size != nil {
		rule.Guard.SetSize(func(j *list.JobState) int64 {
			n := size(j)
			if _, twice := ga.size[j.Spec().ID]; !twice {
				ga.size[j.Spec().ID] = n
			}
			return n
		})
	}
	ga.served = map[string]int64{}
	begun := map[string]int64{} // rounds that have been counted
	rule.Started = func(_ *list.Scheduler, j *list.JobState, _ int) {
		if id := j.Spec().ID; j.Ticket() > 0 && j.Round() >= begun[id] {
			ga.servedUs += float64(j.GuardedWork())
			ga.served[id]++
			begun[id] = j.Round() + 1
		}
	}
	scheduler := list.New(sim.Cluster(inst), rule)
	ga.late = scheduler.Limited() && rule.Guard.Tickets()
	cfg.Log = func(r wire.Record) error {
		tickets := map[string]bool{}
		for _, j := range scheduler.Due() {
			tickets[j.Spec().ID] = true
		}
		ga.tickets = append(ga.tickets, tickets)
		ga.records = append(ga.records, wire.Record{Event: r.Event, Decisions: append([]hare.Decision(nil),
			r.Decisions...)})
		return nil
	}
	cfg.NoSchedule = true
	if _, err := sim.Run(ctx, inst, scheduler, cfg); err != nil {
		return err
	}
	ga.lateUs = scheduler.LateUs()
	ga.replay(inst, false)
	return ga.replay(inst, true)
}

// replay goes through the log; the first time it measures holds, the second time it checks.
func (ga *guardAudit) replay(inst *hare.Instance, check bool) error {
	ga.jobs, ga.order, ga.types, ga.here, ga.gpus = map[string]*auditedJob{}, nil, map[string]string{},
		map[string]bool{},
		map[string]int{}
	ga.nowUs, ga.turns, ga.work, ga.roundsUs, ga.inServiceUs, ga.widest = 0, 0, 0, 0, 0, 0
	for _, n := range sim.Cluster(inst).Nodes {
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				ga.join(fmt.Sprintf("%s/%d", n.Name, at), g.Type)
				at++
			}
		}
	}
	for i := range ga.records {
		r := &ga.records[i]
		ga.held = ga.tickets[i]
		ga.pass(r.Event.AtUs)
		ga.event(&r.Event)
		for k := range r.Decisions {
			ga.decision(r.Event.Type, &r.Decisions[k])
		}
		for _, j := range ga.order {
			ga.turn(j)
		}
		if check {
			if err := ga.check(); err != nil {
				return fmt.Errorf("event %d, %s at %d µs: %w", i+1, r.Event.Type, ga.nowUs, err)
			}
		}
	}
	if check && ga.fault != nil {
		return ga.fault
	}
	if limit := ga.inServiceUs/list.LateShare + ga.widest; check && float64(ga.lateUs) > limit*(1+slack)+1 {
		return fmt.Errorf("theorem 3: late jobs had %d µs, and the limit is %g µs", ga.lateUs, limit)
	}
	if limit := ga.inServiceUs/ga.kappa + ga.roundsUs + float64(ga.lateUs); check && ga.servedUs > limit*(1+slack)+1 {
		return fmt.Errorf("theorem 2: the guard served %g µs, and the limit is %g µs", ga.servedUs, limit)
	}
	return nil
}

func (ga *guardAudit) join(gpu, gpuType string) {
	ga.types[gpu], ga.here[gpu] = gpuType, true
	ga.gpus[gpuType]++
}

func (ga *guardAudit) count() float64 {
	n := 0
	for _, of := range ga.gpus {
		n += of
	}
	return float64(n)
}

// pass lets time pass.
func (ga *guardAudit) pass(atUs int64) {
	dt, n := float64(atUs-ga.nowUs), ga.count()
	if n > 0 && ga.work > 0 {
		ga.turns += dt * n / max(ga.work, n*1e6)
	}
	ga.inServiceUs += dt * n
	ga.nowUs = atUs
}

func (ga *guardAudit) event(e *hare.Event) {
	j := ga.jobs[e.Job]
	switch e.Type {
	case hare.EventJobArrived:
		ga.arrive(e.Arrived)
	case hare.EventTaskEnded:
		ga.taskEnded(j, e.Task)
	case hare.EventTaskFailed:
		if j.active--; j.spec.Sync != hare.Relaxed {
			j.active, j.ended = 0, 0
		}
	case hare.EventJobEnded:
		ga.release(j)
		limit := j.missed/ga.kappa + 1 + slack
		if ga.late {
			limit += 1 + float64(ga.nowUs-j.arrivedUs)/j.roundUs/(list.LeastSlowdown/1e6)
		}
		if n := float64(ga.served[e.Job]); n > limit {
			ga.fault = fmt.Errorf("theorem 2: the guard served %g rounds of job %s, which missed %g", n, e.Job, j.missed)
		}
		ga.work -= j.work
		delete(ga.jobs, e.Job)
		for i, o := range ga.order {
			if o == j {
				ga.order = append(ga.order[:i:i], ga.order[i+1:]...)
				break
			}
		}
	case hare.EventGPUJoined:
		ga.join(e.GPU, e.GPUType)
		ga.resized()
	case hare.EventGPULeft:
		delete(ga.here, e.GPU)
		ga.gpus[ga.types[e.GPU]]--
		ga.resized()
	}
}

// resized begins the waits of jobs that are due again: theorem 1 counts from the last change.
func (ga *guardAudit) resized() {
	for _, j := range ga.order {
		if j.dueUs >= 0 {
			j.dueUs, j.rivals = ga.nowUs, map[string]bool{}
		}
	}
}

func (ga *guardAudit) arrive(spec *hare.Job) {
	j := &auditedJob{spec: spec, roundUs: math.Inf(1), arrivedUs: ga.nowUs, dueUs: -1, taskSinceUs: map[int64]int64{}}
	for _, p := range spec.On {
		j.roundUs = min(j.roundUs, float64(p.ComputeUs+p.SyncUs))
	}
	if spec.Sync == hare.Rigid {
		j.roundUs *= float64(ga.size[spec.ID])
	}
	j.work = min(float64(spec.Tasks), ga.count()) * j.roundUs
	ga.work += j.work
	ga.roundsUs += j.work
	ga.widest = max(ga.widest, j.work)
	ga.jobs[spec.ID] = j
	ga.order = append(ga.order, j)
}

func (ga *guardAudit) taskEnded(j *auditedJob, task int64) {
	j.active--
	if j.spec.Sync == hare.Relaxed && !j.together {
		ga.longestUs = max(ga.longestUs, ga.nowUs-j.taskSinceUs[task])
	}
	if j.ended++; j.ended < j.spec.Tasks {
		return
	}
	j.ended = 0
	j.round++
	if j.spec.Sync != hare.Rigid {
		ga.release(j)
	}
}

// release measures the hold that ends.
func (ga *guardAudit) release(j *auditedJob) {
	if !j.holds {
		return
	}
	j.holds = false
	switch {
	case j.spec.Sync == hare.Rigid:
		ga.longestRigidUs = max(ga.longestRigidUs, ga.nowUs-j.heldUs)
	case j.spec.Sync == hare.Gang || j.together:
		ga.longestUs = max(ga.longestUs, ga.nowUs-j.heldUs)
	}
}

func (ga *guardAudit) decision(on hare.EventType, d *hare.Decision) {
	j := ga.jobs[d.Job]
	switch {
	case j == nil || d.Type == hare.DecisionWithdraw && on == hare.EventTaskFailed:
		return
	case d.Type == hare.DecisionWithdraw && j.spec.Sync == hare.Relaxed: // its GPU has left
		j.active--
		ga.release(j)
		j.together = false
		return
	case d.Type == hare.DecisionWithdraw: // a GPU of its round has left
		ga.release(j)
		j.active, j.ended = 0, 0
		return
	case j.active == 0:
		ga.begin(j, d.AtUs)
	}
	j.active++
	j.taskSinceUs[d.Task] = d.AtUs
	if j.active == j.spec.Tasks && j.heldUs == d.AtUs {
		j.together = true
	}
}

// begin ends a wait, which may have had no length.
func (ga *guardAudit) begin(j *auditedJob, atUs int64) {
	if j.holds && !j.waits {
		return // the job starts again on its GPUs, or a rigid job its next round
	}
	j.heldUs, j.holds, j.together = atUs, true, false
	if j.dueUs >= 0 {
		if l := ga.longestUs + ga.longestRigidUs; l > 0 {
			ga.waits++
			ga.tightest = max(ga.tightest, float64(atUs-j.dueUs)/float64(int64(len(j.rivals)+2)*l))
		}
	}
	j.missed += ga.missedNow(j)
	j.waits, j.dueUs, j.rivals = false, -1, nil
}

// missedNow is what a job has missed in the wait that goes on.
func (ga *guardAudit) missedNow(j *auditedJob) float64 {
	if !j.waits {
		return 0
	}
	return min(ga.turns-j.turns, float64(ga.nowUs-j.sinceUs)/j.roundUs)
}

// isDue reports whether a job has missed more than κ lets it, by more than a margin.
func (ga *guardAudit) isDue(j *auditedJob, margin float64) bool {
	return j.missed+ga.missedNow(j) > ga.kappa*float64(j.round+8)+margin
}

// turn begins the wait of a job of which no task runs.
func (ga *guardAudit) turn(j *auditedJob) {
	if j.active > 0 || j.waits || j.spec.Sync == hare.Rigid && j.holds {
		return
	}
	j.waits, j.turns, j.sinceUs, j.dueUs = true, ga.turns, ga.nowUs, -1
}

// fits reports whether GPUs in service suffice for a start of a job.
func (ga *guardAudit) fits(j *auditedJob) bool {
	all, widest := 0, 0
	for _, p := range j.spec.On {
		all += ga.gpus[p.Type]
		widest = max(widest, ga.gpus[p.Type])
	}
	switch {
	case j.spec.Sync == hare.Relaxed:
		return all > 0
	case j.spec.Mix:
		return int64(all) >= j.spec.Tasks
	}
	return int64(widest) >= j.spec.Tasks
}

// check applies theorem 1 to all jobs that are due.
func (ga *guardAudit) check() error {
	l := ga.longestUs + ga.longestRigidUs
	for _, j := range ga.order {
		switch {
		case !j.waits:
			continue
		case !ga.fits(j) || !ga.isDue(j, slack) && !ga.held[j.spec.ID]:
			j.dueUs = -1
			continue
		case j.dueUs < 0:
			j.dueUs, j.rivals = ga.nowUs, map[string]bool{}
		}
		if ga.nowUs <= j.dueUs+l {
			for _, o := range ga.order {
				if o != j && o.waits && (ga.isDue(o, -slack) || ga.held[o.spec.ID]) {
					j.rivals[o.spec.ID] = true
				}
			}
		}
		if ga.nowUs > j.dueUs+int64(len(j.rivals)+2)*l {
			return fmt.Errorf("theorem 1: job %s is due since %d µs, with at most %d jobs before it and holds of at most %d µs",
				j.spec.ID, j.dueUs, len(j.rivals), l)
		}
	}
	return nil
}
