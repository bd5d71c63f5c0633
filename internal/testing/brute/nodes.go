package brute

import (
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// places is the search for an optimal schedule by the rules of docs/reference/model.md. Its units are those of search:
// a task (relaxed), a round (gang) or the rest of a job (rigid), placed in order of start, each at the earliest time
// at which its GPUs are free, its nodes have CPUs and memory, and the quotas of its job suffice. A job is placed after
// the jobs for which it waits. GPUs of one node and type that are free by then are interchangeable, so a unit takes
// those that were free first. Where GPUs need setups, all GPUs are tried.
type places struct {
	inst   *hare.Instance
	groups []gpuGroup
	on     [][]map[int]hare.Profile // by job, shape and group, where the job may run
	open   [][][]hare.Window        // by job and group: service less reservations against the job
	before [][]wait                 // by job
	fast   []int64                  // by job: the least d, or the least d/u rounded down
	setups bool                     // some GPU needs a setup for some job
	held   []holding                // what the units that are placed hold
	path   []placed
	best   int64
	plan   []placed
	found  bool
	steps  int
	limit  int
	first  bool // the first schedule suffices

	reading Reading
}

// gpuGroup are the GPUs of one type of a node.
type gpuGroup struct {
	node  int
	kind  string
	names []string // of the GPUs
	free  []int64
	last  []int // the job that a GPU ran last; −1 for none
	open  []hare.Window
}

// wait says that a job starts no earlier than lag after the end of another job.
type wait struct {
	job int
	lag int64
}

// holding is what a unit holds on a node until a time.
type holding struct {
	node         int
	until        int64
	cpus, memory int64
	job          int
	kind         string
	gpus         int64
}

// placed is an entry of a schedule.
type placed struct {
	gpu    string
	job    int
	shape  int
	round  int64
	rounds int64
	period int64
	start  int64
}

// OptimumOnNodes is Optimum by the rules of docs/reference/model.md. It also returns an optimal schedule, nil without
// one. Jobs that end with the work that runs at time 0 have no part in value (see Fixed). For the objective makespan,
// value is 1e12 times the greatest completion in seconds.
func OptimumOnNodes(inst *hare.Instance, limit int) (value int64, plan *hare.Schedule, done bool) {
	return Reading{}.Optimum(inst, limit)
}

// Optimum is OptimumOnNodes as one reading of docs/reference/model.md has it.
func (r Reading) Optimum(inst *hare.Instance, limit int) (value int64, plan *hare.Schedule, done bool) {
	return r.search(inst, limit, false)
}

// search is Optimum, which ends with the first schedule that is found if first is set.
func (r Reading) search(inst *hare.Instance, limit int, first bool) (value int64, plan *hare.Schedule, done bool) {
	s := &places{inst: inst, best: math.MaxInt64, limit: limit, reading: r, first: first}
	for n := range inst.Cluster.Nodes {
		node := &inst.Cluster.Nodes[n]
		number := 0
		for _, g := range node.GPUs {
			group := gpuGroup{node: n, kind: g.Type, open: node.Windows}
			if group.open == nil {
				group.open = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
			}
			for range g.Count {
				name := node.Name + "/" + strconv.Itoa(number)
				until, job := runsUntil(inst, name)
				for _, b := range node.Busy {
					if b.GPU == number {
						until = b.UntilUs
					}
				}
				group.free, group.last = append(group.free, until), append(group.last, job)
				group.names = append(group.names, name)
				number++
			}
			s.groups = append(s.groups, group)
		}
	}
	n := len(inst.Jobs)
	st := state{round: make([]int64, n), left: make([]int64, n), ready: make([]int64, n), end: make([]int64, n),
		shape: make([]int, n)}
	for j := range inst.Jobs {
		job := &inst.Jobs[j]
		st.ready[j], st.shape[j] = job.ReleaseUs, -1
		s.before = append(s.before, nil)
		for i := range inst.Jobs {
			for _, p := range job.After {
				if p.Job == inst.Jobs[i].ID {
					s.before[j] = append(s.before[j], wait{i, p.LagUs})
				}
			}
		}
		open := make([][]hare.Window, len(s.groups))
		for g := range s.groups {
			open[g] = unreserved(inst, job, &inst.Cluster.Nodes[s.groups[g].node], s.groups[g].open)
		}
		s.open = append(s.open, open)
		end, rounds := running(inst, job)
		if st.round[j] = rounds; end > 0 {
			st.ready[j], st.end[j], st.shape[j] = end, end, job.Progress.Shape
			s.holdRunning(j, end)
		}
		if rounds == job.Rounds {
			s.on, s.fast = append(s.on, nil), append(s.fast, 0)
			if inst.Objective == hare.ObjectiveMakespan {
				value = s.with(value, j, end)
			}
			continue
		}
		var on []map[int]hare.Profile
		fast, some := int64(math.MaxInt64), false
		for i := range job.ShapeCount() {
			shape := job.Shape(i)
			on = append(on, map[int]hare.Profile{})
			for g := range s.groups {
				for _, p := range shape.On {
					if p.Type == s.groups[g].kind && job.AllowsNode(&inst.Cluster.Nodes[s.groups[g].node]) {
						on[i][g], fast, some = p, min(fast, (p.ComputeUs+SyncUs(inst, p, "node"))/shape.Counts), true
						s.setups = s.setups || p.SwitchUs > 0
					}
				}
			}
		}
		if !some {
			return 0, nil, true
		}
		s.on, s.fast = append(s.on, on), append(s.fast, fast)
	}
	s.try(&st, value, 0)
	if !s.found {
		return 0, nil, s.steps < limit
	}
	return s.best, s.schedule(), s.steps < limit
}

// with returns the objective of finished jobs of the given value and of one more job, which ends
// at end.
func (s *places) with(value int64, j int, end int64) int64 {
	job := &s.inst.Jobs[j]
	late := int64(0)
	if job.DeadlineUs > 0 {
		late = max(0, end-job.DeadlineUs)
	}
	switch s.inst.Objective {
	case hare.ObjectiveMakespan:
		return max(value, end*1_000_000)
	case hare.ObjectiveJCTAndTardiness:
		return value + job.WeightMicro*(end-job.ReleaseUs) + job.LateWeightMicro*late
	}
	return value + job.WeightMicro*(end-job.ReleaseUs)
}

// readyAt returns the earliest start of the round of a job, or false while a job for which it
// waits has not ended.
func (s *places) readyAt(st *state, j int) (int64, bool) {
	opens, ok := s.opensAt(st, j)
	return max(opens, st.ready[j]), ok
}

// opensAt returns the earliest time of a setup of a job, or false while a job for which it waits
// has not ended.
func (s *places) opensAt(st *state, j int) (int64, bool) {
	at := s.inst.Jobs[j].ReleaseUs
	for _, b := range s.before[j] {
		if s.reading.AfterStarts {
			first := slices.IndexFunc(s.path, func(x placed) bool { return x.job == b.job })
			if first < 0 {
				return at, false
			}
			at = max(at, s.path[first].start+b.lag)
			continue
		}
		if st.round[b.job] < s.inst.Jobs[b.job].Rounds {
			return at, false
		}
		at = max(at, st.end[b.job]+b.lag)
	}
	return at, true
}

// schedule returns the best schedule that was found.
func (s *places) schedule() *hare.Schedule {
	out := &hare.Schedule{}
	for i := range s.inst.Jobs {
		out.Jobs = append(out.Jobs, s.inst.Jobs[i].ID)
	}
	for _, p := range s.plan {
		at := slices.IndexFunc(out.Lanes, func(l hare.Lane) bool { return l.GPU == p.gpu })
		if at < 0 {
			at = len(out.Lanes)
			out.Lanes = append(out.Lanes, hare.Lane{GPU: p.gpu})
		}
		l := &out.Lanes[at]
		l.Job = append(l.Job, int32(p.job))
		l.Round, l.Rounds = append(l.Round, p.round), append(l.Rounds, p.rounds)
		l.Tasks, l.PeriodUs = append(l.Tasks, 1), append(l.PeriodUs, p.period)
		l.StartUs = append(l.StartUs, p.start)
		l.Shape = append(l.Shape, int64(p.shape))
	}
	return out
}

// try extends st, whose finished jobs cost value so far. No unit starts before last.
func (s *places) try(st *state, value, last int64) {
	if s.steps++; s.steps >= s.limit || s.first && s.found {
		return
	}
	bound, finished := value, true
	for j := range s.inst.Jobs {
		job := &s.inst.Jobs[j]
		if st.round[j] == job.Rounds {
			continue
		}
		finished = false
		ready, _ := s.readyAt(st, j)
		first := int64(1) // the units of the next round, or of that which has begun
		if st.left[j] > 0 {
			first = min(job.Rounds-st.round[j], job.Shape(st.shape[j]).Counts)
		}
		bound = s.with(bound, j, max(st.end[j], ready+s.fast[j])+(job.Rounds-st.round[j]-first)*s.fast[j])
	}
	if finished {
		if value < s.best {
			s.best, s.found, s.plan = value, true, slices.Clone(s.path)
		}
		return
	}
	if bound >= s.best {
		return
	}
	for j := range s.inst.Jobs {
		job := &s.inst.Jobs[j]
		_, ready := s.readyAt(st, j)
		if st.round[j] == job.Rounds || !ready {
			continue
		}
		if st.left[j] > 0 { // a round of a relaxed job has begun
			s.begin(st, value, last, j)
			continue
		}
		before, at := st.shape[j], st.ready[j]
		for i := range job.ShapeCount() {
			if before >= 0 && before != i {
				if !job.Reshape {
					continue
				}
				st.ready[j] = at + job.ReshapeUs
			}
			shape := job.Shape(i)
			st.shape[j], st.left[j] = i, shape.Tasks
			s.begin(st, value, last, j)
			st.shape[j], st.left[j], st.ready[j] = before, 0, at
		}
	}
}

// begin tries all places for the next unit of a job in its shape.
func (s *places) begin(st *state, value, last int64, j int) {
	counts := make([]int64, len(s.groups))
	if s.inst.Jobs[j].Sync != hare.Relaxed {
		s.spread(st, value, last, j, counts, 0, st.left[j])
		return
	}
	for g := range s.groups {
		counts[g] = 1
		s.place(st, value, last, j, counts)
		counts[g] = 0
	}
}

// spread tries all numbers of tasks by group that add up to left from group g on.
func (s *places) spread(st *state, value, last int64, j int, counts []int64, g int, left int64) {
	job := &s.inst.Jobs[j]
	if left == 0 {
		s.place(st, value, last, j, counts)
		return
	}
	if g == len(s.groups) {
		return
	}
	shape := job.Shape(st.shape[j])
	most := min(left, int64(len(s.groups[g].free))/shape.TaskGPUs())
	if _, ok := s.on[j][st.shape[j]][g]; !ok {
		most = 0
	}
	for h := range g {
		if counts[h] > 0 && (!job.Mix && s.groups[h].kind != s.groups[g].kind ||
			job.DistinctNodes && s.groups[h].node == s.groups[g].node) {
			most = 0
		}
	}
	if job.DistinctNodes {
		most = min(most, 1)
	}
	for n := int64(0); n <= most; n++ {
		counts[g] = n
		s.spread(st, value, last, j, counts, g+1, left-n)
	}
	counts[g] = 0
}

// place puts a unit of job j with so many tasks by group at its earliest start, and goes on
// from there. Where GPUs need setups, place tries all GPUs of the groups.
func (s *places) place(st *state, value, last int64, j int, counts []int64) {
	shape := s.inst.Jobs[j].Shape(st.shape[j])
	for g, n := range counts {
		if _, ok := s.on[j][st.shape[j]][g]; n > 0 && !ok || int64(len(s.groups[g].free)) < n*shape.TaskGPUs() {
			return
		}
	}
	s.choose(st, value, last, j, counts, make([][]int, len(s.groups)), 0)
}

// choose chooses the GPUs of the groups from g on, and places the unit on them.
func (s *places) choose(st *state, value, last int64, j int, counts []int64, chosen [][]int, g int) {
	for g < len(counts) && counts[g] == 0 {
		g++
	}
	if g == len(counts) {
		s.put(st, value, last, j, counts, chosen)
		return
	}
	group := &s.groups[g]
	shape := s.inst.Jobs[j].Shape(st.shape[j])
	order := make([]int, len(group.free))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(group.free[a] - group.free[b]) })
	need := int(counts[g] * shape.TaskGPUs())
	if !s.setups {
		chosen[g] = order[:need]
		s.choose(st, value, last, j, counts, chosen, g+1)
		return
	}
	alike := func(a, b int) bool { return group.free[a] == group.free[b] && group.last[a] == group.last[b] }
	var pick func(from int, picked []int)
	pick = func(from int, picked []int) {
		if len(picked) == need {
			chosen[g] = slices.Clone(picked)
			s.choose(st, value, last, j, counts, chosen, g+1)
			return
		}
		for i := from; i < len(order); i++ {
			if !slices.ContainsFunc(order[from:i], func(x int) bool { return alike(x, order[i]) }) {
				pick(i+1, append(picked, order[i]))
			}
		}
	}
	pick(0, nil)
}

