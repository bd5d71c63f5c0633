package verify

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// ScheduleValue checks every constraint on a schedule and returns its value and the
// completion of each job, in the order of the instance. Both have no meaning if there
// are faults. It takes O(n log² n) in entries of lanes, whatever the number of rounds.
func ScheduleValue(inst *hare.Instance, s *hare.Schedule) (value hare.Amount, endsUs []int64, faults []Fault) {
	value, endsUs, _, faults = checkSchedule(inst, s)
	return value, endsUs, faults
}

// checkSchedule reports the first fault of each lane or, if lanes have no fault, the
// first fault of each job, up to maxFaults.
func checkSchedule(inst *hare.Instance, s *hare.Schedule) (value hare.Amount, ends, starts []int64, faults []Fault) {
	if err := plausible(inst); err != nil {
		return value, nil, nil, []Fault{{Constraint: CodeInstance, Detail: err.Error()}}
	}
	if s == nil {
		return value, nil, nil, []Fault{{Constraint: CodeForm, Detail: "there is no schedule"}}
	}
	c := &scheduleCheck{inst: inst, nodeOf: make([]int32, len(s.Lanes)), reserved: newReservedNodes(inst)}
	var err error
	if c.running, err = newRunning(inst); err != nil {
		return value, nil, nil, []Fault{{Constraint: CodeInstance, Detail: err.Error()}}
	}
	c.cluster = c.running.nodes(inst)
	if switches(inst) {
		c.opened, c.runsOn = slices.Repeat([]int64{hare.Forever}, len(inst.Jobs)), map[heldGPU]int{}
		for _, h := range c.running.gpus {
			c.runsOn[heldGPU{node: h.node, number: h.number}] = h.job
		}
	}
	if f := c.resolve(s); f != nil {
		return value, nil, nil, []Fault{*f}
	}
	for i := range s.Lanes {
		if f := c.lane(&s.Lanes[i], int32(i)); f != nil {
			if faults = append(faults, *f); len(faults) == maxFaults {
				break
			}
		}
	}
	if len(faults) > 0 {
		return value, nil, nil, faults
	}
	n := len(inst.Jobs)
	ends, starts = make([]int64, n), make([]int64, n)
	found := make([]*Fault, n)
	var tp *topology
	if levelsMatter(inst) {
		tp = newTopology(&inst.Cluster)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			rounds := newRoundChecker(&inst.Cluster, c.nodeOf, tp)
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				from := 0
				if i > 0 {
					from = c.next[i-1]
				}
				job, at := &inst.Jobs[i], c.running.jobs[i]
				switch ends[i] = at.until; {
				case at.fixed:
				case job.Shapes != nil:
					ends[i], starts[i], found[i] = rounds.checkShaped(job, at, c.pieces[from:c.next[i]], s.Lanes)
				default:
					ends[i], starts[i], found[i] = rounds.check(job, at, c.pieces[from:c.next[i]], s.Lanes)
				}
			}
		})
	}
	wg.Wait()
	for _, f := range found {
		if f != nil && len(faults) < maxFaults {
			faults = append(faults, *f)
		}
	}
	if len(faults) == 0 {
		opened := c.opened // setups come before starts
		if opened == nil {
			opened = starts
		}
		faults = checkOrderOfJobs(inst, opened, ends)
	}
	if len(faults) == 0 {
		faults = append(c.checkHeld(s.Lanes), c.checkQuotas(s.Lanes)...)
	}
	if len(faults) > 0 {
		return value, nil, nil, faults[:min(len(faults), maxFaults)]
	}
	for i, at := range c.running.jobs {
		if at.until > 0 {
			starts[i] = 0
		}
	}
	value, _, ok := objectiveOf(inst, c.running, ends)
	if !ok {
		return value, nil, nil, []Fault{{Constraint: CodeValue, Detail: "the value does not fit 127 bits"}}
	}
	return value, ends, starts, nil
}

