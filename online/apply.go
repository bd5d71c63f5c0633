package online

import (
	"slices"

	"github.com/hare-sched/hare"
)

// apply checks one event, then lets time pass to nowUs and applies the event.
// Withdrawals, which follow of necessity, go to out. A refused event changes
// nothing, not even the time.
func (c *core) apply(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := CheckTime(nowUs, c.nowUs); err != nil {
		return err
	}
	switch e.Type {
	case hare.EventTick:
		c.advance(nowUs)
		return nil
	case hare.EventJobArrived:
		return c.jobArrived(nowUs, e)
	case hare.EventComputeEnded:
		return c.computeEnded(nowUs, e)
	case hare.EventTaskEnded:
		return c.taskEnded(nowUs, e)
	case hare.EventTaskFailed:
		return c.taskFailed(nowUs, e)
	case hare.EventJobEnded, hare.EventJobCancelled:
		return c.jobEnded(nowUs, e)
	case hare.EventGPUJoined:
		return c.gpuJoined(nowUs, e)
	case hare.EventGPULeft:
		return c.gpuLeft(nowUs, e)
	case hare.EventNodeJoined:
		return c.nodeJoined(nowUs, e)
	case hare.EventNodeLeft:
		return c.nodeLeft(nowUs, e)
	case hare.EventSetQuota:
		return c.setQuota(nowUs, e)
	}
	return UnknownType()
}

func (c *core) advance(nowUs int64) {
	c.nowUs = nowUs
	c.guard()
}

func (c *core) jobArrived(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := CheckArrival(e); err != nil {
		return err
	}
	a := e.Arrived
	if _, twice := c.jobOf[a.ID]; twice {
		return DuplicateJob(a.ID)
	}
	fresh := 0
	for _, p := range a.On {
		if _, known := c.typeOf[p.Type]; !known {
			fresh++
		}
		if len(c.types)+fresh > maxTypes {
			return tooManyTypes("/job/on")
		}
	}
	if err := CheckLevels(a, c.described.Topology()); err != nil {
		return err
	}
	gpus, err := c.checkProgress(a)
	if err != nil {
		return err
	}
	c.advance(nowUs)
	ji := c.addJob(a)
	c.observe(&c.jobs[ji])
	if a.Progress != nil {
		c.jobs[ji].round = a.Progress.RoundsDone
		c.resume(ji, gpus, a.Progress.ElapsedUs)
	}
	if c.jobs[ji].ready() > 0 {
		c.enter(ji)
	}
	return nil
}

// addJob adds a checked job to the state, outside the ready queues.
func (c *core) addJob(a *hare.Job) int32 {
	ji := c.newSlot()
	j := &c.jobs[ji]
	*j = job{
		id: a.ID, alive: true, sync: a.Sync, mix: a.Mix, tasks: a.Tasks, weight: a.WeightMicro,
		on: j.on[:0], redo: j.redo[:0], syncing: j.syncing[:0], // the slot's memory is used again
		head: none, tail: none, stateUs: c.nowUs, arrivedUs: c.nowUs, startedUs: -1,
	}
	for _, p := range a.On {
		k := c.kind(p.Type)
		j.mask |= 1 << k
		syncUs := p.SyncUs
		if p.SyncAt != nil {
			syncUs = c.syncWithin(a, &p)
		}
		j.on = append(j.on, profile{kind: k, given: p.ComputeUs > 0, computeUs: p.ComputeUs, syncUs: syncUs})
	}
	slices.SortFunc(j.on, func(a, b profile) int { return int(a.kind - b.kind) })
	j.setSpeeds()
	j.ticket = c.ticket()
	j.seq = j.ticket
	c.jobOf[j.id] = ji
	c.addRules(ji, a)
	c.joinClass(ji)
	return ji
}

func (c *core) newSlot() int32 {
	if n := len(c.vacantJobs); n > 0 {
		ji := c.vacantJobs[n-1]
		c.vacantJobs = c.vacantJobs[:n-1]
		return ji
	}
	c.jobs = append(c.jobs, job{})
	c.readyAt = append(c.readyAt, none)
	c.dueAt = append(c.dueAt, none)
	return int32(len(c.jobs) - 1)
}