// put places a unit of job j on GPUs at its earliest start, and goes on from there.
func (s *places) put(st *state, value, last int64, j int, counts []int64, chosen [][]int) {
	job := &s.inst.Jobs[j]
	shape := job.Shape(st.shape[j])
	tasks, on := shape.TaskGPUs(), s.on[j][st.shape[j]]
	hold := int64(0)
	start, _ := s.readyAt(st, j)
	opens, _ := s.opensAt(st, j)
	setups := make([]int64, len(counts)) // the longest of each group
	begun := slices.ContainsFunc(s.path, func(x placed) bool { return x.job == j })
	var nodes []int
	for g, n := range counts {
		if n > 0 {
			nodes = append(nodes, s.groups[g].node)
		}
	}
	spread := s.reading.Spread(s.inst, nodes)
	if !Within(s.inst, job, spread) && !s.reading.WithinOfTasks {
		return
	}
	for g, n := range counts {
		if n == 0 {
			continue
		}
		p, group := on[g], &s.groups[g]
		if job.Sync == hare.Relaxed {
			hold = p.ComputeUs
		} else {
			hold = max(hold, p.ComputeUs+SyncUs(s.inst, p, spread))
		}
		for _, i := range chosen[g] {
			setup := p.SwitchUs
			if group.last[i] == j || s.reading.FirstSetups && begun {
				setup = 0
			}
			setups[g] = max(setups[g], setup)
			start = max(start, group.free[i]+setup, opens+setup)
		}
	}
	d, rounds := hold, int64(1) // of a round
	if job.Sync == hare.Rigid {
		rounds = roundsOf(&shape, job.Rounds-st.round[j])
	}
	hold *= rounds
	start, ok := s.earliest(j, &shape, counts, setups, start, hold)
	if !ok || start < last {
		return
	}
	heldBefore, pathBefore := len(s.held), len(s.path)
	saved, ran := make([][]int64, len(s.groups)), make([][]int, len(s.groups))
	end := start + hold
	for g, n := range counts {
		if n == 0 {
			continue
		}
		group := &s.groups[g]
		saved[g], ran[g] = slices.Clone(group.free), slices.Clone(group.last)
		for _, i := range chosen[g] {
			group.free[i], group.last[i] = start+hold, j
			s.path = append(s.path, placed{group.names[i], j, st.shape[j], st.round[j], rounds, d, start})
		}
		s.held = append(s.held, holding{group.node, start + hold, n * job.CPUMilliPerTask, n * job.MemoryMiBPerTask,
			j, group.kind, n * tasks})
		if job.Sync == hare.Relaxed {
			end += on[g].SyncUs
		}
	}
	old := [4]int64{st.round[j], st.left[j], st.ready[j], st.end[j]}
	v := value
	if job.Sync == hare.Relaxed {
		st.end[j] = max(st.end[j], end)
		st.left[j]--
	} else {
		st.end[j], st.left[j] = end, 0
	}
	if st.left[j] == 0 {
		st.round[j] = min(job.Rounds, st.round[j]+rounds*shape.Counts)
		st.ready[j] = st.end[j]
		if st.round[j] == job.Rounds {
			v = s.with(v, j, st.end[j])
		}
	}
	s.try(st, v, start)
	st.round[j], st.left[j], st.ready[j], st.end[j] = old[0], old[1], old[2], old[3]
	s.held, s.path = s.held[:heldBefore], s.path[:pathBefore]
	for g := range saved {
		if saved[g] != nil {
			s.groups[g].free, s.groups[g].last = saved[g], ran[g]
		}
	}
}