// resolve checks names and columns, and allocates the entries of each job.
func (sc *scheduleCheck) resolve(s *hare.Schedule) *Fault {
	place := indexOf(sc.inst)
	sc.jobOf = make([]int, len(s.Jobs))
	for i, id := range s.Jobs {
		at, ok := place[id]
		if !ok {
			return &Fault{Constraint: CodeForm, Job: id, Detail: "schedule.jobs lists an unknown job, or one twice"}
		}
		delete(place, id)
		sc.jobOf[i] = at
	}
	for i := range sc.inst.Jobs {
		if id := sc.inst.Jobs[i].ID; len(place) > 0 {
			if _, missing := place[id]; missing {
				return &Fault{Constraint: CodeForm, Job: id, Detail: "the job is not in schedule.jobs"}
			}
		}
	}
	counts := make([]int, len(sc.inst.Jobs))
	for i := range s.Lanes {
		l := &s.Lanes[i]
		n := len(l.Job)
		for _, column := range [][]int64{l.Round, l.Rounds, l.Tasks, l.PeriodUs, l.Shape} {
			if column != nil && len(column) != n || len(l.StartUs) != n {
				return &Fault{Constraint: CodeForm, GPU: l.GPU, Detail: "the columns of a lane are not equally long"}
			}
		}
		for _, j := range l.Job {
			if j < 0 || int(j) >= len(sc.jobOf) {
				return &Fault{Constraint: CodeForm, GPU: l.GPU,
					Detail: fmt.Sprintf("job index %d is not in schedule.jobs", j)}
			}
			counts[sc.jobOf[j]]++
		}
	}
	sc.next = make([]int, len(counts))
	total := 0
	for i, n := range counts {
		sc.next[i] = total
		total += n
	}
	sc.pieces = make([]piece, total)
	sc.nodes = newDirectory(&sc.inst.Cluster)
	sc.before = make([]int, len(sc.inst.Cluster.Nodes))
	gpus := 0
	for i := range sc.inst.Cluster.Nodes {
		n := &sc.inst.Cluster.Nodes[i]
		sc.before[i] = gpus
		for _, g := range n.GPUs {
			gpus += g.Count
		}
	}
	sc.seen = make([]bool, gpus)
	return nil
}

// gpu finds the node and number of a GPU that no earlier lane has named.
func (sc *scheduleCheck) gpu(name string) (node, number int, kind, fault string) {
	node, number, kind, ok := sc.nodes.find(&sc.inst.Cluster, name)
	if !ok {
		return 0, 0, "", "a lane names an unknown GPU"
	}
	if sc.seen[sc.before[node]+number] {
		return 0, 0, "", "two lanes name the same GPU"
	}
	sc.seen[sc.before[node]+number] = true
	return node, number, kind, ""
}

