package greedy

import (
	"math"
	"slices"
	"sort"
)

// entry is a job in the sequence of a type. snap, if not 0, is a snapshot of
// the type's track just before the job takes its GPUs.
type entry struct {
	job, snap int32
}

// change gives a job another place in the order or another plan.
type change struct {
	job  int32
	key  int64
	plan jobPlan
}

// decoder holds an order of jobs (by key, then job) and a plan for each, and
// what decoding them one after another yields. A trial changes one or two jobs
// and decodes again only the types whose content changes, from the last
// snapshot before the change until the track is as it was before; commit keeps
// it, rollback forgets it.
//
// A type's sequence holds the jobs that use it, so that a snapshot depends on
// nothing but the jobs before it in the same sequence, wherever these stand in
// the whole order.
type decoder struct {
	p    *annealProblem
	sc   *scout
	key  []int64
	plan []jobPlan
	segs [][]seg
	end  []int64
	seq  [][]entry // by type

	snaps  []track // 0 is not used
	owner  []int16 // type of a snapshot
	unused [][]int32
	// gap is the number of jobs from one snapshot to the next, by type.
	gap []int

	// limit is the rise of value at which a trial is given up once it is past
	// the places changed: what follows only ripples.
	limit  float64
	work   int64 // jobs placed so far
	delta  float64
	undo   []undone
	dirty  []dirt // by type
	seen   []int16
	open   []int16 // types being decoded
	tracks []track // by type
	// Of the jobs that the trial places elsewhere:
	moved   []int32
	stamp   []int64
	trial   int64
	newSegs [][]seg
	newEnd  []int64
}

// undone is what a change replaced.
type undone struct {
	change
	snap [maxSet]int32
}

// dirt is the part of a type's sequence that a trial decodes.
type dirt struct {
	seen     bool
	open     bool
	wound    bool  // the track is at entry at
	changed  bool  // the jobs on the type or what they hold
	lo, hi   int64 // least and greatest key changed
	from, to int   // entries whose track before them may have changed
	at       int   // next entry to place
	// pos is the entry before which the track stands, −1 when that is unknown.
	pos int
}

func newDecoder(p *annealProblem) *decoder {
	n, types := len(p.jobs), len(p.empty)
	d := &decoder{p: p, sc: newScout(p), key: make([]int64, n), plan: make([]jobPlan, n), segs: make([][]seg, n),
		end: make([]int64, n), seq: make([][]entry, types), snaps: make([]track, 1), owner: make([]int16, 1),
		unused: make([][]int32, types), gap: make([]int, types), dirty: make([]dirt, types),
		limit: math.Inf(1), stamp: make([]int64, n), newSegs: make([][]seg, n), newEnd: make([]int64, n)}
	for k := range p.empty {
		d.tracks = append(d.tracks, newTrack(p.empty[k]))
	}
	return d
}

// load replaces the state by keys and plans and decodes it whole. It reports
// false when a job finds no place; the state is then of no use.
func (d *decoder) load(key []int64, plan []jobPlan) bool {
	copy(d.key, key)
	copy(d.plan, plan)
	for k := range d.seq {
		for _, e := range d.seq[k] {
			d.release(e.snap)
		}
		d.seq[k] = d.seq[k][:0]
		d.tracks[k].copyFrom(d.p.empty[k])
	}
	for _, j := range d.order() {
		end, ok := d.sc.place(&d.p.jobs[j], &d.plan[j], d.tracks)
		if !ok {
			return false
		}
		d.end[j] = end
		d.segs[j] = append(d.segs[j][:0], d.sc.segs...)
		for _, k := range d.plan[j].uses() {
			d.take(k, d.segs[j])
			d.seq[k] = append(d.seq[k], entry{job: j})
		}
	}
	d.work += int64(len(d.key))
	for k := range d.seq {
		d.gap[k] = max(8, len(d.seq[k])/64)
		d.resnap(int16(k), 0, len(d.seq[k]))
	}
	return true
}

// order lists the jobs by key.
func (d *decoder) order() []int32 {
	order := make([]int32, len(d.key))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case d.before(a, b):
			return -1
		case d.before(b, a):
			return 1
		}
		return 0
	})
	return order
}

func (d *decoder) before(a, b int32) bool {
	return d.key[a] < d.key[b] || d.key[a] == d.key[b] && a < b
}

