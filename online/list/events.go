package list

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// apply checks one event and applies it, with the decisions that follow of
// necessity: withdrawals, and starts of jobs that keep their GPUs. A refused event
// changes nothing, not even the time.
func (l *Scheduler) apply(nowUs int64, e *hare.Event) *hare.InvalidError {
	l.typicalUs = 0 // nothing that was asked for between events may change what follows
	if err := online.CheckTime(nowUs, l.nowUs); err != nil {
		return err
	}
	switch e.Type {
	case hare.EventTick:
		l.nowUs, l.changed = nowUs, true
		return nil
	case hare.EventJobArrived:
		return l.jobArrived(nowUs, e)
	case hare.EventGPUJoined:
		return l.gpuJoined(nowUs, e)
	case hare.EventNodeJoined:
		return l.nodeJoined(nowUs, e)
	case hare.EventNodeLeft:
		return l.nodeLeft(nowUs, e)
	case hare.EventSetQuota:
		return l.setQuota(nowUs, e)
	case hare.EventGPULeft:
		g, ok := l.gpuOf[e.GPU]
		if !ok || !l.gpus[g].InService {
			return online.UnknownGPU(e.GPU)
		}
		l.nowUs = nowUs
		l.gpuLeft(g)
		l.resized()
		return nil
	case hare.EventComputeEnded, hare.EventTaskEnded, hare.EventTaskFailed, hare.EventJobEnded, hare.EventJobCancelled:
	default:
		return online.UnknownType()
	}
	j := l.jobOf[e.Job]
	if j == nil {
		return online.UnknownJob(e.Job)
	}
	if e.Type == hare.EventJobEnded || e.Type == hare.EventJobCancelled {
		l.nowUs = nowUs
		l.jobEnded(j)
		if l.belief != nil {
			l.belief.Observe(j, e.Type == hare.EventJobEnded)
		}
		if l.rule.Left != nil {
			l.rule.Left(l, j, e.Type == hare.EventJobEnded)
		}
		return nil
	}
	g, at, err := l.findTask(j, e)
	if err != nil {
		return err
	}
	if e.Type == hare.EventComputeEnded && g < 0 {
		return online.NotComputing(e)
	}
	if e.Type == hare.EventTaskEnded {
		if err := online.CheckMeasured(e); err != nil {
			return err
		}
	}
	l.nowUs = nowUs
	switch e.Type {
	case hare.EventComputeEnded:
		l.computeEnded(j, g)
	case hare.EventTaskEnded:
		l.observeSetup(j, g, e)
		l.observeSpeed(j, e)
		l.taskEnded(j, g, at)
	default:
		l.taskFailed(j, g, at, e.Task)
	}
	return nil
}

// findTask finds the task that an event names: the GPU on which it runs, or −1 and
// its place among the tasks that synchronise.
func (l *Scheduler) findTask(j *JobState, e *hare.Event) (g, at int, err *hare.InvalidError) {
	if e.Round != j.round {
		return 0, 0, online.WrongRound(e, j.round)
	}
	if g, ok := l.gpuOf[e.GPU]; ok && l.gpus[g].Job == j && l.gpus[g].Task == e.Task && e.Task >= 0 {
		return g, 0, nil
	}
	at, ok := slices.BinarySearchFunc(j.syncing, e.Task,
		func(s syncing, t int64) int { return cmp.Compare(s.task, t) })
	if !ok || j.syncing[at].gpu != e.GPU {
		return 0, 0, online.NotRunning(e)
	}
	return -1, at, nil
}

