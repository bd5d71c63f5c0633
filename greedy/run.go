package greedy

import (
	"math"

	"github.com/hare-sched/hare"
)

const (
	// runShare is the share of a job's least time that a further run costs in
	// comparisons: it keeps the number of runs near 64, whatever the gaps.
	runShare = 1.0 / 64
	// lookEnds and lookStarts limit how many ends and starts of a run are
	// compared once one is found.
	lookEnds, lookStarts = 256, 16
	// worthAMove is the share of a run's cost at which it is cut short for a
	// cheaper one.
	worthAMove = 0.98
	// budgetSteps, for each step of the profiles, and budgetBase limit how many
	// changes the choice among runs may look at.
	budgetSteps, budgetBase = 16, 100_000
)

// runner places one relaxed job as runs of rounds: a team of GPUs keeps its
// share of tasks from round to round, in steps of the slowest member.
type runner struct {
	b        *board
	j        *hare.ModelJob
	s        *supply
	d        *drafter
	overhead float64
	least    float64 // no round costs less
	low      view    // scratch
	modes    []int64 // scratch: free GPUs by mode

	// budget is how many changes may be looked at before the first run that can
	// be is taken, which keeps the cost in proportion to the changes.
	budget int64
	// No run starts when GPUs become free before barren, where behind stands.
	barren int64
	behind view
}

// run is a candidate: rounds of a team from start on.
type run struct {
	team   *team
	start  int64
	rounds int64
	low    []int32 // GPUs free throughout, by place in the supply's classes
	cost   float64 // of a round, with its part of waiting and overhead
}

// run places all rounds of big relaxed job i from ready on, run after run: each
// starts now or when GPUs become free, and stays until GPUs leave, or more come
// that are worth the move. What is held by others for less than a round apart
// is used by single rounds that change GPUs. The cost grows with the steps of
// the profiles, not with rounds or tasks.
func (b *board) run(i int, ready int64, out *[]Block) (end int64, ok bool) {
	j := &b.m.Jobs[i]
	first := len(*out)
	s, now := newSupply(b, j, ready)
	r := &runner{b: b, j: j, s: s, d: newDrafter(j, b.charge.thrift[i], b.charge.speed), modes: make([]int64, len(j.Modes))}
	all := make([]int64, len(j.Modes))
	for at, c := range s.classes {
		all[s.mode[at]] += int64(len(b.m.Classes[c].GPUs))
	}
	best := r.d.team(all)
	if best == nil {
		return 0, false
	}
	r.least = best.cost
	r.overhead = runShare * best.cost * float64(j.Rounds)
	r.budget = budgetBase + budgetSteps*s.left()
	t, done := ready, int64(0)
	for done < j.Rounds {
		s.forward(&now, t)
		x, found := r.next(&now, t, j.Rounds-done)
		if !found || r.budget > 0 && (x.start > t || s.time(now.next) < t+x.team.period) {
			limit := math.Inf(1)
			if found {
				limit = x.cost
			}
			if e, ok := r.scatter(&now, t, done, limit, out); ok {
				t = e
				done++
				continue
			}
		}
		if !found {
			*out = (*out)[:first]
			return 0, false
		}
		r.place(&x, done, out)
		done += x.rounds
		t = x.start + x.rounds*x.team.period
	}
	if t > hare.MaxExact {
		*out = (*out)[:first]
		return 0, false
	}
	// A job's own runs do not overlap, so they need not be held before.
	for x := first; x < len(*out); x++ {
		b.take(&(*out)[x])
	}
	return t, true
}

// count sets r.modes to the GPUs of each mode in free.
func (r *runner) count(free []int32) {
	clear(r.modes)
	for at, n := range free {
		r.modes[r.s.mode[at]] += int64(n)
	}
}

