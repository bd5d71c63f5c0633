package rolling

import (
	"math"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare/online/list"
)

// eachTurn visits the jobs that may start or reserve GPUs at their turns: the jobs of the
// plan by their turns, and newcomers between them. It ends where no GPU is
// free, because what is reserved from there on would keep nobody from a start.
func (ti *turnIndex) eachTurn(r *rolling) {
	l := r.l
	for _, g := range ti.groups {
		g.rewind()
		switch {
		case g.kind == plannedTurns || g.kind == taskTurns || g.kind == newTurns && ti.cell >= 0:
			g.advance(r, atTurn{})
		}
	}
	var stands, before *turnEntry // a newcomer, and the job of the plan before which it stands
	for l.AnyFree() {
		planned, newest := ti.first(plannedTurns, taskTurns), ti.first(newTurns, newTurns)
		if newest != nil {
			if n := newest.head; stands != n {
				stands, before = n, ti.standsBefore(math.Float64frombits(uint64(-n.key)))
			}
			if planned == nil || before != nil && !planned.head.before(before) {
				ti.visitNewcomer(r, newest.head.job, before)
				newest.at.entry++
				newest.advance(r, atTurn{})
				continue
			}
		}
		if planned == nil {
			return
		}
		if e := planned.head; (atTurn{}).entry(planned, r, e) {
			r.visit(e.job, nextRow(e.job))
		}
		planned.at.entry++
		planned.advance(r, atTurn{})
	}
}

// visitNewcomer starts a newcomer that stands before a job of the plan, or behind all where
// that is nil, or reserves GPUs for the newcomer.
func (ti *turnIndex) visitNewcomer(r *rolling, j *list.JobState, before *turnEntry) {
	startUs := r.l.NowUs()
	if before != nil {
		startUs = before.key
	} else {
		for _, g := range ti.groups {
			if !g.list.empty() && (g.kind == plannedTurns || g.kind == taskTurns) {
				startUs = max(startUs, g.list.last().key)
			}
		}
	}
	r.l.OpenRound(j)
	if n, ok := r.newcomer(r.l, j, ti.prices); ok {
		t := n.turn(startUs)
		r.startNewcomer(&t)
	}
}

// standsBefore is the first job of the plan that waits and has less than a density; nil
// where there is none.
func (ti *turnIndex) standsBefore(density float64) *turnEntry {
	var first *turnEntry
	for _, g := range ti.groups {
		if g.kind != plannedTurns && g.kind != taskTurns {
			continue
		}
		e, _ := g.list.next(chunkPlace{}, func(sum *turnSum) bool { return !(sum.density < density) },
			func(e *turnEntry) bool { return e.waits && e.density < density })
		if e != nil && (first == nil || e.before(first)) {
			first = e
		}
	}
	return first
}

// eachToFill tries the jobs of groups of some kinds that wait, in their order, as long as
// GPUs are free.
func (ti *turnIndex) eachToFill(r *rolling, low, high turnKind) {
	for _, g := range ti.groups {
		if g.kind >= low && g.kind <= high {
			g.rewind()
			g.advance(r, toFill{})
		}
	}
	for r.l.AnyFree() {
		g := ti.first(low, high)
		if g == nil {
			return
		}
		if e := g.head; (toFill{}).entry(g, r, e) {
			r.fillWith(e.job)
		}
		g.at.entry++
		g.advance(r, toFill{})
	}
}

// first is the group of a kind between two whose head goes before the others.
func (ti *turnIndex) first(low, high turnKind) *turnGroup {
	var first *turnGroup
	for _, g := range ti.groups {
		if g.head != nil && g.kind >= low && g.kind <= high && (first == nil || g.head.before(first.head)) {
			first = g
		}
	}
	return first
}

// A turnTest says whether a job may start or reserve GPUs, or whether one of the jobs of a
// summary may. It may be wrong about the latter, and then says yes.
type turnTest interface {
	entry(g *turnGroup, r *rolling, e *turnEntry) bool
	sum(g *turnGroup, r *rolling, sum *turnSum) bool
	group(g *turnGroup, r *rolling) bool
}

func (g *turnGroup) rewind() { g.at, g.head = chunkPlace{}, nil }

// advance finds the head from the present place on. What jobs may do only becomes less
// during an assignment, so that who is passed now is passed rightly.
func (g *turnGroup) advance(r *rolling, test turnTest) {
	g.head = nil
	if !test.group(g, r) {
		return
	}
	g.head, g.at = g.list.next(g.at, func(sum *turnSum) bool { return !test.sum(g, r, sum) },
		func(e *turnEntry) bool { return test.entry(g, r, e) })
}

// least is the least number of GPUs that a start of a job of the group takes.
func (g *turnGroup) least() int64 {
	if g.kind == fillMixed {
		return 1
	}
	return 1 << max(0, g.width-1)
}

// open reports whether the group's jobs may still reserve GPUs of some type of theirs.
func (g *turnGroup) open(r *rolling) bool { return r.anyOf(g.types) }

