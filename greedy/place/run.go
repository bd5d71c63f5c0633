package place

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A job of millions of tasks cannot be placed task by task. It is placed as runs: so many GPUs of each type do so
// many tasks of each round, for many rounds in a row, until GPUs leave or enough others become free. The work then
// grows with the changes of what is free, and not with rounds or tasks.

const (
	// runOverheadShare is the share of a job's least time that is charged for each further
	// run. It keeps the number of runs near 64, whatever the gaps.
	runOverheadShare = 1.0 / 64
	// maxEnds and maxStarts limit how many ends and starts of a run are compared once one is
	// found.
	maxEnds, maxStarts = 256, 16
	// migrationThreshold is the share of a run's cost below which another run is worth a
	// migration: the first run is then cut short.
	migrationThreshold = 0.98
	// budgetBase, plus budgetSteps for each step of the profiles, limits how many changes
	// the choice among runs may examine.
	budgetSteps, budgetBase = 16, 100_000
)

// runPlacer places one relaxed job as runs of rounds: an allocation of GPUs keeps its
// share of tasks from round to round, and the slowest GPU sets the period.
type runPlacer struct {
	residual  *Residual
	job       *model.Job
	free      *mergedProfile
	allocator *allocator
	overhead  float64
	least     float64 // no round costs less
	low       cursor  // scratch
	modes     []int64 // scratch: free GPUs by mode

	// budget is the number of changes that may be examined before the first possible run is
	// taken. It keeps the cost in proportion to the number of changes.
	budget int64
	// No run can start at a time before noStartBefore, where resumeAt stands.
	noStartBefore int64
	resumeAt      cursor
}

// runCandidate is a possible run: rounds of an allocation from start on.
type runCandidate struct {
	allocation *allocation
	start      int64
	rounds     int64
	minFree    []int32 // the GPUs free throughout, by index in the merged profile's classes
	cost       float64 // of a round, with its part of waiting and overhead
}

// placeRuns places all rounds of big relaxed job i from ready on, run by run. Each run
// starts now or when GPUs become free, and stays until GPUs leave or enough others
// become free to be worth a migration. Where all gaps are shorter than a round, single
// rounds change GPUs. The cost grows with the steps of the profiles and not with rounds or
// tasks.
func (res *Residual) placeRuns(i int, ready int64, out *[]room.Block) (end int64, ok bool) {
	j := &res.m.Jobs[i]
	first := len(*out)
	free, now := newMergedProfile(res, j, ready)
	rp := &runPlacer{residual: res, job: j, free: free,
		allocator: newAllocator(j, res.costs.byJob[i], res.costs.speed),
		modes:     make([]int64, len(j.Modes))}
	all := make([]int64, len(j.Modes))
	for at, c := range free.classes {
		all[free.mode[at]] += int64(len(res.m.Classes[c].GPUs))
	}
	best := rp.allocator.cheapest(all)
	if best == nil {
		return 0, false
	}
	rp.least = best.cost
	rp.overhead = runOverheadShare * best.cost * float64(j.Rounds)
	rp.budget = budgetBase + budgetSteps*free.remaining()
	t, done := ready, int64(0)
	for done < j.Rounds {
		free.advance(&now, t)
		x, found := rp.cheapestRun(&now, t, j.Rounds-done)
		if !found {
			if t, found = rp.scatter(&now, t, done, out); !found {
				*out = (*out)[:first]
				return 0, false
			}
			done++
			continue
		}
		rp.appendRun(&x, done, out)
		done += x.rounds
		t = x.start + x.rounds*x.allocation.period
	}
	if t > hare.MaxExact {
		*out = (*out)[:first]
		return 0, false
	}
	// The runs of one job do not overlap, so they are reserved only at the end.
	for x := first; x < len(*out); x++ {
		res.Reserve(&(*out)[x])
	}
	return t, true
}

// count sets rp.modes to the GPUs of each mode in free.
func (rp *runPlacer) count(free []int32) {
	clear(rp.modes)
	for at, n := range free {
		rp.modes[rp.free.mode[at]] += int64(n)
	}
}