// value is the sum of w (C − a) in weight-seconds.
func (d *decoder) value() float64 {
	v := 0.0
	for i := range d.p.jobs {
		v += d.p.jobs[i].weight * float64(d.end[i]-d.p.jobs[i].release)
	}
	return v
}

// take holds on type k the GPUs of those segs that lie on it.
func (d *decoder) take(k int16, segs []seg) {
	for i := range segs {
		if x := &segs[i]; x.typ == k {
			s := &d.tracks[k][x.pool]
			s.take(s.index(x.start), x.start, x.end, int64(x.width))
		}
	}
}

// find is the place of job j in the sequence of type k.
func (d *decoder) find(k int16, j int32) int {
	seq := d.seq[k]
	return sort.Search(len(seq), func(i int) bool { return !d.before(seq[i].job, j) })
}

func (d *decoder) insert(k int16, j, snap int32) {
	d.seq[k] = slices.Insert(d.seq[k], d.find(k, j), entry{j, snap})
}

func (d *decoder) remove(k int16, j int32) (snap int32) {
	i := d.find(k, j)
	snap = d.seq[k][i].snap
	d.seq[k] = slices.Delete(d.seq[k], i, i+1)
	return snap
}

// touch notes that type k changes at key.
func (d *decoder) touch(k int16, key int64) {
	x := &d.dirty[k]
	if !x.seen {
		*x = dirt{seen: true, lo: key, hi: key, from: math.MaxInt, pos: -1}
		d.seen = append(d.seen, k)
	}
	x.lo, x.hi = min(x.lo, key), max(x.hi, key)
}

// try applies changes of different jobs and returns by how much they raise the
// value. It reports false when a job finds no place. Either commit or rollback
// must follow.
func (d *decoder) try(changes ...change) (delta float64, ok bool) {
	d.trial++
	d.delta = 0
	for i := range changes {
		c := &changes[i]
		u := undone{change: change{c.job, d.key[c.job], d.plan[c.job]}}
		for n, k := range d.plan[c.job].uses() {
			u.snap[n] = d.remove(k, c.job)
			d.touch(k, d.key[c.job])
		}
		d.undo = append(d.undo, u)
		for _, k := range c.plan.uses() {
			d.touch(k, c.key)
		}
		for _, k := range d.seen {
			x := &d.dirty[k]
			x.changed = x.changed || slices.Contains(u.plan.uses(), k) != slices.Contains(c.plan.uses(), k)
		}
	}
	for i := range changes {
		d.key[changes[i].job], d.plan[changes[i].job] = changes[i].key, changes[i].plan
	}
	for i := range changes {
		c := &changes[i]
		for _, k := range c.plan.uses() {
			d.insert(k, c.job, 0)
		}
	}
	for _, k := range d.seen {
		x := &d.dirty[k]
		from := sort.Search(len(d.seq[k]), func(i int) bool { return d.key[d.seq[k][i].job] >= x.lo })
		x.from, x.at, x.open = from, from, true
		d.open = append(d.open, k)
	}
	for len(d.open) > 0 {
		if !d.step() {
			return 0, false
		}
	}
	return d.delta, true
}

// current are the segs of job j, in the trial where it has moved.
func (d *decoder) current(j int32) []seg {
	if d.stamp[j] == d.trial {
		return d.newSegs[j]
	}
	return d.segs[j]
}

// shut ends the decoding of type k before its entry at.
func (d *decoder) shut(k int16) {
	x := &d.dirty[k]
	x.to = x.at
	x.open, x.wound = false, false
	d.open = slices.DeleteFunc(d.open, func(o int16) bool { return o == k })
}

// step places the first job that is due on an open type, or shuts a type whose
// end is reached or whose track is as it was. It reports false when the job
// finds no place.
func (d *decoder) step() bool {
	k, j := int16(-1), int32(-1)
	for _, o := range d.open {
		x := &d.dirty[o]
		if x.at == len(d.seq[o]) {
			d.shut(o)
			return true
		}
		if e := d.seq[o][x.at].job; j < 0 || d.before(e, j) {
			k, j = o, e
		}
	}
	x := &d.dirty[k]
	if !x.wound {
		// The entry may carry a snapshot from before the change.
		d.wind(k, x.at, x.at-1)
		x.wound = true
	}
	if e := d.seq[k][x.at]; d.key[j] > x.hi && (!x.changed || e.snap != 0 && d.tracks[k].equal(d.snaps[e.snap])) {
		d.shut(k)
		return true
	}
	if d.delta > d.limit && d.ripples() {
		return false
	}
	plan := &d.plan[j]
	if plan.n > 1 {
		return d.stepWide(j, plan)
	}
	d.work++
	end, ok := d.sc.place(&d.p.jobs[j], plan, d.tracks)
	if !ok {
		return false
	}
	d.record(j, end)
	d.take(k, d.sc.segs)
	x.at++
	x.pos = x.at
	return true
}