func (c *core) computeEnded(nowUs int64, e *hare.Event) *hare.InvalidError {
	ji, g, _, err := c.findTask(e)
	if err != nil {
		return err
	}
	j := &c.jobs[ji]
	if g == none {
		return NotComputing(e)
	}
	c.advance(nowUs)
	if j.sync != hare.Relaxed {
		return nil // the GPU is held until the round ends
	}
	x := &c.gpus[g]
	c.credit(ji, x.kind, nowUs-x.sinceUs, j.taskGPUs)
	at, _ := slices.BinarySearchFunc(j.syncing, e.Task, func(s syncing, t int64) int { return compare(s.task, t) })
	j.syncing = slices.Insert(j.syncing, at, newSyncing(e.Task, x.name, x.kind, c.othersOf(g)))
	c.releaseTask(g)
	return nil
}

func (c *core) taskEnded(nowUs int64, e *hare.Event) *hare.InvalidError {
	ji, g, at, err := c.findTask(e)
	if err != nil {
		return err
	}
	if err := CheckMeasured(e); err != nil {
		return err
	}
	c.advance(nowUs)
	j := &c.jobs[ji]
	j.ended++
	switch {
	case g == none:
		c.learn(ji, j.syncing[at].kind, e.ComputeUs)
		j.syncing = slices.Delete(j.syncing, at, at+1)
		j.active--
	case j.sync == hare.Relaxed:
		x := &c.gpus[g]
		c.learn(ji, x.kind, e.ComputeUs)
		c.credit(ji, x.kind, nowUs-x.sinceUs, j.taskGPUs)
		c.releaseTask(g)
		j.active--
		c.dirty = true
	default:
		c.learn(ji, c.gpus[g].kind, e.ComputeUs)
		c.gpus[g].ended = true
	}
	if j.ended == j.tasks {
		c.dirty = true
		c.roundEnded(ji)
	} else if j.active == 0 {
		c.wait(ji)
	}
	return nil
}

// roundEnded opens the next round: relaxed and gang jobs enter the ready queue for
// the round, a rigid job goes on where it is.
func (c *core) roundEnded(ji int32) {
	j := &c.jobs[ji]
	j.doneRounds++
	if j.sync != hare.Relaxed {
		c.creditGang(ji)
	}
	if j.sync == hare.Gang {
		c.releaseAll(j)
	}
	c.openRound(ji, j.round+1)
	if j.sync == hare.Rigid {
		c.restarting = ji
		return
	}
	j.active = 0
	c.wait(ji)
	c.enter(ji)
}

func (c *core) openRound(ji int32, round int64) {
	j := &c.jobs[ji]
	j.round, j.next, j.ended = round, 0, 0
	j.redo = j.redo[:0]
}

// creditGang counts the time for which a gang held its GPUs since its round
// started, type by type in the order of the job's list of GPUs.
func (c *core) creditGang(ji int32) {
	j := &c.jobs[ji]
	for g := j.head; g != none; {
		x := &c.gpus[g]
		n := int64(0)
		for ; g != none && c.gpus[g].kind == x.kind; g = c.gpus[g].next {
			n++
		}
		c.credit(ji, x.kind, c.nowUs-x.sinceUs, n)
	}
}

func (c *core) releaseAll(j *job) {
	for j.head != none {
		c.release(j.head)
	}
}

// withdrawGang withdraws the running tasks of a gang, except the task on GPU but.
func (c *core) withdrawGang(j *job, but int32) {
	for g := j.head; g != none; g = c.gpus[g].next {
		if x := &c.gpus[g]; g != but && !x.ended {
			c.emit(hare.DecisionWithdraw, j, x.task, x.name, c.othersOf(g))
		}
	}
}

