package search

import (
	"math"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
)

// The tree of an exactProblem goes forward in time. At a node, tasks of a job start on GPUs of a type, or time goes on
// to the next end of tasks or release. What is left of a node costs no less than the jobs alone at prices, less what
// the GPUs could still earn.
//
// Of the schedules of least value, one with the least sum of starts is in the tree. No task of it could start earlier
// by itself. So tasks start when their job is released or a round of it ends, or when GPUs of their type were not idle
// just before: a task that could have started before, on a GPU that was idle, may change GPUs with what runs there
// next. For a gang, as many GPUs must have been idle as it has tasks.

// exactState is a node.
type exactState struct {
	now  int32
	idle [exactTypes]int8     // the GPUs that were free just before now, by type
	busy [exactGPUs]int32     // until when, rising within a type
	jobs [exactJobs]exactRuns // what is left of the jobs
	cost [exactJobs]float64   // the least cost of what is left, by job
	done int64                // Σ w C of the jobs that have ended
	free float64              // what GPUs could earn from now on
}

// exactRuns is what is left of a job.
type exactRuns struct {
	rounds, tasks int16 // rounds left, and tasks left in the first of them
	ready, end    int32 // when that round may start, and the latest end of its tasks so far
}

// exactStart says that tasks start.
type exactStart struct {
	at, job, kind, tasks, round int32
}

// exactChild is a way to go on: tasks tasks of a job start on a type, or, without tasks, time goes on.
type exactChild struct {
	bound            float64
	job, kind, tasks int32
}

// exactTree searches for the best schedule.
type exactTree struct {
	*exactProblem
	over     func() bool
	stop     bool
	nodes    int64
	best     int64 // the value to beat
	children [][]exactChild
	states   []exactState
	path     []exactStart
	plan     []exactStart // of the best schedule found; nil without one
	known    map[[2]uint64]int64
	improved func()
}

// exactKnown is the most nodes that are kept to recognise them.
const exactKnown = 1 << 20

// search goes through all schedules of less than best, unless over stops it. It reports whether it has seen all.
func (et *exactTree) search() (all bool) {
	et.known = map[[2]uint64]int64{}
	s := et.state(0)
	*s = exactState{}
	for i := range et.jobs {
		j := &et.jobs[i]
		s.jobs[i] = exactRuns{rounds: int16(j.rounds), tasks: int16(j.tasks), ready: int32(j.release)}
	}
	et.reprice(s)
	et.visit(0, -1)
	return !et.stop
}

// state returns the node at a depth.
func (et *exactTree) state(depth int) *exactState {
	for len(et.states) <= depth {
		et.states = append(et.states, exactState{})
		et.children = append(et.children, nil)
	}
	return &et.states[depth]
}

// left returns the least cost of what is left of job i.
func (et *exactTree) left(s *exactState, i int) float64 {
	j, x := &et.jobs[i], &s.jobs[i]
	if x.rounds == 0 {
		return 0
	}
	rounds, now := int(x.rounds), int(s.now)/et.cell
	if int(x.tasks) == j.tasks {
		return et.from(j, rounds, int(max(x.ready, s.now))/et.cell)
	}
	d := max(0, int(x.end)/et.cell-now)
	if now >= et.cells {
		return et.after(j, rounds-1, max(now+d, now+j.least))
	}
	return j.part[rounds*j.tasks+int(x.tasks)][now*(j.reach+1)+min(d, j.reach)]
}

// earns returns what a GPU of type k could earn from a time on.
func (et *exactTree) earns(k int, from int32) float64 {
	c := int(from) / et.cell
	if c >= et.cells {
		return 0
	}
	into := float64(int(from)%et.cell) / float64(et.cell)
	return et.paid[k][et.cells] - et.paid[k][c] - into*et.price[k][c]
}

