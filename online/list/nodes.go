package list

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// Where some job that is there has rules about nodes (docs/reference/model.md), a Scheduler keeps
// what is free on each node in nodes, and starts every job on nodes with room, by best fit.
// Otherwise nodes is nil, and GPUs of a type are all alike.

// arriveOnNodes counts a job that arrives and is not among the others yet, and begins to go by
// nodes where the job is the first one with rules about them.
func (l *Scheduler) arriveOnNodes(j *JobState) {
	matters := l.placedByNode(j)
	if matters {
		l.placedJobs++
	}
	if l.nodes == nil && !matters {
		return
	}
	if l.nodes == nil {
		l.goByNodes()
	}
	j.shape = l.nodes.Add(j.spec)
}

// placedByNode reports whether a job has rules about nodes, or the rule places it by node.
func (l *Scheduler) placedByNode(j *JobState) bool {
	return placement.Matters(j.spec) || l.rule.Picks != nil
}

// leaveNodes forgets a job that holds nothing.
func (l *Scheduler) leaveNodes(j *JobState) {
	if l.nodes == nil {
		return
	}
	l.nodes.Drop(j.shape)
	if !l.placedByNode(j) {
		return
	}
	if l.placedJobs--; l.placedJobs == 0 && len(l.quotas) == 0 {
		l.nodes = nil
		l.nodesChanged()
	}
}

// nodesChanged forgets what depends on whether the scheduler goes by nodes.
func (l *Scheduler) nodesChanged() {
	l.waiting.stale = true
	l.capacity++
	l.guardResized()
}

// goByNodes fills nodes.
func (l *Scheduler) goByNodes() {
	l.nodesChanged()
	l.nodes = placement.New()
	l.nodes.SetTopology(l.described.Topology())
	l.nodes.SetQuotas(l.quotas, func(t int) string { return l.types[t] })
	for g := range l.gpus {
		if l.gpus[g].InService {
			l.nodes.Join(g, l.gpus[g].Type, l.described.Of(l.gpus[g].Name))
		}
	}
	for _, j := range l.jobs {
		j.shape = l.nodes.Add(j.spec)
		j.togetherAt = 0
		for at, g := range j.gpus {
			l.nodes.Take(g)
			if l.gpus[g].lead = at%j.TaskGPUs() == 0; l.gpus[g].lead {
				l.nodes.Hold(g, j.shape, 1)
			}
		}
	}
}

// TaskGPUs is how many GPUs a task of the job holds.
func (j *JobState) TaskGPUs() int { return int(j.spec.TaskGPUs()) }

// Width is how many GPUs a round of the job takes at once, if it is a gang.
func (j *JobState) Width() int64 { return times(j.spec.Tasks, j.spec.TaskGPUs()) }

// Most is how many tasks of a job GPUs in service of a type have room for at once.
func (l *Scheduler) Most(j *JobState, gpuType int) int64 {
	if l.nodes == nil {
		return int64(l.inService[gpuType])
	}
	return l.nodes.Most(j.shape, gpuType)
}

// mostTogether is how many tasks of a job GPUs in service of all its types have room for at once.
func (l *Scheduler) mostTogether(j *JobState) int64 {
	if len(j.modes) == 1 {
		return l.Most(j, j.modes[0].Type)
	}
	if j.togetherAt != l.capacity+1 {
		var types []int
		for _, m := range j.modes {
			types = append(types, m.Type)
		}
		j.together, j.togetherAt = l.nodes.MostTogether(j.shape, types), l.capacity+1
	}
	return j.together
}

// FitsTogether reports whether nodes have room for all tasks of a round of a job at once.
func (l *Scheduler) FitsTogether(j *JobState) bool {
	hold, _ := l.Holding(j)
	return hold != hare.Relaxed && l.FitsWhenEmpty(j)
}

// RoomNow is how many tasks of a job free GPUs of a type have room for, or limit if there are
// more.
func (l *Scheduler) RoomNow(j *JobState, gpuType int, limit int64) int64 {
	free := int64(len(l.free[gpuType]))
	if l.nodes == nil || free == 0 {
		return free
	}
	return l.nodes.Room(j.shape, gpuType, limit, nil)
}