func (c *core) taskFailed(nowUs int64, e *hare.Event) *hare.InvalidError {
	ji, g, at, err := c.findTask(e)
	if err != nil {
		return err
	}
	c.advance(nowUs)
	j := &c.jobs[ji]
	if j.sync != hare.Relaxed {
		// A training step of which one worker died is lost as a whole. The GPUs are
		// still in service, so the round starts again on them.
		c.withdrawGang(j, g)
		c.creditGang(ji)
		c.openRound(ji, j.round)
		c.restarting = ji
		return nil
	}
	if g == none {
		j.syncing = slices.Delete(j.syncing, at, at+1)
	} else {
		c.credit(ji, c.gpus[g].kind, nowUs-c.gpus[g].sinceUs, j.taskGPUs)
		c.releaseTask(g)
	}
	c.requeue(ji, e.Task)
	return nil
}

// requeue makes a started relaxed task, which was lost, ready again.
func (c *core) requeue(ji int32, task int64) {
	j := &c.jobs[ji]
	at, _ := slices.BinarySearch(j.redo, task)
	j.redo = slices.Insert(j.redo, at, task)
	if j.active--; j.active == 0 {
		c.wait(ji)
	}
	c.enter(ji)
}

func (c *core) jobEnded(nowUs int64, e *hare.Event) *hare.InvalidError {
	ji, err := c.findJob(e.Job)
	if err != nil {
		return err
	}
	c.advance(nowUs)
	j := &c.jobs[ji]
	if j.sync != hare.Relaxed {
		c.withdrawGang(j, none)
	} else {
		c.withdrawRelaxed(j)
	}
	c.releaseAll(j)
	c.ungather(j)
	c.leave(ji)
	if at := c.dueAt[ji]; at >= 0 {
		c.due.remove(int(at), c.dueAt)
	}
	c.leaveClass(ji)
	c.dropRules(ji)
	delete(c.jobOf, j.id)
	j.id, j.alive = "", false
	c.vacantJobs = append(c.vacantJobs, ji)
	return nil
}

// withdrawRelaxed withdraws the tasks of a relaxed job that run or synchronise, in
// the order of the tasks.
func (c *core) withdrawRelaxed(j *job) {
	c.scratch = c.scratch[:0]
	for g := j.head; g != none; g = c.gpus[g].next {
		if !c.gpus[g].follows {
			c.scratch = append(c.scratch, g)
		}
	}
	slices.SortFunc(c.scratch, func(a, b int32) int { return compare(c.gpus[a].task, c.gpus[b].task) })
	s := j.syncing
	for _, g := range c.scratch {
		x := &c.gpus[g]
		for ; len(s) > 0 && s[0].task < x.task; s = s[1:] {
			c.withdrawSyncing(j, &s[0])
		}
		c.emit(hare.DecisionWithdraw, j, x.task, x.name, c.othersOf(g))
	}
	for i := range s {
		c.withdrawSyncing(j, &s[i])
	}
}

func (c *core) withdrawSyncing(j *job, s *syncing) {
	gpu, others := s.names()
	c.emit(hare.DecisionWithdraw, j, s.task, gpu, others)
}

func (c *core) gpuJoined(nowUs int64, e *hare.Event) *hare.InvalidError {
	_, twice := c.gpuOf[e.GPU]
	if err := CheckGPUJoined(e, twice, len(c.gpuOf)); err != nil {
		return err
	}
	if !c.roomForType(e.GPUType) {
		return tooManyTypes("/gpu_type")
	}
	if err := c.described.CheckLabels(e.GPU, e.Node()); err != nil {
		return err
	}
	if e.Node() != nil {
		if err := c.described.Describe(e.Node(), func() bool { return c.nodeInService(e.Node().Name) }); err != nil {
			return err
		}
	}
	c.advance(nowUs)
	k := c.kind(e.GPUType)
	c.join(e.GPU, k)
	c.refitAll(k)
	return nil
}