// reprice computes the costs of a node anew.
func (et *exactTree) reprice(s *exactState) {
	for i := range et.jobs {
		s.cost[i] = et.left(s, i)
	}
	s.free = 0
	for k := range et.gpus {
		for _, b := range s.busy[et.first[k]:et.first[k+1]] {
			s.free += et.earns(k, max(b, s.now))
		}
	}
}

// bound returns the least value of the schedules of a node.
func (et *exactTree) bound(s *exactState) float64 {
	v := float64(s.done) - s.free
	for i := range et.jobs {
		v += s.cost[i]
	}
	return v
}

// start lets tasks of job i start on type k.
func (et *exactTree) start(s *exactState, i, k, tasks int) {
	j, x := &et.jobs[i], &s.jobs[i]
	until := s.now + int32(j.compute[k])
	gpus := s.busy[et.first[k]:et.first[k+1]]
	copy(gpus, gpus[tasks:]) // those that are free come first
	at := len(gpus) - tasks
	for at > 0 && gpus[at-1] > until {
		gpus[at-1+tasks] = gpus[at-1]
		at--
	}
	for g := range tasks {
		gpus[at+g] = until
	}
	s.free += float64(tasks) * (et.earns(k, until) - et.earns(k, s.now))
	x.tasks -= int16(tasks)
	x.end = max(x.end, until+int32(j.sync[k]))
	if x.tasks == 0 {
		x.rounds--
		*x = exactRuns{rounds: x.rounds, tasks: int16(j.tasks), ready: x.end}
		if x.rounds == 0 {
			s.done += int64(j.w) * int64(x.ready)
			*x = exactRuns{}
		}
	}
	s.cost[i] = et.left(s, i)
}

// wait lets time go on; it returns false where nothing happens any more.
func (et *exactTree) wait(s *exactState) bool {
	next := int32(math.MaxInt32)
	for _, b := range s.busy[:et.first[len(et.gpus)]] {
		if b > s.now {
			next = min(next, b)
		}
	}
	for i := range et.jobs {
		if x := &s.jobs[i]; x.rounds > 0 && x.ready > s.now {
			next = min(next, x.ready)
		}
	}
	if next == math.MaxInt32 {
		return false
	}
	s.now = next
	for k := range et.gpus {
		s.idle[k] = 0
		for _, b := range s.busy[et.first[k]:et.first[k+1]] {
			if b < next {
				s.idle[k]++
			}
		}
	}
	et.reprice(s)
	return true
}

// visit searches the node at a depth; starts on types up to the pair last have been chosen at this time.
func (et *exactTree) visit(depth, last int) {
	if et.nodes++; et.nodes%256 == 0 && et.over() {
		et.stop = true
	}
	if et.stop {
		return
	}
	next := et.state(depth + 1)
	s := &et.states[depth]
	open := false
	children := et.children[depth][:0]
	for i := range et.jobs {
		j, x := &et.jobs[i], s.jobs[i]
		if x.rounds == 0 {
			continue
		}
		open = true
		if x.ready > s.now {
			continue
		}
		for k := range et.gpus {
			if i*len(et.gpus)+k <= last || j.compute[k] == 0 {
				continue
			}
			least := 1
			if j.gang {
				least = j.tasks
			}
			if x.ready < s.now && int(s.idle[k]) >= least {
				continue // it could have started before
			}
			free := 0
			for _, b := range s.busy[et.first[k]:et.first[k+1]] {
				if b > s.now {
					break
				}
				free++
			}
			for n := min(free, int(x.tasks)); n >= least; n-- {
				*next = *s
				et.start(next, i, k, n)
				if b := et.bound(next); et.promising(b) {
					children = append(children, exactChild{b, int32(i), int32(k), int32(n)})
				}
			}
		}
	}
	if !open && s.done >= et.best {
		return
	}
	if !open {
		et.best, et.plan = s.done, append(et.plan[:0], et.path...)
		et.improved()
		return
	}
	*next = *s
	if et.wait(next) {
		if b := et.bound(next); et.promising(b) && !et.seen(next) {
			children = append(children, exactChild{bound: b})
		}
	}
	slices.SortStableFunc(children, func(a, b exactChild) int {
		switch {
		case a.bound < b.bound:
			return -1
		case a.bound > b.bound:
			return 1
		}
		return int(b.tasks - a.tasks)
	})
	et.children[depth] = children
	for x := range children {
		c := et.children[depth][x]
		if et.stop || !et.promising(c.bound) {
			return
		}
		s, next := &et.states[depth], &et.states[depth+1]
		*next = *s
		if c.tasks == 0 {
			et.wait(next)
			et.visit(depth+1, -1)
			continue
		}
		et.start(next, int(c.job), int(c.kind), int(c.tasks))
		et.path = append(et.path, exactStart{s.now, c.job, c.kind, c.tasks,
			int32(et.jobs[c.job].rounds) - int32(s.jobs[c.job].rounds)})
		et.visit(depth+1, int(c.job)*len(et.gpus)+int(c.kind))
		et.path = et.path[:len(et.path)-1]
	}
}

