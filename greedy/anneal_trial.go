package greedy

import (
	"math"
	"slices"
	"sort"
)

// change is a move: it gives a job another position in the order, another plan, or both.
type change struct {
	job  int32
	key  int64
	plan jobPlan
}

// undoEntry is what a change replaced: an entry of the undo log.
type undoEntry struct {
	change
	snapshot [maxSet]int32
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
			x.changed = x.changed || slices.Contains(dec.p.columns(&u.plan), k) != slices.Contains(dec.p.columns(&c.plan), k)
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
func (dec *decoder) currentSegments(j int32) []segment {
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
		(!x.changed || e.snapshot != 0 && dec.capacities[k].equal(dec.snapshots[e.snapshot])) {
		dec.finishType(k)
		return true
	}
	if dec.delta > dec.abortAbove && dec.pastChanges() {
		return false
	}
	plan := &dec.plan[j]
	if plan.n > 1 {
		return dec.stepMultiType(j, plan)
	}
	dec.work++
	form := dec.form(j)
	ready := form.release
	if len(form.before) > 0 {
		ready = dec.readyAt(j)
	}
	end, ok := dec.finder.placeFrom(form, ready, plan, dec.capacities)
	if !ok {
		return false
	}
	dec.record(j, end)
	dec.reserve(k, j, dec.finder.segments)
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
	if slices.Equal(old, dec.finder.segments) {
		return
	}
	for _, k := range dec.p.columns(&dec.plan[j]) {
		dec.dirty[k].changed = true
	}
	if a := &dec.p.jobs[j]; a.late > 0 {
		dec.delta += a.cost(end) - a.cost(dec.end[j])
	} else {
		dec.delta += a.weight * float64(end-dec.end[j])
	}
	dec.trialOf[j] = dec.trial
	dec.changed = append(dec.changed, j)
	dec.newSegments[j] = append(dec.newSegments[j][:0], dec.finder.segments...)
	dec.newEnd[j] = end
	if end != dec.end[j] {
		dec.wake(j)
	}
}

// stepMultiType places a job whose plan covers several types. A type that is clean at
// the job's position becomes dirty only if the job now uses it differently.
func (dec *decoder) stepMultiType(j int32, plan *jobPlan) bool {
	var fresh [maxSet]bool
	var places [maxSet]int
	for n, k := range plan.uses() {
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
	dec.work += int64(plan.n)
	end, ok := dec.finder.placeFrom(dec.form(j), dec.readyAt(j), plan, dec.capacities)
	if !ok {
		return false
	}
	for n, k := range plan.uses() {
		x := &dec.dirty[k]
		if fresh[n] {
			if sameUse(k, dec.segments[j], dec.finder.segments) {
				continue
			}
			if !x.active {
				x.active = true
				dec.active = append(dec.active, k)
			}
			x.positioned, x.next = true, places[n]
			x.from = min(x.from, x.next)
		}
		dec.reserve(k, j, dec.finder.segments)
		x.next++
		x.position = x.next
	}
	dec.record(j, end)
	return true
}

// sameUse reports whether a and b hold the same GPUs of type k at the same times.
func sameUse(k int16, a, b []segment) bool {
	i := 0
	for _, x := range a {
		if x.typ != k {
			continue
		}
		for i < len(b) && b[i].typ != k {
			i++
		}
		if i == len(b) || b[i].pool != x.pool || b[i].width != x.width || b[i].start != x.start || b[i].end != x.end ||
			b[i].lead != x.lead {
			return false
		}
		i++
	}
	for ; i < len(b); i++ {
		if b[i].typ == k {
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
