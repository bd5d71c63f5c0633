package residency_test

import (
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/residency"
)

// optimumModels is the greatest number of different models that leastCopies takes.
const optimumModels = 16

// leastCopies returns the least number of copies into an empty memory of capacity bytes with
// which all tasks find their models, in the order of tasks. It knows the whole order; no
// policy copies less often, with prefetching or without. Versions do not count.
//
// leastCopies is exact also where sizes differ, where the problem is NP-hard in general: it goes
// through the sets of models that may be in memory, of which there are at most 2^16. A
// copy may always be put off until a task needs it, and a model may always stay until
// there is no room, so that only the largest sets that fit are followed.
func leastCopies(tasks []residency.Model, capacity int64) (int64, error) {
	var names []string
	bytes := map[string]int64{}
	for _, m := range tasks {
		if m.Bytes > capacity {
			return 0, &residency.TooBigError{Job: m.Job, Bytes: m.Bytes, Capacity: capacity}
		}
		if was, ok := bytes[m.Job]; !ok {
			names = append(names, m.Job)
		} else if was != m.Bytes {
			return 0, &hare.InvalidError{Pointer: "/tasks", Code: "contradiction", Detail: "a model must keep its size"}
		}
		bytes[m.Job] = m.Bytes
	}
	if len(names) > optimumModels {
		return 0, &hare.InvalidError{Pointer: "/tasks", Code: "too_many", Detail: "names more than 16 models"}
	}
	o := &optimum{capacity: capacity, kept: map[[2]uint32][]uint32{}}
	for _, name := range names {
		o.bytes = append(o.bytes, bytes[name])
	}
	least := map[uint32]int64{0: 0}
	for _, m := range tasks {
		job := uint32(slices.Index(names, m.Job))
		then := make(map[uint32]int64, len(least))
		for set, copies := range least {
			if set>>job&1 == 1 {
				lower(then, set, copies)
				continue
			}
			for _, kept := range o.largest(set, job) {
				lower(then, kept, copies+1)
			}
		}
		least = then
	}
	best := int64(len(tasks))
	for _, copies := range least {
		best = min(best, copies)
	}
	return best, nil
}

type optimum struct {
	capacity int64
	bytes    []int64
	kept     map[[2]uint32][]uint32 // what largest returned
}

// lower writes the smaller number of copies.
func lower(least map[uint32]int64, set uint32, copies int64) {
	if was, ok := least[set]; !ok || copies < was {
		least[set] = copies
	}
}

// largest returns the sets of job with models of set that fit and to which no other model of
// set can be added.
func (o *optimum) largest(set, job uint32) []uint32 {
	key := [2]uint32{set, job}
	if sets, ok := o.kept[key]; ok {
		return sets
	}
	var sets []uint32
	for kept := set; ; kept = (kept - 1) & set {
		free := o.capacity - o.bytes[job]
		for rest := kept; rest != 0; rest &= rest - 1 {
			free -= o.bytes[bits.TrailingZeros32(rest)]
		}
		fits := free >= 0
		for rest := set &^ kept; fits && rest != 0; rest &= rest - 1 {
			fits = o.bytes[bits.TrailingZeros32(rest)] > free
		}
		if fits {
			sets = append(sets, kept|1<<job)
		}
		if kept == 0 {
			break
		}
	}
	o.kept[key] = sets
	return sets
}

// belady knows the future and evicts the model whose next task is furthest away. Where all
// models have the same size no policy copies fewer. With unequal sizes it is a heuristic;
// leastCopies has the least number of copies.
type belady struct{}

var _ residency.Policy = belady{}

// Ahead is all tasks.
func (belady) Ahead() int { return -1 }

// Prefetch is false.
func (belady) Prefetch() bool { return false }

// Victim returns the model whose next task is furthest away; of several, the first.
func (belady) Victim(candidates []residency.Candidate) (victim int) {
	for i, c := range candidates {
		best := candidates[victim].Next
		if best >= 0 && (c.Next < 0 || c.Next > best) {
			victim = i
		}
	}
	return victim
}
