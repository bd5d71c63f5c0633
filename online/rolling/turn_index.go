package rolling

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// touch notes that a job's entries may be wrong.
func (ti *turnIndex) touch(l *list.Scheduler, j *list.JobState) {
	if ti.stale || planOf(j).turns.touched {
		return
	}
	planOf(j).turns.touched = true
	ti.touched = append(ti.touched, j)
	if len(ti.touched) > 2*len(l.Active())+64 { // nobody has asked for a long time
		ti.makeStale()
	}
}

func (ti *turnIndex) makeStale() {
	for _, j := range ti.touched {
		planOf(j).turns.touched = false
	}
	clear(ti.touched)
	ti.stale, ti.touched = true, ti.touched[:0]
}

// update brings the index up to date. It takes O(log jobs) for each job touched since the
// last call, and O(jobs log jobs) after a new plan, where GPUs have joined or left, where
// the curve of sizes was made again or a switch is believed to take another time, and, while
// there are newcomers, in each cell of the prices' grid.
func (ti *turnIndex) update(r *rolling) {
	l := r.l
	if ti.stale || ti.of == nil || ti.capacity != l.Capacity() || ti.version != r.belief.Version() ||
		ti.setupUs != r.setup.Us() {
		ti.rebuild(r)
		return
	}
	for _, j := range ti.touched {
		planOf(j).turns.touched = false
		if l.Job(j.Spec().ID) != j {
			ti.remove(j)
			continue
		}
		ti.place(r, j)
	}
	clear(ti.touched)
	ti.touched = ti.touched[:0]
	if ti.newcomers > 0 && ti.cell != r.plan.priceCell(l.NowUs()) {
		ti.rebuild(r)
	}
}

func (ti *turnIndex) rebuild(r *rolling) {
	l := r.l
	ti.makeStale()
	ti.stale, ti.capacity, ti.version, ti.cell, ti.newcomers = false, l.Capacity(), r.belief.Version(), -1, 0
	ti.setupUs = r.setup.Us()
	for len(ti.releases) < len(l.Types()) {
		ti.releases, ti.held = append(ti.releases, newGPUReleases()), append(ti.held, nil)
	}
	if ti.of == nil || len(ti.groups) > 4*len(l.Active())+64 {
		ti.of, ti.groups = map[groupOfTurns]*turnGroup{}, nil
	}
	for _, g := range ti.groups {
		g.list.clear()
	}
	if r.cfg.Aside && slices.ContainsFunc(l.Active(), r.isNew) {
		ti.cell = r.plan.priceCell(l.NowUs())
		ti.prices = r.plan.pricesAt(l.NowUs(), len(l.Types()))
	}
	ti.sorted = ti.sorted[:0]
	for _, j := range l.Active() {
		x := &planOf(j).turns
		x.group, x.stands, x.held = nil, nil, x.held[:0]
		if key, e, ok := ti.entry(r, j); ok {
			x.group, x.entry = ti.group(key), e
			ti.sorted = append(ti.sorted, e)
		}
		if key, e, ok := ti.newcomer(r, j); ok {
			ti.newcomers++
			x.stands, x.stand = ti.group(key), e
			ti.sorted = append(ti.sorted, e)
		}
		ti.hold(r, j)
		for _, h := range x.held {
			ti.held[h.gpuType] = append(ti.held[h.gpuType], h.heldGPUs)
		}
	}
	slices.SortFunc(ti.sorted, func(a, b turnEntry) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.Number(), b.job.Number()))
	})
	for _, e := range ti.sorted {
		if x := &planOf(e.job).turns; e.cheapest != 0 {
			x.stands.list.append(e)
		} else {
			x.group.list.append(e)
		}
	}
	clear(ti.sorted)
	for _, g := range ti.groups {
		g.list.settle()
	}
	for t, held := range ti.held {
		ti.releases[t].fill(held)
		clear(held)
		ti.held[t] = held[:0]
	}
}