// cheapestRun returns the cheapest run of at most left rounds that starts at t, where v
// stands, or later when GPUs become free. The run is cut short where a better one
// starts. Times at which an earlier call found no start are skipped.
func (rp *runPlacer) cheapestRun(v *cursor, t, left int64) (best runCandidate, found bool) {
	var at, bestAt cursor
	at.copyFrom(v)
	start := t
	for looks := 0; ; {
		if x, ok := rp.cheapestRunAt(&at, start, left, float64(start-t), best.cost, found); ok {
			if !found && start >= rp.noStartBefore {
				rp.noStartBefore = start
				rp.resumeAt.copyFrom(&at)
			}
			best, found = x, true
			bestAt.copyFrom(&at)
		}
		if !found && start < rp.noStartBefore {
			if start = rp.noStartBefore; start == room.Never {
				break
			}
			at.copyFrom(&rp.resumeAt)
			continue
		}
		for {
			if start = rp.free.time(at.next); start == room.Never {
				break
			}
			rp.budget--
			if rp.free.apply(&at) {
				break
			}
		}
		if looks++; start == room.Never || found && (rp.budget < 0 || looks >= maxStarts ||
			(float64(start-t)+rp.overhead)/float64(left)+rp.least >= best.cost) {
			break
		}
	}
	if !found {
		rp.noStartBefore = room.Never
	} else if rp.budget > 0 {
		rp.shorten(&bestAt, &best, left)
	}
	return best, found
}

// cheapestRunAt returns the cheapest run that starts at start, where v stands, after
// wait. If limited, the run must cost less than limit.
func (rp *runPlacer) cheapestRunAt(v *cursor, start, left int64, wait, limit float64,
	limited bool) (best runCandidate, found bool) {
	rp.low.copyFrom(v)
	low := &rp.low
	rp.count(low.free)
	for looks := 0; ; {
		tm := rp.allocator.cheapest(rp.modes)
		if tm == nil || limited && (wait+rp.overhead)/float64(left)+tm.cost >= limit {
			return best, found
		}
		// The available GPUs stay until some of them leave.
		end := room.Never
		for end == room.Never {
			t := rp.free.time(low.next)
			if t == room.Never {
				break
			}
			rp.budget--
			at, free := rp.free.changes(low.next)
			for i, c := range at {
				if free[i] < low.free[c] {
					end = t
				}
			}
			if end == room.Never {
				low.next++
			}
		}
		n := left
		if end != room.Never {
			n = 0
			if end-start >= tm.hold {
				n = min(left, (end-start-tm.hold)/tm.period+1)
			}
		}
		if n > 0 {
			cost := (wait+rp.overhead)/float64(n) + tm.cost
			if !limited || cost < limit {
				best = runCandidate{allocation: tm, start: start, rounds: n, cost: cost,
					minFree: append(best.minFree[:0], low.free...)}
				found, limited, limit = true, true, cost
			}
			if looks++; looks >= maxEnds || rp.budget < 0 {
				return best, found
			}
		}
		if n == left || end == room.Never {
			return best, found
		}
		at, free := rp.free.changes(low.next)
		for i, c := range at {
			if less := low.free[c] - free[i]; less > 0 {
				low.free[c] -= less
				rp.modes[rp.free.mode[c]] -= int64(less)
			}
		}
		low.next++
	}
}

// shorten ends x, which starts where v stands, when enough GPUs become free for a
// cheaper run of the remaining rounds.
func (rp *runPlacer) shorten(v *cursor, x *runCandidate, left int64) {
	period := x.allocation.period
	for looks := 0; looks < maxStarts; {
		u := rp.free.time(v.next)
		if u == room.Never || u >= x.start+(x.rounds-1)*period {
			return
		}
		if !rp.free.apply(v) {
			continue
		}
		looks++
		done := (u - x.start + period - 1) / period
		start := x.start + done*period
		rp.count(v.free)
		tm := rp.allocator.cheapest(rp.modes)
		if done == 0 || done >= x.rounds || tm == nil || tm.cost >= x.allocation.cost*migrationThreshold {
			continue
		}
		rp.free.advance(v, start)
		if _, ok := rp.cheapestRunAt(v, start, left-done, 0, x.allocation.cost*migrationThreshold, true); ok {
			x.rounds = done
			return
		}
	}
}

// appendRun appends the blocks of run x, whose first round is round.
func (rp *runPlacer) appendRun(x *runCandidate, round int64, out *[]room.Block) {
	tm := x.allocation
	period := tm.period
	if x.rounds == 1 {
		period = 0
	}
	for k := range tm.gpus {
		md := &rp.job.Modes[k]
		each := room.Block{Tasks: int32(tm.each[k]), Round: round, Rounds: x.rounds, StartUs: x.start, PeriodUs: period,
			HoldUs: tm.each[k] * md.ComputeUs}
		rest := each
		rest.Tasks, rest.HoldUs = int32(tm.rest), tm.rest*md.ComputeUs
		left, more := int32(tm.gpus[k]), tm.last == k
		for at, c := range rp.free.classes {
			if rp.free.mode[at] != k {
				continue
			}
			free := x.minFree[at]
			if n := min(left, free); n > 0 {
				each.Class, each.Width = c, n
				*out = append(*out, each)
				left -= n
				free -= n
			}
			if more && left == 0 && free > 0 {
				rest.Class, rest.Width = c, 1
				*out = append(*out, rest)
				more = false
			}
		}
	}
}