// ripples says whether all open types are past the places changed.
func (d *decoder) ripples() bool {
	for _, k := range d.open {
		if x := &d.dirty[k]; x.at < len(d.seq[k]) && d.key[d.seq[k][x.at].job] <= x.hi {
			return false
		}
	}
	return true
}

// record notes that the trial ends job j at end, on sc.segs.
func (d *decoder) record(j int32, end int64) {
	old := d.segs[j]
	if slices.Equal(old, d.sc.segs) {
		return
	}
	for _, k := range d.plan[j].uses() {
		d.dirty[k].changed = true
	}
	d.delta += d.p.jobs[j].weight * float64(end-d.end[j])
	d.stamp[j] = d.trial
	d.moved = append(d.moved, j)
	d.newSegs[j] = append(d.newSegs[j][:0], d.sc.segs...)
	d.newEnd[j] = end
}

// stepWide places a job whose plan covers several types. Types that are clean
// there become dirty only where the job uses them in another way than before.
func (d *decoder) stepWide(j int32, plan *jobPlan) bool {
	var fresh [maxSet]bool
	var places [maxSet]int
	for n, k := range plan.uses() {
		x := &d.dirty[k]
		if x.wound {
			continue
		}
		at := d.find(k, j)
		if x.open && x.at == at {
			d.wind(k, at, at-1)
			x.wound = true
			continue
		}
		// Clean, or changed by later jobs alone.
		if !x.seen {
			d.touch(k, d.key[j])
		}
		d.wind(k, at, at)
		fresh[n], places[n] = true, at
	}
	d.work += int64(plan.n)
	end, ok := d.sc.place(&d.p.jobs[j], plan, d.tracks)
	if !ok {
		return false
	}
	for n, k := range plan.uses() {
		x := &d.dirty[k]
		if fresh[n] {
			if sameUse(k, d.segs[j], d.sc.segs) {
				continue
			}
			if !x.open {
				x.open = true
				d.open = append(d.open, k)
			}
			x.wound, x.at = true, places[n]
			x.from = min(x.from, x.at)
		}
		d.take(k, d.sc.segs)
		x.at++
		x.pos = x.at
	}
	d.record(j, end)
	return true
}

// sameUse says whether a and b hold the same GPUs of type k at the same times.
func sameUse(k int16, a, b []seg) bool {
	i := 0
	for _, x := range a {
		if x.typ != k {
			continue
		}
		for i < len(b) && b[i].typ != k {
			i++
		}
		if i == len(b) || b[i].pool != x.pool || b[i].width != x.width || b[i].start != x.start || b[i].end != x.end {
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
func (d *decoder) commit() {
	for _, j := range d.moved {
		d.segs[j], d.newSegs[j] = d.newSegs[j], d.segs[j]
		d.end[j] = d.newEnd[j]
	}
	for i := range d.undo {
		for _, s := range d.undo[i].snap {
			d.release(s)
		}
	}
	d.forget()
	for _, k := range d.seen {
		if x := d.dirty[k]; x.from < x.to {
			d.resnap(k, x.from, x.to)
		}
		d.dirty[k] = dirt{}
	}
	d.seen = d.seen[:0]
}

// rollback returns to the state before the last trial.
func (d *decoder) rollback() {
	for i := range d.undo {
		j := d.undo[i].job
		for _, k := range d.plan[j].uses() {
			d.remove(k, j)
		}
	}
	for i := range d.undo {
		u := &d.undo[i]
		d.key[u.job], d.plan[u.job] = u.key, u.plan
	}
	for i := range d.undo {
		u := &d.undo[i]
		for n, k := range u.plan.uses() {
			d.insert(k, u.job, u.snap[n])
		}
	}
	d.forget()
	for _, k := range d.seen {
		d.dirty[k] = dirt{}
	}
	d.seen = d.seen[:0]
}

func (d *decoder) forget() {
	d.trial++
	d.moved, d.undo, d.open = d.moved[:0], d.undo[:0], d.open[:0]
}