// lane checks what concerns one GPU alone: the range of numbers, entries that follow
// each other within windows of service, periods and releases.
func (sc *scheduleCheck) lane(l *hare.Lane, index int32) *Fault {
	node, number, kind, unknown := sc.gpu(l.GPU)
	if unknown != "" {
		return &Fault{Constraint: CodeForm, GPU: l.GPU, Detail: unknown}
	}
	sc.nodeOf[index] = int32(node)
	open := openTimes(&sc.cluster[node], number)
	var free int64
	var last *piece
	for x := range l.Job {
		e := l.Entry(x)
		i := sc.jobOf[e.Job]
		job := &sc.inst.Jobs[i]
		bad := func(constraint string, by int64, detail string, a ...any) *Fault {
			return &Fault{Constraint: constraint, Job: job.ID, Round: &e.Round, GPU: l.GPU, ByUs: by,
				Detail: fmt.Sprintf(detail, a...)}
		}
		on, tasks, does := job.On, job.Tasks, int64(1)
		if job.Shapes != nil && 0 <= e.Shape && e.Shape < int64(len(job.Shapes)) {
			s := &job.Shapes[e.Shape]
			on, tasks, does = s.On, s.Tasks, s.Counts
		} else if e.Shape != 0 {
			return bad(CodeForm, 0, "the entry has shape %d of %d, counted from 0", e.Shape, len(shapesOf(job)))
		}
		mode, ok := slices.BinarySearchFunc(on, kind,
			func(p hare.Profile, k string) int { return strings.Compare(p.Type, k) })
		if !ok {
			return bad(CodeService, 0, "the job has no profile for this GPU's type %.40q", kind)
		}
		for _, v := range [...]int64{e.Round, e.Rounds - 1, e.Tasks - 1, e.PeriodUs, e.StartUs} {
			if v < 0 || v > hare.MaxExact {
				return bad(CodeForm, 0, "an entry has a number out of range")
			}
		}
		if first := sc.running.jobs[i].first; e.Round < first {
			return bad(CodeRounds, 0, "the entry has a round that is done or runs at time 0: %d are", first)
		}
		most := job.Rounds - e.Round
		if does > 1 && most > 0 {
			most = (most-1)/does + 1
		}
		if e.Rounds > most {
			return bad(CodeRounds, 0, "the entry runs to round %d of %d", e.Round+e.Rounds, job.Rounds)
		}
		if e.Tasks > tasks {
			return bad(CodeRounds, 0, "the entry has %d tasks of a round of %d", e.Tasks, tasks)
		}
		if job.Sync != hare.Relaxed && e.Tasks != 1 {
			return bad(CodeGang, 0, "the GPU has %d tasks of a round, which start one after another", e.Tasks)
		}
		compute, ok1 := mul(e.Tasks, on[mode].ComputeUs)
		span, ok2 := mul(e.Rounds-1, e.PeriodUs)
		if !ok1 || !ok2 {
			return bad(CodeForm, 0, "an entry lasts longer than 2^53 µs")
		}
		hold := compute
		if job.Sync != hare.Relaxed {
			// A slower task of the round, or one far away, may hold the GPU longer: see roundChecker.
			hold += leastSync(&on[mode])
		}
		end := e.StartUs + span + hold
		opens := e.StartUs // when the GPU is taken
		if c := on[mode].SwitchUs; c > 0 && sc.runBefore(node, number, x, l) != i {
			opens -= c
		}
		if sc.opened != nil {
			sc.opened[i] = min(sc.opened[i], opens)
		}
		switch {
		case opens < job.ReleaseUs:
			return bad(CodeRelease, job.ReleaseUs-opens, "a task, or the setup of its GPU, starts before the job's release")
		case e.StartUs < sc.running.jobs[i].until:
			return bad(CodeRelease, sc.running.jobs[i].until-e.StartUs,
				"a task starts before the job's running work has ended")
		case opens < free:
			return bad(CodeOverlap, free-opens,
				"the entry, or its setup, starts before the one before it on this GPU has ended")
		case e.Rounds > 1 && e.PeriodUs < hold:
			return bad(CodeOverlap, hold-e.PeriodUs, "the period is shorter than a round holds the GPU")
		}
		for len(open) > 0 && open[0].EndUs <= e.StartUs {
			open = open[1:]
		}
		switch {
		case len(open) == 0:
			return bad(CodeService, 0, "the GPU has left service for good before the entry starts")
		case opens < open[0].StartUs:
			return bad(CodeService, open[0].StartUs-opens,
				"the GPU is not in service or still busy when the entry, or its setup, starts")
		case end > open[0].EndUs:
			return bad(CodeService, end-open[0].EndUs, "the GPU leaves service before the entry ends")
		}
		limit := open[0].EndUs
		if closed, ok := nextClosed(sc.reserved.against(node, i), opens); ok {
			if end > closed.StartUs {
				return bad(CodeReserved, end-closed.StartUs, "the node is reserved for others while the entry holds the GPU")
			}
			limit = min(limit, closed.StartUs)
		}
		free = end
		if last != nil {
			last.limit = min(last.limit, opens)
		}
		last = &sc.pieces[sc.next[i]]
		sc.next[i]++
		*last = piece{
			gpu: index, mode: modeOf(job, int(e.Shape), mode), round: e.Round, rounds: e.Rounds, tasks: e.Tasks,
			period: e.PeriodUs, start: e.StartUs,
			compute: compute, after: on[mode].SyncUs, limit: limit,
		}
	}
	return nil
}

// runBefore returns the job of the entry before entry x of a lane, or that of the work that runs
// on the GPU at time 0; −1 for none.
func (sc *scheduleCheck) runBefore(node, number, x int, l *hare.Lane) int {
	if x > 0 {
		return sc.jobOf[l.Job[x-1]]
	}
	if i, ok := sc.runsOn[heldGPU{node: node, number: number}]; ok {
		return i
	}
	return -1
}