// next is the cheapest run of at most left rounds that starts at t, where v
// stands, or when GPUs become free later; cut short where a better one starts.
// What a call found barren, those for later t pass over.
func (r *runner) next(v *view, t, left int64) (best run, found bool) {
	var at, bestAt view
	at.copyFrom(v)
	start := t
	for looks := 0; ; {
		if x, ok := r.from(&at, start, left, float64(start-t), best.cost, found); ok {
			if !found && start >= r.barren {
				r.barren = start
				r.behind.copyFrom(&at)
			}
			best, found = x, true
			bestAt.copyFrom(&at)
		}
		if !found && start < r.barren {
			if start = r.barren; start == never {
				break
			}
			at.copyFrom(&r.behind)
			continue
		}
		for {
			if start = r.s.time(at.next); start == never {
				break
			}
			r.budget--
			if r.s.apply(&at) {
				break
			}
		}
		if looks++; start == never || found && (r.budget < 0 || looks >= lookStarts || (float64(start-t)+r.overhead)/float64(left)+r.least >= best.cost) {
			break
		}
	}
	if !found {
		r.barren = never
	} else if r.budget > 0 {
		r.shorten(&bestAt, &best, left)
	}
	return best, found
}

// from is the cheapest run that starts at start, where v stands, after wait, if
// it is cheaper than limit where one is given.
func (r *runner) from(v *view, start, left int64, wait, limit float64, limited bool) (best run, found bool) {
	r.low.copyFrom(v)
	low := &r.low
	r.count(low.free)
	for looks := 0; ; {
		tm := r.d.team(r.modes)
		if tm == nil || limited && (wait+r.overhead)/float64(left)+tm.cost >= limit {
			return best, found
		}
		// The GPUs at hand stay until some of them leave.
		end := never
		for end == never {
			t := r.s.time(low.next)
			if t == never {
				break
			}
			r.budget--
			at, free := r.s.changes(low.next)
			for i, c := range at {
				if free[i] < low.free[c] {
					end = t
				}
			}
			if end == never {
				low.next++
			}
		}
		n := left
		if end != never {
			n = 0
			if end-start >= tm.hold {
				n = min(left, (end-start-tm.hold)/tm.period+1)
			}
		}
		if n > 0 {
			cost := (wait+r.overhead)/float64(n) + tm.cost
			if !limited || cost < limit {
				best = run{team: tm, start: start, rounds: n, cost: cost, low: append(best.low[:0], low.free...)}
				found, limited, limit = true, true, cost
			}
			if looks++; looks >= lookEnds || r.budget < 0 {
				return best, found
			}
		}
		if n == left || end == never {
			return best, found
		}
		at, free := r.s.changes(low.next)
		for i, c := range at {
			if less := low.free[c] - free[i]; less > 0 {
				low.free[c] -= less
				r.modes[r.s.mode[c]] -= int64(less)
			}
		}
		low.next++
	}
}

// shorten ends x, which starts where v stands, when enough GPUs become free
// for a cheaper run of the rounds left.
func (r *runner) shorten(v *view, x *run, left int64) {
	period := x.team.period
	for looks := 0; looks < lookStarts; {
		u := r.s.time(v.next)
		if u == never || u >= x.start+(x.rounds-1)*period {
			return
		}
		if !r.s.apply(v) {
			continue
		}
		looks++
		done := (u - x.start + period - 1) / period
		start := x.start + done*period
		r.count(v.free)
		tm := r.d.team(r.modes)
		if done == 0 || done >= x.rounds || tm == nil || tm.cost >= x.team.cost*worthAMove {
			continue
		}
		r.s.forward(v, start)
		if _, ok := r.from(v, start, left-done, 0, x.team.cost*worthAMove, true); ok {
			x.rounds = done
			return
		}
	}
}

// place appends the blocks of run x, which starts with round.
func (r *runner) place(x *run, round int64, out *[]Block) {
	tm := x.team
	period := tm.period
	if x.rounds == 1 {
		period = 0
	}
	for k := range tm.gpus {
		md := &r.j.Modes[k]
		each := Block{Tasks: int32(tm.each[k]), Round: round, Rounds: x.rounds, StartUs: x.start, PeriodUs: period, HoldUs: tm.each[k] * md.ComputeUs}
		rest := each
		rest.Tasks, rest.HoldUs = int32(tm.rest), tm.rest*md.ComputeUs
		left, more := int32(tm.gpus[k]), tm.last == k
		for at, c := range r.s.classes {
			if r.s.mode[at] != k {
				continue
			}
			free := x.low[at]
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