// promising reports whether there may be a better schedule: values are whole.
func (et *exactTree) promising(bound float64) bool { return bound < float64(et.best)-0.5 }

// seen reports whether a node was visited that has all of this one at the same or a lower cost, and keeps the node.
func (et *exactTree) seen(s *exactState) bool {
	h := [2]uint64{uint64(s.now), 1}
	add := func(x uint64) {
		hi, lo := bits.Mul64(h[0]^x, 0x9e3779b97f4a7c15)
		h[0] = hi ^ lo + h[1]
		hi, lo = bits.Mul64(h[1]^x, 0xd6e8feb86659fd93)
		h[1] = hi ^ lo + h[0]
	}
	for k := range et.gpus {
		add(uint64(s.idle[k]))
		for _, b := range s.busy[et.first[k]:et.first[k+1]] {
			add(uint64(max(b, s.now)))
		}
	}
	for i := range et.jobs {
		x := &s.jobs[i]
		ready, end := max(x.ready, s.now-1), max(x.end, s.now)
		if x.rounds == 0 {
			ready = 0
		}
		add(uint64(x.rounds)<<32 | uint64(x.tasks))
		add(uint64(ready)<<32 | uint64(end))
	}
	if done, ok := et.known[h]; ok && done <= s.done {
		return true
	}
	if len(et.known) >= exactKnown {
		clear(et.known)
	}
	et.known[h] = s.done
	return false
}

// planOf gives the starts of a schedule GPUs.
func (ep *exactProblem) planOf(starts []exactStart) *place.Plan {
	m := ep.m
	sched := &hare.Schedule{}
	for i := range m.Instance.Jobs {
		sched.Jobs = append(sched.Jobs, m.Instance.Jobs[i].ID)
	}
	for g := range m.GPUs {
		sched.Lanes = append(sched.Lanes, hare.Lane{GPU: m.GPUs[g].ID})
	}
	free := make([]int32, len(m.GPUs))
	for _, x := range starts {
		j, mj := &ep.jobs[x.job], &m.Jobs[x.job]
		rounds, period := int64(1), int64(j.compute[x.kind])*ep.unit
		if mj.Sync == hare.Rigid {
			rounds, period = mj.Rounds, period/mj.Rounds
		}
		left := x.tasks
		for g := range m.GPUs {
			if left == 0 || m.GPUs[g].Type != int(x.kind) || free[g] > x.at {
				continue
			}
			l := &sched.Lanes[g]
			l.Job, l.Round, l.Rounds = append(l.Job, x.job), append(l.Round, int64(x.round)), append(l.Rounds, rounds)
			l.Tasks, l.PeriodUs = append(l.Tasks, 1), append(l.PeriodUs, period)
			l.StartUs = append(l.StartUs, int64(x.at)*ep.unit)
			free[g] = x.at + int32(j.compute[x.kind])
			left--
		}
	}
	return place.FromSchedule(m, sched)
}