// gpuLeft takes a GPU out of service. Where a relaxed task ran on the GPU, only that
// task is lost. A gang loses its round: its other tasks are withdrawn, its other
// GPUs are freed, and the gang enters the ready queue for the same round. A rigid
// job does the same and may go on on other GPUs, because it could not go on at all
// otherwise.
func (c *core) gpuLeft(nowUs int64, e *hare.Event) *hare.InvalidError {
	g, ok := c.gpuOf[e.GPU]
	if !ok {
		return UnknownGPU(e.GPU)
	}
	c.advance(nowUs)
	if ji := c.gpus[g].job; ji != none {
		j := &c.jobs[ji]
		if j.sync == hare.Relaxed {
			lead := c.leadOf(g)
			x := &c.gpus[lead]
			c.emit(hare.DecisionWithdraw, j, x.task, x.name, c.othersOf(lead))
			c.credit(ji, x.kind, nowUs-x.sinceUs, j.taskGPUs)
			task := x.task
			c.releaseTask(lead)
			c.requeue(ji, task)
		} else {
			c.withdrawGang(j, none)
			c.creditGang(ji)
			c.releaseAll(j)
			c.openRound(ji, j.round)
			j.active = 0
			c.wait(ji)
			c.enter(ji)
		}
	}
	c.takeGPU(g)
	k := c.gpus[g].kind
	c.types[k].total--
	delete(c.gpuOf, e.GPU)
	if c.nodes != nil {
		c.claim = nodeClaim{job: none}
		c.nodes.Leave(int(g))
	}
	c.gpus[g] = gpu{job: none, prev: none, next: none}
	c.vacantGPUs.add(g)
	c.refitAll(k)
	if ji := c.types[k].owner; ji != none {
		// The type is no longer gathered for a gang that has become wider than what
		// is in service.
		if j := &c.jobs[ji]; c.inService(j.owns) < j.tasks {
			c.ungather(j)
			c.enter(ji)
		}
	}
	return nil
}

// step is Policy.Step: it applies the events one by one and decides after each.
func (c *core) step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	c.out = c.out[:0]
	for i := range events {
		c.dirty = events[i].Type != hare.EventTaskEnded
		if err := c.apply(nowUs, &events[i]); err != nil {
			return c.out, &RefusedError{Index: i, Err: err}
		}
		if c.restarting != none {
			c.restart(c.restarting)
		}
		if c.dirty {
			c.schedule()
		}
		if c.holding || len(c.quotas) > 0 {
			c.holdBack()
		}
	}
	return c.out, nil
}

func (c *core) findJob(id string) (int32, *hare.InvalidError) {
	// Events of a job often follow each other.
	if ji := c.lastFound.job; int(ji) < len(c.jobs) && c.jobs[ji].alive && c.jobs[ji].id == id {
		return ji, nil
	}
	if ji, ok := c.jobOf[id]; ok {
		c.lastFound.job = ji
		return ji, nil
	}
	return none, UnknownJob(id)
}

// findTask finds the running task that an event names: g is the GPU that runs the
// task; for a relaxed task that has left its GPU, g is none and at is the index of
// the task in job.syncing.
func (c *core) findTask(e *hare.Event) (ji, g int32, at int, err *hare.InvalidError) {
	ji, err = c.findJob(e.Job)
	if err != nil {
		return
	}
	j := &c.jobs[ji]
	if e.Round != j.round {
		err = WrongRound(e, j.round)
		return
	}
	if g = c.findHeld(j, ji, e); g != none {
		return
	}
	at, ok := slices.BinarySearchFunc(j.syncing, e.Task, func(s syncing, t int64) int { return compare(s.task, t) })
	if !ok || !j.syncing[at].on(e.GPU) {
		err = NotRunning(e)
	}
	return
}

// findHeld is the GPU that runs the task of an event, or none. Tasks mostly end in
// the order of their starts, so the GPU that follows the last one found, and the
// first GPU of the job, are tried before the GPU is looked up by its name.
func (c *core) findHeld(j *job, ji int32, e *hare.Event) int32 {
	for _, g := range [...]int32{c.lastFound.next, j.head} {
		if g >= 0 && int(g) < len(c.gpus) && c.gpus[g].job == ji && c.gpus[g].task == e.Task && !c.gpus[g].ended &&
			c.gpus[g].name == e.GPU {
			c.lastFound.next = c.gpus[g].next
			return g
		}
	}
	g, ok := c.gpuOf[e.GPU]
	if !ok || c.gpus[g].job != ji || c.gpus[g].task != e.Task || c.gpus[g].ended {
		return none
	}
	c.lastFound.next = c.gpus[g].next
	return g
}