func (ti *turnIndex) group(key groupOfTurns) *turnGroup {
	g := ti.of[key]
	if g == nil {
		g = &turnGroup{groupOfTurns: key}
		g.list.before, g.list.summarize, g.list.join = (*turnEntry).before, ti.summarize, ti.join
		g.list.add, g.list.tight = (*turnEntry).addTo, (*turnEntry).tightIn
		ti.of[key] = g
		ti.groups = append(ti.groups, g)
	}
	return g
}

// place brings the entries of one job up to date.
func (ti *turnIndex) place(r *rolling, j *list.JobState) {
	x := &planOf(j).turns
	if key, e, ok := ti.entry(r, j); !ok {
		ti.removeEntry(x)
	} else if x.group != nil && x.group.groupOfTurns == key && x.entry.key == e.key {
		x.entry = e
		x.group.list.replace(e)
	} else {
		ti.removeEntry(x)
		x.group, x.entry = ti.group(key), e
		x.group.list.insert(e)
	}
	ti.removeStand(x)
	if key, e, ok := ti.newcomer(r, j); ok {
		x.stands, x.stand = ti.group(key), e
		ti.newcomers++
		if ti.cell >= 0 {
			x.stands.list.insert(e)
		}
	}
	ti.removeHeld(x)
	ti.hold(r, j)
	for i := range x.held {
		ti.releases[x.held[i].gpuType].insert(&x.held[i].heldGPUs)
	}
}

// remove removes the entries of a job.
func (ti *turnIndex) remove(j *list.JobState) {
	ti.removeEntry(&planOf(j).turns)
	ti.removeStand(&planOf(j).turns)
	ti.removeHeld(&planOf(j).turns)
}

func (ti *turnIndex) removeEntry(x *jobTurns) {
	if x.group != nil {
		x.group.list.remove(&x.entry)
		x.group = nil
	}
}

func (ti *turnIndex) removeStand(x *jobTurns) {
	if x.stands != nil {
		x.stands.list.remove(&x.stand)
		x.stands = nil
		ti.newcomers--
	}
}

func (ti *turnIndex) removeHeld(x *jobTurns) {
	for i := range x.held {
		ti.releases[x.held[i].gpuType].remove(&x.held[i].heldGPUs)
	}
	x.held = x.held[:0]
}

// hold lists the GPUs that a job holds.
func (ti *turnIndex) hold(r *rolling, j *list.JobState) {
	if len(j.GPUs()) == 0 {
		return
	}
	for _, m := range j.Modes() {
		if h, ok := r.heldOf(j, m.Type); ok {
			planOf(j).turns.held = append(planOf(j).turns.held, typedHeld{m.Type, h})
		}
	}
}

// onUs fills what a start of a job would hold GPUs of each type for, with those modes in
// which a round takes at most slowestUs.
func (ti *turnIndex) onUs(r *rolling, j *list.JobState, modes []list.Mode, on *[]int64, slowestUs int64) []int64 {
	if len(*on) != len(ti.releases) {
		*on = make([]int64, len(ti.releases))
	}
	for t := range *on {
		(*on)[t] = math.MaxInt64
	}
	for _, m := range modes {
		if m.DurationUs <= slowestUs {
			(*on)[m.Type] = r.holdsUs(j, m.DurationUs)
		}
	}
	return *on
}