// rowFits reports whether jobs may start on GPUs of all types of the group, which they would
// hold for us, if each type needs some GPUs.
func (g *turnGroup) rowFits(r *rolling, gpus, perTask, us int64) bool {
	if g.types&(g.types-1) != 0 {
		gpus = 1 // of each type some, and of all together the job's tasks
	}
	for types := g.types; types != 0; types &= types - 1 {
		if !r.fitsFor(bits.TrailingZeros64(types), gpus, perTask, us) {
			return false
		}
	}
	return true
}

// fitsFor reports whether GPUs of a type are free, perTask of them on one node, and come back after us before they
// are due to a job that goes before.
func (r *rolling) fitsFor(gpuType int, gpus, perTask, us int64) bool {
	v := &r.reserved[gpuType]
	return r.free[gpuType] >= gpus && (!v.made || v.extra >= gpus && v.chunk >= perTask || us <= v.shadowUs-r.l.NowUs())
}

// fitsSomewhere reports whether a start on GPUs of some type fits.
func (r *rolling) fitsSomewhere(needs *turnNeeds) bool {
	for t, us := range needs.onUs {
		if us < math.MaxInt64 && r.fitsFor(t, needs.tasks, needs.perTask, us) {
			return true
		}
	}
	return false
}

// anyFreeFor reports whether so many GPUs of a type are free.
func (r *rolling) anyFreeFor(gpus int64) bool {
	for _, n := range r.free {
		if n >= gpus {
			return true
		}
	}
	return false
}

// atTurn tests for jobs at their turns.
type atTurn struct{}

func (atTurn) group(g *turnGroup, r *rolling) bool {
	switch {
	case g.list.empty():
		return false
	case g.kind == plannedTurns:
		return g.open(r) || g.rowFits(r, g.least(), 1, 0)
	case g.kind == taskTurns:
		return true
	}
	return r.anyFreeFor(g.least()) || r.index.anyOpen(r)
}

// anyOpen reports whether GPUs of some type are not reserved.
func (ti *turnIndex) anyOpen(r *rolling) bool {
	return slices.ContainsFunc(r.reserved, func(v gpuReservation) bool { return !v.made })
}

// anyOf reports whether GPUs of some type of a set are not reserved.
func (r *rolling) anyOf(types uint64) bool {
	for ; types != 0; types &= types - 1 {
		if !r.reserved[bits.TrailingZeros64(types)].made {
			return true
		}
	}
	return false
}

func (at atTurn) sum(g *turnGroup, r *rolling, sum *turnSum) bool {
	return at.may(g, r, &sum.turnNeeds)
}

func (at atTurn) entry(g *turnGroup, r *rolling, e *turnEntry) bool {
	return at.may(g, r, &e.turnNeeds)
}

func (atTurn) may(g *turnGroup, r *rolling, needs *turnNeeds) bool {
	switch g.kind {
	case plannedTurns:
		if g.open(r) {
			return needs.waits || needs.strays
		}
		return needs.waits && g.rowFits(r, needs.tasks, needs.perTask, needs.rowUs)
	case taskTurns:
		return needs.waits && r.fitsSomewhere(needs)
	}
	return r.anyOf(needs.cheapest) || r.fitsSomewhere(needs)
}

// toFill tests for jobs that may run a round elsewhere than the plan says, or without a
// place in the plan.
type toFill struct{}

func (toFill) group(g *turnGroup, r *rolling) bool {
	return !g.list.empty() && r.anyFreeFor(g.least())
}

func (fill toFill) sum(g *turnGroup, r *rolling, sum *turnSum) bool {
	return fill.may(g, r, &sum.turnNeeds, func(t int) int64 { return sum.slackUs[t] })
}

func (fill toFill) entry(g *turnGroup, r *rolling, e *turnEntry) bool {
	return fill.may(g, r, &e.turnNeeds, func(t int) int64 { return e.startUs - e.onUs[t] })
}

// may takes the latest start by type that ends before the row.
func (toFill) may(g *turnGroup, r *rolling, needs *turnNeeds, slackUs func(gpuType int) int64) bool {
	switch {
	case !needs.waits:
		return false
	case g.kind == plannedTurns:
		return g.fitsBefore(r, needs, slackUs)
	case g.kind == fillMixed && r.sumFree() >= needs.tasks:
		return true
	}
	return r.fitsSomewhere(needs)
}

func (r *rolling) sumFree() (sum int64) {
	for _, n := range r.free {
		sum += n
	}
	return sum
}

// fitsBefore reports whether a round fits on GPUs of some type and ends before the job's
// turn: before GPUs of the row's types are expected to be free, or, where slackUs is the
// latest start of the round on a type, before the start of the row.
func (g *turnGroup) fitsBefore(r *rolling, needs *turnNeeds, slackUs func(gpuType int) int64) bool {
	shadowUs := int64(math.MinInt64)
	for types := g.types; types != 0; types &= types - 1 {
		if v := &r.reserved[bits.TrailingZeros64(types)]; v.made {
			shadowUs = max(shadowUs, v.shadowUs)
		}
	}
	nowUs := r.l.NowUs()
	for t, us := range needs.onUs {
		if us == math.MaxInt64 {
			continue
		}
		inTime := nowUs <= shadowUs && us <= shadowUs-nowUs || slackUs(t) >= nowUs
		if inTime && r.fitsFor(t, needs.tasks, needs.perTask, us) {
			return true
		}
	}
	return false
}
