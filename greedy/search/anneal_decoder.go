package search

import (
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
)

// Decoding makes a schedule of a state: jobs in the order of their keys, each as early as its plan allows (the serial
// schedule generation scheme: Kolisch, "Serial and parallel resource-constrained project scheduling methods
// revisited", European J. Operational Research 90, 1996). Nearly all of the time of the annealing is spent here. What
// departs from the scheme makes a trial cheap: each type has a sequence of its own with snapshots of its capacity, a
// trial decodes the types that it changes from the last snapshot before the change to the first job behind which
// nothing differs, and a log undoes trials that are not accepted.

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
	finder   *room.Finder
	key      []int64
	plan     []room.JobPlan
	segments [][]room.Segment
	end      []int64
	seq      [][]entry // by type

	snapshots     []room.Capacity // element 0 is not used
	snapshotType  []int16         // by snapshot
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
	active     []int16         // the types that the trial still decodes
	capacities []room.Capacity // by type, up to the entry that is decoded next
	// changed lists the jobs that the trial places elsewhere; the next fields hold for these
	// jobs.
	changed     []int32
	trialOf     []int64
	trial       int64
	newSegments [][]room.Segment
	newEnd      []int64

	stopped func() bool // ends decode early; nil means that nothing does
}

func newDecoder(ap *annealProblem) *decoder {
	n, types := len(ap.jobs), len(ap.empty)
	dec := &decoder{p: ap, finder: ap.newFinder(), key: make([]int64, n), plan: make([]room.JobPlan, n),
		segments: make([][]room.Segment, n),
		end:      make([]int64, n), seq: make([][]entry, types), snapshots: make([]room.Capacity, 1),
		snapshotType:  make([]int16, 1),
		freeSnapshots: make([][]int32, types), snapshotInterval: make([]int, types), dirty: make([]dirtyRange, types),
		abortAbove: math.Inf(1), trialOf: make([]int64, n), newSegments: make([][]room.Segment, n), newEnd: make([]int64,
			n)}
	for k := range ap.empty {
		dec.capacities = append(dec.capacities, room.NewCapacity(ap.empty[k]))
	}
	return dec
}