func (l *Scheduler) jobArrived(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := online.CheckArrival(e); err != nil {
		return err
	}
	if _, twice := l.jobOf[e.Arrived.ID]; twice {
		return online.DuplicateJob(e.Arrived.ID)
	}
	if err := online.CheckLevels(e.Arrived, l.described.Topology()); err != nil {
		return err
	}
	gpus, err := l.checkProgress(e.Arrived)
	if err != nil {
		return err
	}
	l.nowUs = nowUs
	spec := new(hare.Job)
	*spec = *e.Arrived
	spec.On, spec.Hints, spec.Progress = slices.Clone(spec.On), spec.Hints.Clone(), nil
	j := &JobState{spec: spec, serial: l.serial, rounds: l.rule.Rounds[spec.ID], belief: l.belief,
		arrivedUs: nowUs, startedUs: -1, sinceUs: nowUs, OnlyType: -1}
	j.modes = l.modesOf(j)
	j.subject, j.round = subjectOf(spec.Hints), e.Arrived.FirstRound()
	l.serial++
	l.arriveOnNodes(j)
	l.arriveWithLevels(j)
	l.jobs = append(l.jobs, j)
	l.jobOf[spec.ID] = j
	l.changed = true
	l.touch(j)
	l.guardArrival(j)
	l.rule.Speeds.arrived(l, j)
	if len(gpus) > 0 {
		l.resume(j, gpus, e.Arrived.Progress.ElapsedUs)
	}
	l.resized()
	return nil
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
		return l.described.Nodes(len(l.gpus), l.gpuAt)
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

// resized tells the rule of more jobs, or of more or fewer GPUs.
func (l *Scheduler) resized() {
	if l.rule.Resized != nil {
		l.rule.Resized(l)
	}
}

// computeEnded ends the compute of a task that runs on a GPU. Gang and rigid jobs
// hold their GPUs until the round ends.
func (l *Scheduler) computeEnded(j *JobState, g int) {
	if j.spec.Sync != hare.Relaxed {
		return
	}
	x := &l.gpus[g]
	at, _ := slices.BinarySearchFunc(j.syncing, x.Task, func(s syncing, t int64) int { return cmp.Compare(s.task, t) })
	j.syncing = slices.Insert(j.syncing, at, syncing{x.Task, x.Name, l.othersOf(j, g)})
	l.leaveGPU(j, g)
}

func (l *Scheduler) taskEnded(j *JobState, g, at int) {
	l.endTask(j, g, at)
	j.ended++
	l.activate(j, -1)
	if j.ended < j.spec.Tasks {
		return
	}
	j.round++
	j.ended, j.next, j.redo = 0, 0, nil
	l.touch(j)
	j.finished = j.rounds > 0 && j.round == j.rounds
	if !j.finished && j.hold == hare.Rigid && int64(len(j.gpus)) == j.Width() && !l.mustYield(j) {
		l.startLeads(j)
		return
	}
	if j.finished && j.spec.Sync == hare.Rigid {
		return // its GPUs come back when the job ends
	}
	l.changed = true
	if l.rule.Sticky {
		j.last = append(j.last[:0], j.gpus...)
	}
	l.releaseAll(j)
}

// taskFailed repeats a task, or the round of a gang or rigid job.
func (l *Scheduler) taskFailed(j *JobState, g, at int, task int64) {
	if j.spec.Sync != hare.Relaxed {
		l.gpus[g].Task = -1
		for _, h := range j.gpus {
			l.withdraw(j, h)
		}
		l.activate(j, -j.active)
		j.next, j.ended = 0, 0
		l.touch(j)
		l.startLeads(j)
		return
	}
	l.activate(j, -1)
	j.redo = append(j.redo, task)
	l.touch(j)
	if j.hold != hare.Relaxed && l.mustYield(j) {
		l.goTaskByTask(j)
	}
	if j.hold == hare.Relaxed {
		l.endTask(j, g, at)
		l.changed = true
		return
	}
	if g < 0 { // the GPU is kept for the round, after compute too
		g = l.gpuOf[j.syncing[at].gpu]
		j.syncing = slices.Delete(j.syncing, at, at+1)
	}
	l.start(j, g)
}

func (l *Scheduler) jobEnded(j *JobState) {
	for len(j.gpus) > 0 {
		l.withdraw(j, j.gpus[0])
		l.release(j.gpus[0])
	}
	for _, s := range j.syncing {
		l.emit(hare.DecisionWithdraw, j, s.task, s.gpu, s.others)
	}
	l.guardEnd(j)
	delete(l.jobOf, j.spec.ID)
	l.touch(j)
	at, _ := slices.BinarySearchFunc(l.jobs, j.serial, func(o *JobState, serial int) int { return o.serial - serial })
	l.jobs = slices.Delete(l.jobs, at, at+1)
	l.leaveNodes(j)
	if j.spread.syncUs != nil {
		l.levelJobs--
	}
	l.changed = true
}

func (l *Scheduler) gpuJoined(nowUs int64, e *hare.Event) *hare.InvalidError {
	g, known := l.gpuOf[e.GPU]
	t, knownType := l.typeOf[e.GPUType]
	if err := online.CheckGPUJoined(e, known && l.gpus[g].InService, l.GPUs()); err != nil {
		return err
	}
	if !knownType && len(l.types) >= MaxTypes {
		return online.Invalid("/gpu_type", "too_many_types", "the GPUs of a session are of at most %d types", MaxTypes)
	}
	if err := l.described.CheckLabels(e.GPU, e.Node()); err != nil {
		return err
	}
	if err := l.joinNode(e.Node()); err != nil {
		return err
	}
	l.nowUs = nowUs
	if !knownType {
		t = l.addType(e.GPUType)
		for _, j := range l.jobs {
			l.remakeModes(j)
			j.timesVersion++ // the fastest type may be another
		}
	}
	if !known {
		g = l.addGPU(e.GPU, t)
	}
	l.gpus[g].Type = t
	l.enterService(g)
	l.resized()
	return nil
}

// gpuLeft takes a GPU out of service. A relaxed task on it is lost alone; the rest
// of the round goes on task by task. A gang loses its round and all of its GPUs.
func (l *Scheduler) gpuLeft(g int) {
	l.guardResized()
	x := &l.gpus[g]
	l.changed, l.waiting.stale = true, true
	l.capacity++
	if j := x.Job; j != nil {
		if j.spec.Sync == hare.Relaxed {
			lead := g
			if j.spec.GPUsPerTask > 1 {
				lead = l.taskOn(j, g)[0]
			}
			if task := l.gpus[lead].Task; task >= 0 {
				j.redo = append(j.redo, task)
			}
			l.withdraw(j, lead)
			l.releaseTask(j, g)
			l.goTaskByTask(j)
		} else {
			for _, h := range j.gpus {
				l.withdraw(j, h)
			}
			l.activate(j, -j.active)
			l.releaseAll(j)
			j.next, j.ended, j.redo = 0, 0, nil
		}
	}
	at, _ := slices.BinarySearch(l.free[x.Type], g)
	l.free[x.Type] = slices.Delete(l.free[x.Type], at, at+1)
	if l.nodes != nil {
		l.nodes.Leave(g)
	}
	x.InService = false
	l.inService[x.Type]--
	if !x.initial {
		delete(l.gpuOf, x.Name)
		*x = GPU{Task: -1, user: -1}
		at, _ := slices.BinarySearchFunc(l.vacant, g, func(a, b int) int { return b - a })
		l.vacant = slices.Insert(l.vacant, at, g)
	}
}

// nodeJoined lets a whole node join.
func (l *Scheduler) nodeJoined(nowUs int64, e *hare.Event) *hare.InvalidError {
	gpus, err := online.GPUsOfNode(e)
	if err != nil {
		return err
	}
	if err := online.CheckNodeJoined(e, gpus, l.nodeInService(e.Node().Name),
		l.described.CheckLabels(e.Node().Name, e.Node()), l.GPUs()); err != nil {
		return err
	}
	known := func(gpuType string) bool { _, ok := l.typeOf[gpuType]; return ok }
	if len(l.types)+online.NewTypes(gpus, known) > MaxTypes {
		return online.Invalid("/gpus", "too_many_types", "the GPUs of a session are of at most %d types", MaxTypes)
	}
	if err := l.joinNode(e.Node()); err != nil {
		return err
	}
	for i := range gpus {
		if err := l.gpuJoined(nowUs, &gpus[i]); err != nil {
			return err // it was checked above
		}
	}
	return nil
}

// nodeLeft takes all GPUs of a node out of service and forgets the node.
func (l *Scheduler) nodeLeft(nowUs int64, e *hare.Event) *hare.InvalidError {
	name, err := online.LeavingNode(e, l.nodeInService)
	if err != nil {
		return err
	}
	l.nowUs = nowUs
	for g := range l.gpus {
		if x := &l.gpus[g]; x.InService && placement.NodeName(x.Name) == name {
			l.gpuLeft(g)
		}
	}
	l.described.Forget(name)
	l.resized()
	return nil
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
