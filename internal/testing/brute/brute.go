// Package brute finds optimal schedules of tiny instances by trying all of them. It is
// the oracle of the tests: slow, obvious, and sharing only the domain types with what it
// judges.
package brute

import (
	"math"

	"github.com/hare-sched/hare"
)

// state is a partial schedule. Its units are what is placed at once: a task (relaxed), a
// round (gang) or a whole job (rigid).
type state struct {
	free  []int64 // by GPU: when the last unit placed there ends
	round []int64 // by job: the rounds done
	left  []int64 // by job: the tasks of the round that are not placed yet
	ready []int64 // by job: the earliest start of the round
	end   []int64 // by job: the latest end of the tasks placed in the round
	shape []int   // by job: the shape of the last round, −1 before the first; nil in search
}

// search is one run. Every schedule can be rebuilt by placing its units in order of
// start, each at the earliest time that its GPUs allow after their earlier units, and no
// start gets later. All orders and all choices of GPUs, placed in this way, therefore
// contain an optimal schedule.
type search struct {
	inst  *hare.Instance
	types []string        // by GPU
	open  [][]hare.Window // by GPU: when it is in service and free
	on    []map[string]hare.Profile
	fast  []int64 // by job: the least d
	best  int64
	found bool
	steps int
	limit int
}

// Optimum returns the least Σ w (C − a) in 1e-12 weight-seconds. ok is false if no
// schedule exists; done is false if the search gave up after limit steps.
func Optimum(inst *hare.Instance, limit int) (value int64, ok, done bool) {
	s := &search{inst: inst, best: math.MaxInt64, limit: limit}
	for _, n := range inst.Cluster.Nodes {
		i := 0
		for _, g := range n.GPUs {
			for range g.Count {
				from := int64(0)
				for _, b := range n.Busy {
					if b.GPU == i {
						from = b.UntilUs
					}
				}
				windows := n.Windows
				if windows == nil {
					windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
				}
				var open []hare.Window
				for _, w := range windows {
					if w.EndUs > from {
						open = append(open, hare.Window{StartUs: max(w.StartUs, from), EndUs: w.EndUs})
					}
				}
				s.types = append(s.types, g.Type)
				s.open = append(s.open, open)
				i++
			}
		}
	}
	n := len(inst.Jobs)
	st := state{free: make([]int64, len(s.types)), round: make([]int64, n), left: make([]int64, n),
		ready: make([]int64, n), end: make([]int64, n)}
	for j := range inst.Jobs {
		job := &inst.Jobs[j]
		st.left[j], st.ready[j] = job.Tasks, job.ReleaseUs
		m := map[string]hare.Profile{}
		fast := int64(math.MaxInt64)
		for _, p := range job.On {
			m[p.Type] = p
			fast = min(fast, p.DurationUs())
		}
		s.on, s.fast = append(s.on, m), append(s.fast, fast)
	}
	s.try(&st, 0, 0)
	return s.best, s.found, s.steps < s.limit
}

// earliest returns the first t ≥ from at which all gpus are open for hold.
func (s *search) earliest(gpus []int, from, hold int64) (int64, bool) {
	t := from
	for moved := true; moved; {
		moved = false
		for _, g := range gpus {
			ok := false
			for _, w := range s.open[g] {
				if start := max(t, w.StartUs); w.EndUs == hare.Forever || start+hold <= w.EndUs {
					if start > t {
						t, moved = start, true
					}
					ok = true
					break
				}
			}
			if !ok {
				return 0, false
			}
		}
	}
	return t, true
}

// try extends st, whose finished jobs cost value so far. No unit starts before last.
func (s *search) try(st *state, value, last int64) {
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
			s.best, s.found = value, true
		}
		return
	}
	if bound >= s.best {
		return
	}
	for j := range s.inst.Jobs {
		if st.round[j] == s.inst.Jobs[j].Rounds {
			continue
		}
		if s.inst.Jobs[j].Sync == hare.Relaxed {
			s.tryTask(st, value, last, j)
		} else {
			s.trySets(st, value, last, j, nil, 0)
		}
	}
}

// same reports whether GPU g equals an earlier GPU that is not in chosen.
func (s *search) same(st *state, g int, chosen []int) bool {
	for h := range g {
		used := false
		for _, c := range chosen {
			used = used || c == h
		}
		if used || s.types[h] != s.types[g] || st.free[h] != st.free[g] || len(s.open[h]) != len(s.open[g]) {
			continue
		}
		equal := true
		for i, w := range s.open[h] {
			equal = equal && w == s.open[g][i]
		}
		if equal {
			return true
		}
	}
	return false
}

func (s *search) tryTask(st *state, value, last int64, j int) {
	job := &s.inst.Jobs[j]
	for g := range s.types {
		p, ok := s.on[j][s.types[g]]
		if !ok || s.same(st, g, nil) {
			continue
		}
		t, ok := s.earliest([]int{g}, max(st.free[g], st.ready[j]), p.ComputeUs)
		if !ok || t < last {
			continue
		}
		saved := [5]int64{st.free[g], st.round[j], st.left[j], st.ready[j], st.end[j]}
		st.free[g] = t + p.ComputeUs
		st.end[j] = max(st.end[j], t+p.DurationUs())
		st.left[j]--
		v := value
		if st.left[j] == 0 {
			v = s.close(st, value, j, job)
		}
		s.try(st, v, t)
		st.free[g], st.round[j], st.left[j], st.ready[j], st.end[j] = saved[0], saved[1], saved[2], saved[3], saved[4]
	}
}

// close ends the round of job j.
func (s *search) close(st *state, value int64, j int, job *hare.Job) int64 {
	st.round[j]++
	st.left[j], st.ready[j] = job.Tasks, st.end[j]
	if st.round[j] == job.Rounds {
		value += job.WeightMicro * (st.end[j] - job.ReleaseUs)
	}
	return value
}

// trySets chooses K GPUs for a gang round or a rigid job.
func (s *search) trySets(st *state, value, last int64, j int, chosen []int, from int) {
	job := &s.inst.Jobs[j]
	if int64(len(chosen)) == job.Tasks {
		s.tryGang(st, value, last, j, chosen)
		return
	}
	for g := from; g < len(s.types); g++ {
		if _, ok := s.on[j][s.types[g]]; !ok {
			continue
		}
		if len(chosen) > 0 && !job.Mix && s.types[g] != s.types[chosen[0]] {
			continue
		}
		s.trySets(st, value, last, j, append(chosen[:len(chosen):len(chosen)], g), g+1)
	}
}

func (s *search) tryGang(st *state, value, last int64, j int, gpus []int) {
	job := &s.inst.Jobs[j]
	hold, start := int64(0), st.ready[j]
	for _, g := range gpus {
		p := s.on[j][s.types[g]]
		hold = max(hold, p.DurationUs())
		start = max(start, st.free[g])
	}
	rounds := int64(1)
	if job.Sync == hare.Rigid {
		rounds = job.Rounds
	}
	t, ok := s.earliest(gpus, start, hold*rounds)
	if !ok || t < last {
		return
	}
	var saved []int64
	for _, g := range gpus {
		saved = append(saved, st.free[g])
		st.free[g] = t + hold*rounds
	}
	old := [3]int64{st.round[j], st.ready[j], st.end[j]}
	st.round[j] += rounds - 1
	st.end[j] = t + hold*rounds
	v := s.close(st, value, j, job)
	s.try(st, v, t)
	st.round[j], st.ready[j], st.end[j] = old[0], old[1], old[2]
	for i, g := range gpus {
		st.free[g] = saved[i]
	}
}
