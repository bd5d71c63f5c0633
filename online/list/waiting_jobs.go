package list

import (
	"github.com/hare-sched/hare"
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

// updateWaiting brings the groups up to date. It takes O(log jobs) for each job touched
// since the last call, and O(jobs) where the priorities or the GPUs in service have changed.
func (l *Scheduler) updateWaiting() {
	w := &l.waiting
	if v := l.rule.Version(); w.stale || w.of == nil || w.version != v {
		*w = waitingJobs{of: map[groupKey]*waitingGroup{}, version: v}
		for _, j := range l.jobs {
			j.group, j.touched = nil, false
			if j.Ready() > 0 {
				l.wait(j)
			}
		}
		return
	}
	for _, j := range w.touched {
		j.touched = false
		if j.group != nil {
			j.group.remove(j)
		}
		if j.Ready() > 0 && l.jobOf[j.spec.ID] == j {
			l.wait(j)
		}
	}
	clear(w.touched)
	w.touched = w.touched[:0]
}

// wait adds a job to its group.
func (l *Scheduler) wait(j *JobState) {
	j.priority = l.rule.Priority(l, j)
	w, key := &l.waiting, l.groupKey(j)
	g := w.of[key]
	if g == nil {
		g = &waitingGroup{key: key}
		w.of[key] = g
		w.groups = append(w.groups, g)
	}
	g.push(j)
}

// groupKey is what the next start of a job needs.
func (l *Scheduler) groupKey(j *JobState) groupKey {
	hold, mix := j.hold, false
	if j.next == 0 && len(j.redo) == 0 {
		hold, mix = l.Holding(j)
	} else if hold != hare.Relaxed {
		_, mix = l.Holding(j)
	}
	key := groupKey{tasks: j.spec.Tasks, mix: mix && hold != hare.Relaxed}
	if l.nodes != nil {
		key.shape = j.shape
	}
	if hold == hare.Relaxed {
		key.tasks = 1
	}
	slowest := l.slowestUs(j)
	for _, m := range j.modes {
		bit := uint64(1) << m.Type
		if m.DurationUs <= slowest && (j.OnlyType < 0 || j.OnlyType == m.Type) {
			key.types |= bit
		}
		if key.mix {
			key.all |= bit
		}
	}
	return key
}

// fits reports whether GPUs are free for a start of the jobs of a group.
func (wg *waitingGroup) fits(l *Scheduler) bool {
	sum := int64(0)
	for t := range l.free {
		n := int64(len(l.free[t]))
		if l.nodes != nil && n > 0 && (wg.key.types|wg.key.all)>>t&1 == 1 {
			n = l.nodes.Room(wg.key.shape, t, wg.key.tasks, nil)
		}
		if n >= wg.key.tasks && wg.key.types>>t&1 == 1 {
			return true
		}
		if wg.key.all>>t&1 == 1 {
			sum += n
		}
	}
	return wg.key.mix && sum >= wg.key.tasks
}

// scheduleWaiting is schedule for a rule with a version: it starts the same jobs.
func (l *Scheduler) scheduleWaiting() {
	if !l.AnyFree() {
		return
	}
	l.reserved, l.onNodes = reservation{}, nil
	l.updateWaiting()
	for l.AnyFree() {
		var first *waitingGroup
		for _, g := range l.waiting.groups {
			if len(g.jobs) > 0 && (first == nil || g.jobs[0].before(first.jobs[0])) && g.fits(l) {
				first = g
			}
		}
		if first == nil {
			return
		}
		j := first.jobs[0]
		first.remove(j)
		l.touch(j)
		for j.Ready() > 0 && l.TryStart(j) {
		}
	}
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
