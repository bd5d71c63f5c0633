package rolling

import (
	"math"

	"github.com/hare-sched/hare/online/list"
)

// This file has the data of turnIndex: groups of jobs in the order of their turns, with sums by which a search
// passes many at once. turn_index.go keeps them up to date, and turn_search.go looks for the jobs that may start.

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