// Pick chooses GPUs of a type for n tasks of a job: those of its last round where the rule is
// sticky and they are free and enough, or the best fit. It is nil where there is no room.
func (l *Scheduler) Pick(j *JobState, gpuType int, n int64, avoid placement.Avoid) []int {
	if l.rule.Sticky && n == j.spec.Tasks && l.lastIsFree(j, gpuType, avoid) {
		return j.last
	}
	if l.rule.Picks != nil && n == j.spec.Tasks {
		if gpus := l.rule.Picks(l, j, gpuType, avoid); gpus != nil {
			return gpus
		}
	}
	gpus := l.nodes.Pick(nil, j.shape, gpuType, n, avoid)
	if int64(len(gpus)) < n*j.spec.TaskGPUs() {
		return nil
	}
	return gpus
}

// lastIsFree reports whether a job could run its next round where it ran the last one, on GPUs
// of a type.
func (l *Scheduler) lastIsFree(j *JobState, gpuType int, avoid placement.Avoid) bool {
	if int64(len(j.last)) != j.Width() {
		return false
	}
	for _, g := range j.last {
		if l.gpus[g].Type != gpuType || !l.nodes.IsFree(g) || avoid != nil && avoid(l.nodes.Node(g)) {
			return false
		}
	}
	return l.nodes.Check(j.shape, j.last) == ""
}

// StartGPUs starts a job's next tasks on free GPUs, those of each task together.
func (l *Scheduler) StartGPUs(j *JobState, gpus []int) {
	n := j.TaskGPUs()
	for _, g := range slices.Clone(gpus) {
		t := l.gpus[g].Type
		at, _ := slices.BinarySearch(l.free[t], g)
		l.hold(j, t, at)
		if len(j.gpus)%n == 0 {
			l.start(j, j.gpus[len(j.gpus)-n])
		}
	}
}

// startOthers notes on the other GPUs of a task what start notes on its first.
func (l *Scheduler) startOthers(j *JobState, g int) {
	lead := &l.gpus[g]
	for _, h := range l.taskOn(j, g)[1:] {
		x := &l.gpus[h]
		x.SinceUs, x.switched = l.nowUs, false
		if x.user >= 0 && x.user != j.serial {
			lead.switched = true
			l.loseGPU(x.user)
		}
		x.user = j.serial
	}
}

// startLeads starts the round of a job on the GPUs that it holds.
func (l *Scheduler) startLeads(j *JobState) {
	for at := 0; at < len(j.gpus); at += j.TaskGPUs() {
		l.start(j, j.gpus[at])
	}
}

// taskOn are the GPUs of the task of a job that holds a GPU.
func (l *Scheduler) taskOn(j *JobState, g int) []int {
	n := j.TaskGPUs()
	at := slices.Index(j.gpus, g) / n * n
	return j.gpus[at : at+n]
}

// othersOf names the other GPUs of a task of a job that holds a GPU as its first.
func (l *Scheduler) othersOf(j *JobState, g int) hare.OtherGPUs {
	if j.spec.GPUsPerTask < 2 {
		return ""
	}
	var names []string
	for _, h := range l.taskOn(j, g) {
		names = append(names, l.gpus[h].Name)
	}
	return hare.OthersOf(names)
}

// releaseTask releases the GPUs of a task, of which one is given.
func (l *Scheduler) releaseTask(j *JobState, g int) {
	if j.spec.GPUsPerTask < 2 {
		l.release(g)
		return
	}
	for _, h := range slices.Clone(l.taskOn(j, g)) {
		l.release(h)
	}
}

// PickMixed chooses GPUs of several types for n tasks of a job, the first mode first; nil where
// there is no room.
func (l *Scheduler) PickMixed(j *JobState, n int64, avoid placement.Avoid) []int {
	var types []int
	for _, m := range j.modes {
		types = append(types, m.Type)
	}
	return l.nodes.PickMixed(j.shape, types, n, avoid)
}

// joinNode checks what an event says of a node, and keeps it.
func (l *Scheduler) joinNode(n *hare.Node) *hare.InvalidError {
	return l.described.Describe(n, func() bool { return l.nodeInService(n.Name) })
}

// nodeInService reports whether some GPU of a node is in service.
func (l *Scheduler) nodeInService(name string) bool {
	return slices.ContainsFunc(l.gpus, func(x GPU) bool {
		return x.InService && placement.NodeName(x.Name) == name
	})
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
