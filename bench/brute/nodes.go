package brute

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// places is the search for an optimal schedule where nodes matter (docs/nodes.md). Its units
// are those of search: a task (relaxed), a round (gang) or a whole job (rigid), placed in order
// of start, each at the earliest time at which its GPUs are free and its nodes have CPUs and
// memory. GPUs of one node and type that are free by then are interchangeable, so a unit
// takes those that were free first.
type places struct {
	inst   *hare.Instance
	groups []gpuGroup
	on     []map[int]hare.Profile // by job and group, where the job may run
	fast   []int64                // by job: the least d
	held   []holding              // what the units that are placed hold
	path   []placed
	best   int64
	plan   []placed
	found  bool
	steps  int
	limit  int
}

// gpuGroup are the GPUs of one type of a node.
type gpuGroup struct {
	node  int
	kind  string
	first int // the number of the first GPU on the node
	free  []int64
	open  []hare.Window
}

// holding is what a unit holds on a node until a time.
type holding struct {
	node         int
	until        int64
	cpus, memory int64
}

// placed is an entry of a schedule.
type placed struct {
	gpu    string
	job    int
	round  int64
	rounds int64
	period int64
	start  int64
}

// OptimumOnNodes is Optimum by the rules of docs/nodes.md. It also returns an optimal schedule,
// nil without one.
func OptimumOnNodes(inst *hare.Instance, limit int) (value int64, plan *hare.Schedule, done bool) {
	s := &places{inst: inst, best: math.MaxInt64, limit: limit}
	for n := range inst.Cluster.Nodes {
		node := &inst.Cluster.Nodes[n]
		number := 0
		for _, g := range node.GPUs {
			group := gpuGroup{node: n, kind: g.Type, first: number, open: node.Windows}
			if group.open == nil {
				group.open = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
			}
			for range g.Count {
				until := int64(0)
				for _, b := range node.Busy {
					if b.GPU == number {
						until = b.UntilUs
					}
				}
				group.free = append(group.free, until)
				number++
			}
			s.groups = append(s.groups, group)
		}
	}
	n := len(inst.Jobs)
	st := state{round: make([]int64, n), left: make([]int64, n), ready: make([]int64, n), end: make([]int64, n)}
	for j := range inst.Jobs {
		job := &inst.Jobs[j]
		st.left[j], st.ready[j] = job.Tasks, job.ReleaseUs
		on, fast := map[int]hare.Profile{}, int64(math.MaxInt64)
		for g := range s.groups {
			for _, p := range job.On {
				if p.Type == s.groups[g].kind && job.AllowsNode(&inst.Cluster.Nodes[s.groups[g].node]) {
					on[g], fast = p, min(fast, p.DurationUs())
				}
			}
		}
		if len(on) == 0 {
			return 0, nil, true
		}
		s.on, s.fast = append(s.on, on), append(s.fast, fast)
	}
	s.try(&st, 0, 0)
	if !s.found {
		return 0, nil, s.steps < limit
	}
	return s.best, s.schedule(), s.steps < limit
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
	}
	return out
}

