package list

import (
	"github.com/hare-sched/hare/online/placement"
)

// waitingJobs holds the jobs that wait, for rules whose priorities seldom change: in groups
// of jobs that need the same GPUs, each a heap by priority. A schedule looks at the first
// jobs of groups for which GPUs are free, instead of at all jobs.
type waitingJobs struct {
	groups  []*waitingGroup
	of      map[groupKey]*waitingGroup
	touched []*JobState // jobs whose place may be wrong
	stale   bool        // whether all places may be wrong
	version int64       // of Rule.version when the priorities were set
}

// groupKey says what the next start of a job needs: tasks GPUs of one of the types within
// the rule's limit on slow types, or of all of the job's types together if mix. Sets of
// types have a bit for each type.
type groupKey struct {
	tasks      int64
	types, all uint64
	mix        bool
	shape      placement.Shape // where the scheduler goes by nodes
}

// waitingGroup is a binary heap of jobs. JobState.groupAt is a job's place.
type waitingGroup struct {
	key  groupKey
	jobs []*JobState
}

func (wg *waitingGroup) push(j *JobState) {
	wg.jobs = append(wg.jobs, j)
	j.group = wg
	wg.up(len(wg.jobs) - 1)
}

func (wg *waitingGroup) remove(j *JobState) {
	at, last := j.groupAt, len(wg.jobs)-1
	moved := wg.jobs[last]
	wg.jobs[last] = nil
	wg.jobs = wg.jobs[:last]
	j.group = nil
	if at == last {
		return
	}
	wg.jobs[at] = moved
	wg.down(at)
	wg.up(moved.groupAt)
}

// up moves a job towards the head while it goes before its parent.
func (wg *waitingGroup) up(at int) {
	j := wg.jobs[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !j.before(wg.jobs[parent]) {
			break
		}
		wg.jobs[at] = wg.jobs[parent]
		wg.jobs[at].groupAt = at
		at = parent
	}
	wg.jobs[at], j.groupAt = j, at
}

func (wg *waitingGroup) down(at int) {
	j := wg.jobs[at]
	for {
		next := 2*at + 1
		if next >= len(wg.jobs) {
			break
		}
		if next+1 < len(wg.jobs) && wg.jobs[next+1].before(wg.jobs[next]) {
			next++
		}
		if !wg.jobs[next].before(j) {
			break
		}
		wg.jobs[at] = wg.jobs[next]
		wg.jobs[at].groupAt = at
		at = next
	}
	wg.jobs[at], j.groupAt = j, at
}

// priorityQueue is a binary heap of waiting jobs by priority, then arrival. A
// Scheduler fills the heap again each time and seldom empties it, so that the cost of
// init matters most.
type priorityQueue []*JobState

func (pq priorityQueue) init() {
	for i := len(pq)/2 - 1; i >= 0; i-- {
		pq.down(i)
	}
}

// pop takes the first job off.
func (pq *priorityQueue) pop() *JobState {
	s := *pq
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*pq = s[:last]
	if last > 0 {
		(*pq).down(0)
	}
	return x
}

func (pq priorityQueue) down(i int) {
	x := pq[i]
	for {
		next := 2*i + 1
		if next >= len(pq) {
			break
		}
		if next+1 < len(pq) && pq[next+1].before(pq[next]) {
			next++
		}
		if !pq[next].before(x) {
			break
		}
		pq[i] = pq[next]
		i = next
	}
	pq[i] = x
}

// touch notes that a job may have begun or ceased to wait, or have another priority.
func (l *Scheduler) touch(j *JobState) {
	if l.rule.Touched != nil {
		l.rule.Touched(l, j)
	}
	w := &l.waiting
	if l.rule.Version == nil || w.stale || j.touched {
		return
	}
	j.touched = true
	w.touched = append(w.touched, j)
	if len(w.touched) > 2*len(l.jobs)+64 { // nobody has asked for a long time
		w.stale, w.touched = true, nil
	}
}