// load replaces the state by keys and plans, decodes all of it and prepares for trials. It
// returns false if a job finds no place; the state must then not be used.
func (dec *decoder) load(key []int64, plan []room.JobPlan) bool {
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
func (dec *decoder) decode(key []int64, plan []room.JobPlan) bool {
	copy(dec.key, key)
	copy(dec.plan, plan)
	dec.trial++
	for k := range dec.seq {
		for _, e := range dec.seq[k] {
			dec.freeSnapshot(e.snapshot)
		}
		dec.seq[k] = dec.seq[k][:0]
		dec.capacities[k].CopyFrom(dec.p.empty[k])
		dec.finder.Forget(int16(k))
	}
	for n, j := range dec.order() {
		if n%place.CheckEvery == 0 && dec.stopped != nil && dec.stopped() {
			return false
		}
		end, ok := dec.finder.PlaceFrom(dec.form(j), dec.readyAt(j), &dec.plan[j], dec.capacities)
		if !ok {
			return false
		}
		dec.end[j] = end
		dec.segments[j] = append(dec.segments[j][:0], dec.finder.Segments...)
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
		v += dec.p.jobs[i].Cost(dec.end[i])
		last = max(last, dec.end[i])
	}
	if dec.p.makespan {
		v += 1e-6 * float64(last)
	}
	return v
}

// form returns job j in the shape of its plan.
func (dec *decoder) form(j int32) *room.Job { return dec.p.jobs[j].Form(dec.plan[j].Shape) }

// reserve takes the GPUs of those segments of job j that lie on type k.
func (dec *decoder) reserve(k int16, j int32, segments []room.Segment) {
	if nl := dec.p.nodes; nl != nil {
		for i := range segments {
			if x := &segments[i]; nl.Column[x.Type] == k {
				nl.Reserve(dec.capacities[k], dec.p.jobs[j].Form(x.Shape), x.Type, x.Pool, x.Width, x.Start, x.End, x.Lead)
			}
		}
		return
	}
	for i := range segments {
		if x := &segments[i]; x.Type == k {
			s := &dec.capacities[k][x.Pool]
			s.Reserve(s.Index(x.Start), x.Start, x.End, x.Width)
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

// change is a move: it gives a job another position in the order, another plan, or both.
type change struct {
	job  int32
	key  int64
	plan room.JobPlan
}

// undoEntry is what a change replaced: an entry of the undo log.
type undoEntry struct {
	change
	snapshot [room.MaxTypes]int32
}

// dirtyRange is the part of a type's sequence that a trial must decode again.
type dirtyRange struct {
	touched    bool
	active     bool
	positioned bool  // whether the capacity stands before the entry next
	changed    bool  // whether the jobs of the type or their segments differ from before
	lo, hi     int64 // the least and the greatest changed key
	from, to   int   // the entries for which the capacity before them may have changed
	next       int   // the next entry to place
	// position is the entry before which the capacity stands; −1 means unknown.
	position int
}

// markDirty records that type k changes at key.
func (dec *decoder) markDirty(k int16, key int64) {
	x := &dec.dirty[k]
	if !x.touched {
		*x = dirtyRange{touched: true, lo: key, hi: key, from: math.MaxInt, position: -1}
		dec.touched = append(dec.touched, k)
	}
	x.lo, x.hi = min(x.lo, key), max(x.hi, key)
}

// try applies changes to different jobs, decodes, and returns by how much the value
// rises. It returns false if a job finds no place or the trial is aborted. The caller
// must call commit or rollback next.
func (dec *decoder) try(changes ...change) (delta float64, ok bool) {
	dec.trial++
	dec.delta = 0
	for i := range changes {
		c := &changes[i]
		u := undoEntry{change: change{c.job, dec.key[c.job], dec.plan[c.job]}}
		for n, k := range dec.p.columns(&dec.plan[c.job]) {
			u.snapshot[n] = dec.remove(k, c.job)
			dec.markDirty(k, dec.key[c.job])
		}
		dec.undoLog = append(dec.undoLog, u)
		for _, k := range dec.p.columns(&c.plan) {
			dec.markDirty(k, c.key)
		}
		for _, k := range dec.touched {
			x := &dec.dirty[k]
			x.changed = x.changed || slices.Contains(dec.p.columns(&u.plan), k) != slices.Contains(dec.p.columns(&c.plan),
				k)
		}
	}
	for i := range changes {
		dec.key[changes[i].job], dec.plan[changes[i].job] = changes[i].key, changes[i].plan
	}
	for i := range changes {
		c := &changes[i]
		for _, k := range dec.p.columns(&c.plan) {
			dec.insert(k, c.job, 0)
		}
	}
	for _, k := range dec.touched {
		x := &dec.dirty[k]
		from := sort.Search(len(dec.seq[k]), func(i int) bool { return dec.key[dec.seq[k][i].job] >= x.lo })
		x.from, x.next, x.active = from, from, true
		dec.active = append(dec.active, k)
	}
	for len(dec.active) > 0 {
		if !dec.step() {
			return 0, false
		}
	}
	if dec.p.makespan {
		was, is := int64(0), int64(0)
		for j := range dec.end {
			was, is = max(was, dec.end[j]), max(is, dec.currentEnd(int32(j)))
		}
		dec.delta += 1e-6 * float64(is-was)
	}
	return dec.delta, true
}

// currentSegments returns the segments of job j, as the trial places it if the trial has
// moved it.
func (dec *decoder) currentSegments(j int32) []room.Segment {
	if dec.trialOf[j] == dec.trial {
		return dec.newSegments[j]
	}
	return dec.segments[j]
}

// finishType ends the decoding of type k before its next entry.
func (dec *decoder) finishType(k int16) {
	x := &dec.dirty[k]
	x.to = x.next
	x.active, x.positioned = false, false
	dec.active = slices.DeleteFunc(dec.active, func(o int16) bool { return o == k })
}

// step places the first job that is due on an active type, or finishes a type if its
// sequence ends or its capacity is as it was before. It returns false if the job finds
// no place or the trial is aborted.
func (dec *decoder) step() bool {
	k, j := int16(-1), int32(-1)
	for _, o := range dec.active {
		x := &dec.dirty[o]
		if x.next == len(dec.seq[o]) {
			dec.finishType(o)
			return true
		}
		if e := dec.seq[o][x.next].job; j < 0 || dec.before(e, j) {
			k, j = o, e
		}
	}
	x := &dec.dirty[k]
	if !x.positioned {
		// The entry may carry a snapshot from before the change, so only earlier snapshots are
		// used.
		dec.replayTo(k, x.next, x.next-1)
		x.positioned = true
	}
	if e := dec.seq[k][x.next]; dec.key[j] > x.hi &&
		(!x.changed || e.snapshot != 0 && dec.capacities[k].Equal(dec.snapshots[e.snapshot])) {
		dec.finishType(k)
		return true
	}
	if dec.delta > dec.abortAbove && dec.pastChanges() {
		return false
	}
	plan := &dec.plan[j]
	if plan.N > 1 {
		return dec.stepMultiType(j, plan)
	}
	dec.work++
	form := dec.form(j)
	ready := form.Release
	if len(form.Before) > 0 {
		ready = dec.readyAt(j)
	}
	end, ok := dec.finder.PlaceFrom(form, ready, plan, dec.capacities)
	if !ok {
		return false
	}
	dec.record(j, end)
	dec.reserve(k, j, dec.finder.Segments)
	x.next++
	x.position = x.next
	return true
}

// pastChanges reports whether all active types are past the changed positions.
func (dec *decoder) pastChanges() bool {
	for _, k := range dec.active {
		if x := &dec.dirty[k]; x.next < len(dec.seq[k]) && dec.key[dec.seq[k][x.next].job] <= x.hi {
			return false
		}
	}
	return true
}

// record stores that the trial places job j at the finder's segments, until end.
func (dec *decoder) record(j int32, end int64) {
	old := dec.segments[j]
	if slices.Equal(old, dec.finder.Segments) {
		return
	}
	for _, k := range dec.p.columns(&dec.plan[j]) {
		dec.dirty[k].changed = true
	}
	if a := &dec.p.jobs[j]; a.Late > 0 {
		dec.delta += a.Cost(end) - a.Cost(dec.end[j])
	} else {
		dec.delta += a.Weight * float64(end-dec.end[j])
	}
	dec.trialOf[j] = dec.trial
	dec.changed = append(dec.changed, j)
	dec.newSegments[j] = append(dec.newSegments[j][:0], dec.finder.Segments...)
	dec.newEnd[j] = end
	if end != dec.end[j] {
		dec.wake(j)
	}
}

// stepMultiType places a job whose plan covers several types. A type that is clean at
// the job's position becomes dirty only if the job now uses it differently.
func (dec *decoder) stepMultiType(j int32, plan *room.JobPlan) bool {
	var fresh [room.MaxTypes]bool
	var places [room.MaxTypes]int
	for n, k := range plan.Uses() {
		x := &dec.dirty[k]
		if x.positioned {
			continue
		}
		at := dec.find(k, j)
		if x.active && x.next == at {
			dec.replayTo(k, at, at-1)
			x.positioned = true
			continue
		}
		// The type is clean, or only later jobs of its sequence have changed.
		if !x.touched {
			dec.markDirty(k, dec.key[j])
		}
		dec.replayTo(k, at, at)
		fresh[n], places[n] = true, at
	}
	dec.work += int64(plan.N)
	end, ok := dec.finder.PlaceFrom(dec.form(j), dec.readyAt(j), plan, dec.capacities)
	if !ok {
		return false
	}
	for n, k := range plan.Uses() {
		x := &dec.dirty[k]
		if fresh[n] {
			if sameUse(k, dec.segments[j], dec.finder.Segments) {
				continue
			}
			if !x.active {
				x.active = true
				dec.active = append(dec.active, k)
			}
			x.positioned, x.next = true, places[n]
			x.from = min(x.from, x.next)
		}
		dec.reserve(k, j, dec.finder.Segments)
		x.next++
		x.position = x.next
	}
	dec.record(j, end)
	return true
}

// sameUse reports whether a and b hold the same GPUs of type k at the same times.
func sameUse(k int16, a, b []room.Segment) bool {
	i := 0
	for _, x := range a {
		if x.Type != k {
			continue
		}
		for i < len(b) && b[i].Type != k {
			i++
		}
		if i == len(b) || b[i].Pool != x.Pool || b[i].Width != x.Width || b[i].Start != x.Start || b[i].End != x.End ||
			b[i].Lead != x.Lead {
			return false
		}
		i++
	}
	for ; i < len(b); i++ {
		if b[i].Type == k {
			return false
		}
	}
	return true
}

// commit keeps the last trial.
func (dec *decoder) commit() {
	for _, j := range dec.changed {
		dec.segments[j], dec.newSegments[j] = dec.newSegments[j], dec.segments[j]
		dec.end[j] = dec.newEnd[j]
	}
	for i := range dec.undoLog {
		for _, s := range dec.undoLog[i].snapshot {
			dec.freeSnapshot(s)
		}
	}
	dec.endTrial()
	for _, k := range dec.touched {
		if x := dec.dirty[k]; x.from < x.to {
			dec.refreshSnapshots(k, x.from, x.to)
		}
		dec.dirty[k] = dirtyRange{}
	}
	dec.touched = dec.touched[:0]
}

// rollback restores the state before the last trial.
func (dec *decoder) rollback() {
	for i := range dec.undoLog {
		j := dec.undoLog[i].job
		for _, k := range dec.p.columns(&dec.plan[j]) {
			dec.remove(k, j)
		}
	}
	for i := range dec.undoLog {
		u := &dec.undoLog[i]
		dec.key[u.job], dec.plan[u.job] = u.key, u.plan
	}
	for i := range dec.undoLog {
		u := &dec.undoLog[i]
		for n, k := range dec.p.columns(&u.plan) {
			dec.insert(k, u.job, u.snapshot[n])
		}
	}
	dec.endTrial()
	for _, k := range dec.touched {
		dec.dirty[k] = dirtyRange{}
	}
	dec.touched = dec.touched[:0]
}

func (dec *decoder) endTrial() {
	dec.trial++
	dec.changed, dec.undoLog, dec.active = dec.changed[:0], dec.undoLog[:0], dec.active[:0]
}

// replayTo brings the capacity of type k to the state before entry to. It starts from the
// last snapshot not after entry last, or from the state that the trial left.
func (dec *decoder) replayTo(k int16, to, last int) {
	x := &dec.dirty[k]
	i := dec.lastSnapshot(k, last)
	if x.position >= i && x.position <= to {
		i = x.position
	} else {
		dec.restore(k, i)
	}
	for ; i < to; i++ {
		j := dec.seq[k][i].job
		dec.reserve(k, j, dec.currentSegments(j))
	}
	x.position = to
}

// lastSnapshot returns the last entry with a snapshot that is not after last, or 0 if
// there is none.
func (dec *decoder) lastSnapshot(k int16, last int) int {
	for last > 0 && dec.seq[k][last].snapshot == 0 {
		last--
	}
	return max(0, last)
}

// restore sets the capacity of type k to the snapshot before entry i.
func (dec *decoder) restore(k int16, i int) {
	dec.finder.Forget(k)
	if i == 0 {
		dec.capacities[k].CopyFrom(dec.p.empty[k])
	} else {
		dec.capacities[k].CopyFrom(dec.snapshots[dec.seq[k][i].snapshot])
	}
}

// refreshSnapshots takes new snapshots before entries from … to−1 of type k.
func (dec *decoder) refreshSnapshots(k int16, from, to int) {
	last := dec.lastSnapshot(k, from-1)
	dec.restore(k, last)
	for i := last; i < from; i++ {
		j := dec.seq[k][i].job
		dec.reserve(k, j, dec.segments[j])
	}
	for i := from; i < to; i++ {
		e := &dec.seq[k][i]
		if i-last >= dec.snapshotInterval[k] {
			if e.snapshot == 0 {
				e.snapshot = dec.newSnapshot(k)
			}
			dec.snapshots[e.snapshot].CopyFrom(dec.capacities[k])
			last = i
		} else if e.snapshot != 0 {
			dec.freeSnapshot(e.snapshot)
			e.snapshot = 0
		}
		dec.reserve(k, e.job, dec.segments[e.job])
	}
}

func (dec *decoder) newSnapshot(k int16) int32 {
	if n := len(dec.freeSnapshots[k]); n > 0 {
		s := dec.freeSnapshots[k][n-1]
		dec.freeSnapshots[k] = dec.freeSnapshots[k][:n-1]
		return s
	}
	dec.snapshots = append(dec.snapshots, make(room.Capacity, len(dec.p.empty[k])))
	dec.snapshotType = append(dec.snapshotType, k)
	return int32(len(dec.snapshots) - 1)
}

func (dec *decoder) freeSnapshot(s int32) {
	if s != 0 {
		k := dec.snapshotType[s]
		dec.freeSnapshots[k] = append(dec.freeSnapshots[k], s)
	}
}

// maxDragged is the number of jobs that a move may take along so that predecessors stay first.
const maxDragged = 32

// withDependencies returns the changes of a move, and changes of the keys of other jobs that
// keep predecessors before the jobs that wait for them: a job that moves forward takes its
// predecessors along, and one that moves back its successors. It returns nil where this takes
// too many jobs along.
func (dec *decoder) withDependencies(changes ...change) []change {
	p := dec.p
	if !p.ordered {
		return changes
	}
	find := func(j int32) int { return slices.IndexFunc(changes, func(c change) bool { return c.job == j }) }
	keyOf := func(j int32) int64 {
		if at := find(j); at >= 0 {
			return changes[at].key
		}
		return dec.key[j]
	}
	precedes := func(a, b int32) bool {
		x, y := keyOf(a), keyOf(b)
		return x < y || x == y && a < b
	}
	for x := 0; x < len(changes); x++ {
		c := changes[x]
		drag := func(j int32, key int64) bool {
			// The two jobs of a move may wait for each other: the move then has no place.
			if find(j) >= 0 || len(changes) >= maxDragged {
				return false
			}
			changes = append(changes, change{j, key, dec.plan[j]})
			return true
		}
		for _, e := range p.jobs[c.job].Before {
			if !precedes(e.Job, c.job) && !drag(e.Job, c.key-1) {
				return nil
			}
		}
		for _, e := range p.jobs[c.job].Behind {
			if !precedes(c.job, e.Job) && !drag(e.Job, c.key+1) {
				return nil
			}
		}
	}
	for _, c := range changes {
		for _, e := range p.jobs[c.job].Before {
			if !precedes(e.Job, c.job) {
				return nil
			}
		}
		for _, e := range p.jobs[c.job].Behind {
			if !precedes(c.job, e.Job) {
				return nil
			}
		}
	}
	return changes
}

// readyAt returns the time before which job j cannot start in the state that is decoded.
func (dec *decoder) readyAt(j int32) int64 {
	a := dec.form(j)
	ready := a.Release
	for _, e := range a.Before {
		ready = max(ready, dec.currentEnd(e.Job)+e.Lag)
	}
	return ready
}

// currentEnd returns the end of job j, as the trial places it if the trial has moved it.
func (dec *decoder) currentEnd(j int32) int64 {
	if dec.trialOf[j] == dec.trial {
		return dec.newEnd[j]
	}
	return dec.end[j]
}

// wake lets the trial decode the jobs again that wait for job j.
func (dec *decoder) wake(j int32) {
	for _, e := range dec.p.jobs[j].Behind {
		for _, k := range dec.p.columns(&dec.plan[e.Job]) {
			x := &dec.dirty[k]
			if !x.touched {
				dec.markDirty(k, dec.key[e.Job])
			}
			x.hi = max(x.hi, dec.key[e.Job])
			at := dec.find(k, e.Job)
			if x.active && x.next <= at {
				continue // the type is decoded up to hi
			}
			if !x.active {
				x.active = true
				dec.active = append(dec.active, k)
			}
			x.positioned, x.next = false, at
			x.from = min(x.from, at)
		}
	}
}

// move is try for the changes of a move, with those that dependencies need.
func (dec *decoder) move(changes ...change) (delta float64, ok bool) {
	if changes = dec.withDependencies(changes...); changes == nil {
		return 0, false
	}
	return dec.try(changes...)
}