// entry is that of a job with rows, or of a job without rows that waits.
func (ti *turnIndex) entry(r *rolling, j *list.JobState) (groupOfTurns, turnEntry, bool) {
	ready := j.Ready() > 0
	e := turnEntry{job: j, turnNeeds: turnNeeds{tasks: j.Width(), perTask: j.Spec().TaskGPUs(),
		waits: ready && len(j.GPUs()) == 0, density: math.Inf(1)}}
	row := nextRow(j)
	if row == nil {
		return ti.fillEntry(r, j, e)
	}
	e.key, e.startUs = turnUs(r.l, j, row), row.StartUs
	key := groupOfTurns{kind: plannedTurns, width: bits.Len64(uint64(e.tasks))}
	for _, c := range row.Types {
		key.types |= 1 << c.Type
	}
	if e.waits && ti.cell >= 0 && e.key == e.startUs { // no newcomer goes before a job that goes on
		e.density = r.densityOf(j, ti.prices)
	}
	switch {
	case taskByTask(j):
		e.waits, e.tasks, e.onUs = ready, j.Spec().TaskGPUs(), ti.onUs(r, j, j.Modes(), &planOf(j).turns.onUs,
			math.MaxInt64)
		return groupOfTurns{kind: taskTurns, width: 1}, e, true
	case len(j.GPUs()) > 0:
		e.strays = j.Spec().Sync != hare.Rigid && !r.holds(j, row)
	case ready:
		e.rowUs = r.holdsUs(j, longestUs(j, row.Types))
		if j.Spec().Sync != hare.Rigid {
			e.onUs = ti.onUs(r, j, j.Modes(), &planOf(j).turns.onUs, math.MaxInt64)
		}
	}
	return key, e, true
}

// fillEntry is that of a job without rows.
func (ti *turnIndex) fillEntry(r *rolling, j *list.JobState, e turnEntry) (groupOfTurns, turnEntry, bool) {
	l := r.l
	if j.Ready() == 0 {
		return groupOfTurns{}, e, false
	}
	hold, mix := j.Hold(), false
	if !j.RoundBegun() {
		hold, _ = l.Holding(j)
	}
	if hold != hare.Relaxed && len(j.GPUs()) > 0 {
		return groupOfTurns{}, e, false
	}
	e.key, e.waits = int64(j.Number()), true
	if hold == hare.Relaxed {
		e.tasks, e.onUs = j.Spec().TaskGPUs(), ti.onUs(r, j, j.Modes(), &planOf(j).turns.onUs, math.MaxInt64)
		return groupOfTurns{kind: fillTasks, width: 1}, e, true
	}
	_, mix = l.Holding(j)
	e.onUs = ti.onUs(r, j, j.Modes(), &planOf(j).turns.onUs, slowestWithoutRow(l, j))
	if mix {
		return groupOfTurns{kind: fillMixed, width: 1}, e, true
	}
	return groupOfTurns{kind: fillTurns, width: bits.Len64(uint64(e.tasks))}, e, true
}

// newcomer is the entry of a job that waits and that came after the plan's question.
func (ti *turnIndex) newcomer(r *rolling, j *list.JobState) (groupOfTurns, turnEntry, bool) {
	if !r.cfg.Aside || !r.isNew(j) || j.Ready() == 0 || len(j.GPUs()) > 0 || taskByTask(j) {
		return groupOfTurns{}, turnEntry{}, false
	}
	e := turnEntry{job: j, turnNeeds: turnNeeds{tasks: j.Width(), perTask: j.Spec().TaskGPUs(), waits: true,
		density: math.Inf(1)}}
	key := groupOfTurns{kind: newTurns, width: bits.Len64(uint64(e.tasks))}
	if ti.cell < 0 { // the entry only says that there are newcomers
		return key, e, true
	}
	n, ok := r.newcomer(r.l, j, ti.prices)
	if !ok {
		return key, e, false
	}
	// Densities are not negative, and the bits of such numbers are in their order.
	e.key = -int64(math.Float64bits(n.density))
	e.cheapest = 1 << n.modes[0].Type
	e.onUs = ti.onUs(r, j, n.modes, &planOf(j).turns.standOnUs, slowestUnplanned*r.l.RoundUs(j))
	return key, e, true
}

// settle finds the rounds that have become overdue.
func (gr *gpuReleases) settle(nowUs int64, gpuType int) {
	for !gr.rounds.empty() {
		h := *gr.rounds.first()
		if h.endUs >= nowUs {
			return
		}
		gr.remove(&h)
		h.overdue = true
		gr.insert(&h)
		held := planOf(h.job).turns.held
		held[slices.IndexFunc(held, func(t typedHeld) bool { return t.gpuType == gpuType })].overdue = true
	}
}
