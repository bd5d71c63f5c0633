package verify

import (
	"context"
	"math"
)

// sweeps limits how often narrow looks at all jobs. Package branch has the same number, as the search
// must know what a node keeps here.
const sweeps = 8

// whole returns the only type on which a job has starts, or −1.
func (t *branchTree) whole(st *starts, i int) int {
	found := -1
	for _, k := range t.jobs[i].kinds {
		if x := i*len(t.kinds) + k; st.first[x] <= st.last[x] {
			if found >= 0 {
				return -1
			}
			found = k
		}
	}
	return found
}

// core returns the time in which job i runs on type k in every schedule with these starts; from ≥ to
// means that there is none.
func (t *branchTree) core(st *starts, i, k int) (from, to int64) {
	if t.whole(st, i) != k {
		return 0, 0
	}
	x := i*len(t.kinds) + k
	return st.last[x], st.first[x] + t.jobs[i].length[k]
}

// left returns the GPUs of type k that are free beside the cores of all jobs but one.
func (t *branchTree) left(st *starts, k, but int) *typeCapacity {
	deltas := map[int64]int64{0: 0}
	level := int64(0)
	for i, at := range t.supply[k].at {
		deltas[at] += t.supply[k].level[i] - level
		level = t.supply[k].level[i]
	}
	for i := range t.jobs {
		if from, to := t.core(st, i, k); i != but && from < to {
			deltas[from] -= t.jobs[i].spec.Tasks
			deltas[to] += t.jobs[i].spec.Tasks
		}
	}
	return newTypeCapacity(deltas)
}

// atLeastNone says that none is free where cores need more GPUs than there are; no schedule is then in the node.
func atLeastNone(tc *typeCapacity) *typeCapacity {
	for i, level := range tc.level {
		tc.level[i] = max(0, level)
	}
	return tc
}

// narrow removes starts that the schedule σ of the proof below does not have. It returns false if some job has none
// left. It stops early when ctx ends. A node has for each job j and type the first and the last possible start, f and
// l, in whole microseconds; a type with f > l is out. The sweeps go through the jobs in their order and the types in
// sorted order, and each change counts at once; they end when one changes nothing, and after 8:
//
//  1. Capacity. If a job i has one type only, and l < f + L there, it holds K GPUs from l to f + L in every schedule
//     of the node: its core. Beside the cores of the other jobs, f rises to the first start, and l falls to the last,
//     from which at least K GPUs are free for L_k.
//  2. Equal jobs. Jobs with the same weight, release, tasks and times L_k (on the same types) are equal. f is at least
//     the least f of the nearest equal job before j in the instance over its types, and l at most the greatest l of
//     the nearest equal job after it.
//  3. Touching. f rises to, and l falls to, a start at which j may touch: its release; a time at which GPUs of type k
//     come, and 0; or a time from f + L_k to l + L_k of another job that may still run on k. If there is none between
//     f and l, j cannot run on k.
//
// Where GPUs stay, blocks that hold no more than M_k(t) GPUs at any t can be given GPUs. Where a GPU leaves as another
// one comes they may not; a tree then bounds more schedules than there are.
//
// Proof that a tree bounds the optimum.
//
// One schedule: Values are whole multiples of 1e-12 and not negative, so there are schedules of least value; of
// these take those with the least sum of starts. Let equal jobs trade places, type and start together, until they
// start in the order of the instance; value, sum and feasibility stay. Call this schedule σ. No job of σ can start a
// microsecond earlier by itself. So for a job j on type k with start S: S = a, or in the microsecond before S fewer
// than K GPUs of type k are free for j, so at S GPUs of type k come or a block of another job on k ends. That is
// rule 3. Following such ends back from S one comes to other jobs with earlier starts, never twice to one, and at
// last to a release or an arrival of GPUs (0 is one); so S is at most the l of the root.
//
// σ is in a leaf that is not empty: At the root all its starts are possible, and the two parts of a split leave out
// no schedule. Narrowing leaves them possible: rule 1, because a job with one type that starts between f and l does
// hold its core, and σ fits into M_k; rule 2, because σ has equal jobs in order; rule 3, because another block that
// ends at S has a start that is possible.
//
// The leaf bounds σ: At every instant the blocks of σ on type k hold at most M_k(t) GPUs, of which the cores are
// part. What they hold beside the cores are whole blocks of K GPUs, which fit into M_k − cores, so that they pay at
// most F_k(M_k − cores): a block with a price of its job is one of this job, runs when the node lets it run, and is
// not its core. Each job pays at least φ − w C outside its core. So value(σ) is at least what the leaf proves, and
// the least over all leaves is no greater. ∎
func (t *branchTree) narrow(ctx context.Context, st *starts) bool {
	for range sweeps {
		if ctx.Err() != nil {
			break
		}
		changed := false
		for i := range t.jobs {
			some := false
			for k := range t.kinds {
				x := i*len(t.kinds) + k
				if st.first[x] > st.last[x] {
					continue
				}
				first, last := t.narrowed(st, i, k)
				changed = changed || first != st.first[x] || last != st.last[x]
				st.first[x], st.last[x] = first, last
				some = some || first <= last
			}
			if !some {
				return false
			}
		}
		if !changed {
			break
		}
	}
	return true
}

