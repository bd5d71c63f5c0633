package rolling

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// turnIndex keeps the jobs of rolling in the order of their turns from event to event. An
// assignment looks at the jobs that may start or reserve GPUs, instead of at all jobs: it
// looks at some others too, which then do nothing. During an assignment the index is as it
// was at the beginning.
type turnIndex struct {
	stale   bool             // whether everything may be wrong
	touched []*list.JobState // jobs whose entries may be wrong
	// What the index was made with.
	capacity, version int64
	setupUs           int64
	cell              int // of the prices; −1 where there were no newcomers
	prices            []float64

	groups []*turnGroup // of the jobs in the plan, of newcomers, and of all jobs without rows
	of     map[groupOfTurns]*turnGroup
	// releases are the GPUs that jobs hold, by type.
	releases  []*gpuReleases
	newcomers int // the entries of newcomers
	sorted    []turnEntry
	held      [][]heldGPUs
}

// turnKind says which jobs a turnGroup has, and in which order.
type turnKind uint8

const (
	plannedTurns turnKind = iota // jobs with rows, by their turns
	taskTurns                    // the same, of which tasks start one by one
	newTurns                     // newcomers, by weighted shortest time
	fillTurns                    // jobs without rows, by arrival
	fillMixed                    // the same, for rounds that mix types
	fillTasks                    // the same, of which tasks start one by one
)

// groupOfTurns are jobs that need the same: about as many GPUs at once, of the types of
// their rows. Types are a set with a bit for each.
type groupOfTurns struct {
	kind  turnKind
	types uint64
	width int // the binary digits of the number of GPUs
}

type turnGroup struct {
	groupOfTurns
	list orderedChunks[turnEntry, turnSum]
	// Those below are of one assignment.
	at   chunkPlace
	head *turnEntry // the next job at which to look; nil where there is none
}

// turnEntry is a job in a turnGroup.
type turnEntry struct {
	key     int64 // the order; ties go by arrival
	startUs int64 // of the row
	job     *list.JobState
	turnNeeds
}

// turnNeeds is what a start of a job needs. Of several jobs it is what a start of one of them
// needs at least.
type turnNeeds struct {
	tasks   int64 // GPUs that a start takes
	perTask int64 // of these, GPUs that must be on one node
	waits   bool
	strays  bool  // whether the job runs elsewhere than its row says
	rowUs   int64 // for how long a start on the row's GPUs would hold them
	density float64
	// onUs is for how long a start would hold GPUs of each type: math.MaxInt64 where the job
	// may not run. cheapest is the set with a newcomer's cheapest type.
	onUs     []int64
	cheapest uint64
}

func (te *turnEntry) before(o *turnEntry) bool {
	return te.key < o.key || te.key == o.key && te.job.Number() < o.job.Number()
}

// turnSum is the summary of a chunk or a block of entries: the least needs of its jobs that wait, and
// whether one of all its jobs strays.
type turnSum struct {
	turnNeeds
	slackUs []int64 // the greatest difference of startUs and onUs, for jobs with rows
}

// reset is the summary of no entry, for so many types.
func (ts *turnSum) reset(types int) {
	*ts = turnSum{slackUs: ts.slackUs, turnNeeds: turnNeeds{tasks: math.MaxInt64, perTask: math.MaxInt64,
		rowUs: math.MaxInt64, density: math.Inf(1), onUs: ts.onUs}}
	if len(ts.onUs) != types {
		ts.onUs, ts.slackUs = make([]int64, types), make([]int64, types)
	}
	for t := range ts.onUs {
		ts.onUs[t], ts.slackUs[t] = math.MaxInt64, math.MinInt64
	}
}

func (ti *turnIndex) join(chunks []*chunk[turnEntry, turnSum], sum *turnSum) {
	sum.reset(len(ti.releases))
	for _, c := range chunks {
		of := &c.sum
		sum.waits, sum.strays, sum.cheapest = sum.waits || of.waits, sum.strays || of.strays, sum.cheapest|of.cheapest
		sum.tasks, sum.rowUs, sum.density = min(sum.tasks, of.tasks), min(sum.rowUs, of.rowUs), min(sum.density, of.density)
		sum.perTask = min(sum.perTask, of.perTask)
		for t := range sum.onUs {
			sum.onUs[t], sum.slackUs[t] = min(sum.onUs[t], of.onUs[t]), max(sum.slackUs[t], of.slackUs[t])
		}
	}
}

func (ti *turnIndex) summarize(entries []turnEntry, sum *turnSum) {
	sum.reset(len(ti.releases))
	for i := range entries {
		entries[i].addTo(sum)
	}
}

// addTo adds an entry to a summary.
func (te *turnEntry) addTo(sum *turnSum) {
	sum.strays = sum.strays || te.strays
	if !te.waits {
		return
	}
	sum.waits = true
	sum.tasks, sum.rowUs, sum.density = min(sum.tasks, te.tasks), min(sum.rowUs, te.rowUs), min(sum.density, te.density)
	sum.perTask = min(sum.perTask, te.perTask)
	sum.cheapest |= te.cheapest
	for t, us := range te.onUs {
		if us < math.MaxInt64 {
			sum.onUs[t], sum.slackUs[t] = min(sum.onUs[t], us), max(sum.slackUs[t], te.startUs-us)
		}
	}
}

// tightIn reports whether a summary may become another without the entry.
func (te *turnEntry) tightIn(*turnSum) bool { return te.waits || te.strays }

// jobTurns is what the index has of a job.
type jobTurns struct {
	touched bool
	group   *turnGroup // of the planned jobs or those without rows
	entry   turnEntry
	stands  *turnGroup // of the newcomers
	stand   turnEntry
	// onUs and standOnUs are those of the entries.
	onUs, standOnUs []int64
	held            []typedHeld
}

type typedHeld struct {
	gpuType int
	heldGPUs
}

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

// holdsUs is for how long a start of a job on GPUs with rounds of roundUs holds them.
func (r *rolling) holdsUs(j *list.JobState, roundUs int64) int64 {
	if j.Spec().Sync == hare.Rigid {
		return list.SpanUs(r.belief.RoundsLeft(j), roundUs)
	}
	return roundUs
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

// slowestWithoutRow is the longest round that a job without rows may start.
func slowestWithoutRow(l *list.Scheduler, j *list.JobState) int64 {
	if slowest := slowestUnplanned * j.FastestUs(); slowest >= l.RoundUs(j) {
		return slowest
	}
	return l.RoundUs(j) // no faster type is wide enough
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

// densityOf is newcomer.density of a job, or infinite where that has none.
func (r *rolling) densityOf(j *list.JobState, prices []float64) float64 {
	cheapest := math.Inf(1)
	for _, m := range j.Modes() {
		if m.DurationUs > 0 && r.l.Most(j, m.Type) >= j.Spec().Tasks {
			cheapest = min(cheapest, float64(m.DurationUs)*prices[m.Type])
		}
	}
	if math.IsInf(cheapest, 1) {
		return cheapest
	}
	gpuTime := float64(r.belief.RoundsLeft(j)) * float64(j.Width()) * cheapest
	return float64(j.Spec().WeightMicro) / gpuTime
}
