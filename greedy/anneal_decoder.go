package greedy

import (
	"math"
	"slices"
	"sort"
)

// entry is a job in the sequence of a type. If snapshot is not 0, it is a snapshot of
// the type's capacity just before the job is placed.
type entry struct {
	job, snapshot int32
}

// decoder holds a state and its decoded schedule: the jobs sorted by key, then index, a
// plan for each job, and the segments and end that decoding gives each job. A trial
// changes one or two jobs and decodes again only the types that change, from the last
// snapshot before the change to the first entry at which the capacity is as it was
// before. commit keeps a trial, rollback undoes it.
//
// The sequence of a type holds only the jobs that use the type. A snapshot therefore
// depends on nothing but the jobs before it in the same sequence, wherever these jobs
// stand in the whole order.
type decoder struct {
	p        *annealProblem
	finder   *slotFinder
	key      []int64
	plan     []jobPlan
	segments [][]segment
	end      []int64
	seq      [][]entry // by type

	snapshots     []typeCapacity // element 0 is not used
	snapshotType  []int16        // by snapshot
	freeSnapshots [][]int32
	// snapshotInterval is the number of jobs between two snapshots, by type.
	snapshotInterval []int

	// abortAbove is the rise of the value at which a trial is aborted once all changed
	// positions are decoded: the jobs behind them seldom lower the value again.
	abortAbove float64
	work       int64 // the number of jobs placed so far
	delta      float64
	undoLog    []undoEntry
	dirty      []dirtyRange // by type
	touched    []int16
	active     []int16        // the types that the trial still decodes
	capacities []typeCapacity // by type, up to the entry that is decoded next
	// changed lists the jobs that the trial places elsewhere; the next fields hold for these
	// jobs.
	changed     []int32
	trialOf     []int64
	trial       int64
	newSegments [][]segment
	newEnd      []int64

	stopped func() bool // ends decode early; nil means that nothing does
}

func newDecoder(ap *annealProblem) *decoder {
	n, types := len(ap.jobs), len(ap.empty)
	dec := &decoder{p: ap, finder: newSlotFinder(ap), key: make([]int64, n), plan: make([]jobPlan, n),
		segments: make([][]segment, n),
		end:      make([]int64, n), seq: make([][]entry, types), snapshots: make([]typeCapacity, 1),
		snapshotType:  make([]int16, 1),
		freeSnapshots: make([][]int32, types), snapshotInterval: make([]int, types), dirty: make([]dirtyRange, types),
		abortAbove: math.Inf(1), trialOf: make([]int64, n), newSegments: make([][]segment, n), newEnd: make([]int64,
			n)}
	for k := range ap.empty {
		dec.capacities = append(dec.capacities, newTypeCapacity(ap.empty[k]))
	}
	return dec
}

// load replaces the state by keys and plans, decodes all of it and prepares for trials. It
// returns false if a job finds no place; the state must then not be used.
func (dec *decoder) load(key []int64, plan []jobPlan) bool {
	if !dec.decode(key, plan) {
		return false
	}
	for k := range dec.seq {
		dec.snapshotInterval[k] = max(8, len(dec.seq[k])/64)
		dec.refreshSnapshots(int16(k), 0, len(dec.seq[k]))
	}
	return true
}

// decode is load without trials to come. It returns false if it is stopped.
func (dec *decoder) decode(key []int64, plan []jobPlan) bool {
	copy(dec.key, key)
	copy(dec.plan, plan)
	dec.trial++
	for k := range dec.seq {
		for _, e := range dec.seq[k] {
			dec.freeSnapshot(e.snapshot)
		}
		dec.seq[k] = dec.seq[k][:0]
		dec.capacities[k].copyFrom(dec.p.empty[k])
		dec.finder.forget(int16(k))
	}
	for n, j := range dec.order() {
		if n%checkEvery == 0 && dec.stopped != nil && dec.stopped() {
			return false
		}
		end, ok := dec.finder.placeFrom(dec.form(j), dec.readyAt(j), &dec.plan[j], dec.capacities)
		if !ok {
			return false
		}
		dec.end[j] = end
		dec.segments[j] = append(dec.segments[j][:0], dec.finder.segments...)
		for _, k := range dec.p.columns(&dec.plan[j]) {
			dec.reserve(k, j, dec.segments[j])
			dec.seq[k] = append(dec.seq[k], entry{job: j})
		}
	}
	dec.work += int64(len(dec.key))
	return true
}

// order returns the jobs sorted by key.
func (dec *decoder) order() []int32 {
	order := make([]int32, len(dec.key))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case dec.before(a, b):
			return -1
		case dec.before(b, a):
			return 1
		}
		return 0
	})
	return order
}

func (dec *decoder) before(a, b int32) bool {
	return dec.key[a] < dec.key[b] || dec.key[a] == dec.key[b] && a < b
}

// value returns the sum of the costs of the jobs in weight-seconds, where C − a is counted
// from the earliest start; under makespan, the greatest end in seconds is added.
func (dec *decoder) value() float64 {
	v := 0.0
	last := int64(0)
	for i := range dec.p.jobs {
		v += dec.p.jobs[i].cost(dec.end[i])
		last = max(last, dec.end[i])
	}
	if dec.p.makespan {
		v += 1e-6 * float64(last)
	}
	return v
}

// form returns job j in the shape of its plan.
func (dec *decoder) form(j int32) *annealJob { return dec.p.jobs[j].form(dec.plan[j].shape) }

// reserve takes the GPUs of those segments of job j that lie on type k.
func (dec *decoder) reserve(k int16, j int32, segments []segment) {
	if nl := dec.p.nodes; nl != nil {
		for i := range segments {
			if x := &segments[i]; nl.column[x.typ] == k {
				nl.reserve(dec.capacities[k], dec.p.jobs[j].form(x.shape), x.typ, x.pool, x.width, x.start, x.end, x.lead)
			}
		}
		return
	}
	for i := range segments {
		if x := &segments[i]; x.typ == k {
			s := &dec.capacities[k][x.pool]
			s.reserve(s.index(x.start), x.start, x.end, x.width)
		}
	}
}

// find returns the position of job j in the sequence of type k.
func (dec *decoder) find(k int16, j int32) int {
	seq := dec.seq[k]
	return sort.Search(len(seq), func(i int) bool { return !dec.before(seq[i].job, j) })
}

func (dec *decoder) insert(k int16, j, snap int32) {
	dec.seq[k] = slices.Insert(dec.seq[k], dec.find(k, j), entry{j, snap})
}

func (dec *decoder) remove(k int16, j int32) (snap int32) {
	i := dec.find(k, j)
	snap = dec.seq[k][i].snapshot
	dec.seq[k] = slices.Delete(dec.seq[k], i, i+1)
	return snap
}