// try extends st, whose finished jobs cost value so far. No unit starts before last.
func (s *places) try(st *state, value, last int64) {
	if s.steps++; s.steps >= s.limit {
		return
	}
	bound, finished := value, true
	for j := range s.inst.Jobs {
		job := &s.inst.Jobs[j]
		if st.round[j] == job.Rounds {
			continue
		}
		finished = false
		c := max(st.end[j], st.ready[j]+s.fast[j]) + (job.Rounds-st.round[j]-1)*s.fast[j]
		bound += job.WeightMicro * (c - job.ReleaseUs)
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
		switch {
		case st.round[j] == job.Rounds:
		case job.Sync == hare.Relaxed:
			counts := make([]int64, len(s.groups))
			for g := range s.groups {
				counts[g] = 1
				s.place(st, value, last, j, counts)
				counts[g] = 0
			}
		default:
			s.spread(st, value, last, j, make([]int64, len(s.groups)), 0, job.Tasks)
		}
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
	most := min(left, int64(len(s.groups[g].free))/job.TaskGPUs())
	if _, ok := s.on[j][g]; !ok {
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
// from there.
func (s *places) place(st *state, value, last int64, j int, counts []int64) {
	job := &s.inst.Jobs[j]
	tasks := job.TaskGPUs()
	hold, start := int64(0), st.ready[j]
	chosen := make([][]int, len(s.groups)) // the GPUs of each group
	for g, n := range counts {
		if n == 0 {
			continue
		}
		p, ok := s.on[j][g]
		group := &s.groups[g]
		if !ok || int64(len(group.free)) < n*tasks {
			return
		}
		if job.Sync == hare.Relaxed {
			hold = p.ComputeUs
		} else {
			hold = max(hold, p.DurationUs())
		}
		order := make([]int, len(group.free))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(group.free[a] - group.free[b]) })
		chosen[g] = order[:n*tasks]
		start = max(start, group.free[order[n*tasks-1]])
	}
	d, rounds := hold, int64(1) // of a round
	if job.Sync == hare.Rigid {
		rounds = job.Rounds
	}
	hold *= rounds
	start, ok := s.earliest(job, counts, start, hold)
	if !ok || start < last {
		return
	}
	heldBefore, pathBefore := len(s.held), len(s.path)
	saved := make([][]int64, len(s.groups))
	end := start + hold
	for g, n := range counts {
		if n == 0 {
			continue
		}
		group := &s.groups[g]
		saved[g] = slices.Clone(group.free)
		for _, i := range chosen[g] {
			group.free[i] = start + hold
			gpu := fmt.Sprintf("%s/%d", s.inst.Cluster.Nodes[group.node].Name, group.first+i)
			s.path = append(s.path, placed{gpu, j, st.round[j], rounds, d, start})
		}
		s.held = append(s.held, holding{group.node, start + hold, n * job.CPUMilliPerTask, n * job.MemoryMiBPerTask})
		if job.Sync == hare.Relaxed {
			end += s.on[j][g].SyncUs
		}
	}
	old := [4]int64{st.round[j], st.left[j], st.ready[j], st.end[j]}
	v := value
	if job.Sync == hare.Relaxed {
		st.end[j] = max(st.end[j], end)
		st.left[j]--
	} else {
		st.round[j] += rounds - 1
		st.end[j], st.left[j] = end, 0
	}
	if st.left[j] == 0 {
		st.round[j]++
		st.left[j], st.ready[j] = job.Tasks, st.end[j]
		if st.round[j] == job.Rounds {
			v += job.WeightMicro * (st.end[j] - job.ReleaseUs)
		}
	}
	s.try(st, v, start)
	st.round[j], st.left[j], st.ready[j], st.end[j] = old[0], old[1], old[2], old[3]
	s.held, s.path = s.held[:heldBefore], s.path[:pathBefore]
	for g := range saved {
		if saved[g] != nil {
			s.groups[g].free = saved[g]
		}
	}
}

// earliest returns the first t ≥ from at which the nodes of a unit are in service for hold and
// have enough CPUs and memory.
func (s *places) earliest(job *hare.Job, counts []int64, from, hold int64) (int64, bool) {
	t := from
	for moved := true; moved; {
		moved = false
		for g, n := range counts {
			if n == 0 {
				continue
			}
			ok := false
			for _, w := range s.groups[g].open {
				if start := max(t, w.StartUs); w.EndUs == hare.Forever || start+hold <= w.EndUs {
					moved = moved || start > t
					t, ok = start, true
					break
				}
			}
			if !ok {
				return 0, false
			}
			node := &s.inst.Cluster.Nodes[s.groups[g].node]
			for {
				var cpus, memory int64
				next := hare.Forever
				for h, m := range counts {
					if s.groups[h].node == s.groups[g].node {
						cpus += m * job.CPUMilliPerTask
						memory += m * job.MemoryMiBPerTask
					}
				}
				for _, h := range s.held {
					if h.node == s.groups[g].node && h.until > t {
						cpus += h.cpus
						memory += h.memory
						next = min(next, h.until)
					}
				}
				if (node.CPUMilli == 0 || cpus <= node.CPUMilli) && (node.MemoryMiB == 0 || memory <= node.MemoryMiB) {
					break
				}
				if next == hare.Forever {
					return 0, false
				}
				t, moved = next, true
			}
		}
	}
	return t, true
}

// RandomOnNodes returns a tiny valid instance with all rules about nodes mixed: one to three
// nodes of one or two types, some with CPUs, memory, windows or busy GPUs, and one to three
// jobs of all kinds.
func RandomOnNodes(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(3)/2]
	left := 5 // GPUs
	for i := range 1 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i)}
		for _, t := range types {
			if c := 1 + r.IntN(3); c <= left && (n.GPUs == nil || r.IntN(3) == 0) && (i+len(types) < 2 || r.IntN(4) > 0) {
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: c})
				left -= c
			}
		}
		if n.GPUs == nil {
			n.GPUs = []hare.TypeCount{{Type: types[r.IntN(len(types))], Count: 1}}
		}
		if r.IntN(2) == 0 {
			n.CPUMilli = int64(1+r.IntN(4)) * 1000
		}
		if r.IntN(3) == 0 {
			n.MemoryMiB = int64(1 + r.IntN(4))
		}
		if r.IntN(2) == 0 {
			n.Labels = []hare.Label{{Name: "disk", Value: []string{"hdd", "nvme"}[r.IntN(2)]}}
		}
		switch r.IntN(8) {
		case 0:
			at := int64(1+r.IntN(4)) * tick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at}, {StartUs: at + int64(1+r.IntN(2))*tick, EndUs: hare.Forever}}
		case 1:
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * tick, EndUs: hare.Forever}}
		}
		if r.IntN(6) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(3)) * tick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(1+r.IntN(3)) * 1_000_000,
			Rounds: int64(1 + r.IntN(2)), Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3))}
		if g := []int64{0, 0, 0, 2, 2, 3}[r.IntN(6)]; g > 1 {
			j.GPUsPerTask = g
			j.Tasks = min(j.Tasks, 2)
		}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(3)) * tick
		}
		if r.IntN(2) == 0 {
			j.CPUMilliPerTask = int64(1+r.IntN(4)) * 500
		}
		if r.IntN(3) == 0 {
			j.MemoryMiBPerTask = int64(1 + r.IntN(2))
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
		j.DistinctNodes = j.Sync != hare.Relaxed && r.IntN(4) == 0
		switch r.IntN(12) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
		case 2:
			j.Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0", "n1"}}}
		}
		for _, t := range types {
			if len(types) > 1 && r.IntN(5) == 0 && len(j.On) > 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * tick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(2)) * tick
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}