// narrowed returns the first and last start of job i on type k, or first > last.
func (t *branchTree) narrowed(st *starts, i, k int) (first, last int64) {
	x := i*len(t.kinds) + k
	first, last = st.first[x], st.last[x]
	job := &t.jobs[i]
	// A stretch with too few GPUs ends before the block or begins after it.
	free := t.left(st, k, i)
	until := func(s int) int64 {
		if s+1 < len(free.at) {
			return free.at[s+1]
		}
		return math.MaxInt64
	}
	for s, from := range free.at {
		if free.level[s] < job.spec.Tasks && from-first < job.length[k] && first < until(s) {
			first = until(s)
		}
	}
	for s := len(free.at) - 1; s >= 0; s-- {
		if free.level[s] < job.spec.Tasks && free.at[s]-last < job.length[k] && last < until(s) {
			last = free.at[s] - job.length[k]
		}
	}
	if o := job.twin; o >= 0 {
		first = max(first, t.extreme(st, o, false))
	}
	if o := t.later[i]; o >= 0 {
		last = min(last, t.extreme(st, o, true))
	}
	if first > last {
		return first, last
	}
	return t.touching(st, i, k, first, last)
}

// extreme returns the last or the first start of a job on any type.
func (t *branchTree) extreme(st *starts, i int, last bool) int64 {
	out := int64(-1)
	for _, k := range t.jobs[i].kinds {
		x := i*len(t.kinds) + k
		switch {
		case st.first[x] > st.last[x]:
		case last:
			out = max(out, st.last[x])
		case out < 0 || st.first[x] < out:
			out = st.first[x]
		}
	}
	return out
}

// touching returns the first and last start from first to last at which job i could not start 1 µs
// earlier: at its release, when GPUs of type k come, or when another job may end there. It returns
// first > last if there is none.
func (t *branchTree) touching(st *starts, i, k int, first, last int64) (from, to int64) {
	from, to = math.MaxInt64, -1
	meet := func(a, b int64) {
		if a, b = max(a, first), min(b, last); a <= b {
			from, to = min(from, a), max(to, b)
		}
	}
	meet(t.jobs[i].spec.ReleaseUs, t.jobs[i].spec.ReleaseUs)
	for _, at := range t.supply[k].at {
		meet(at, at)
	}
	for o := range t.jobs {
		if x := o*len(t.kinds) + k; o != i && st.first[x] <= st.last[x] {
			meet(st.first[x]+t.jobs[o].length[k], st.last[x]+t.jobs[o].length[k])
		}
	}
	return from, to
}
