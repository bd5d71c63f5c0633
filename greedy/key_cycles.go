package greedy

import "github.com/hare-sched/hare"

// A search by keys that is continual or goes by the clock cools in cycles, each with twice the work of the one
// before, so that no temperature depends on the limit. Where a continual search rounds times, the best plan is
// justified to the true releases at the same places under each limit, which are settlements: a plan that is better
// before may be worse after that.
const (
	firstCycle  = 25 // the work of the first cycle, for each job
	settlements = 8  // in a cycle
	// sureGain is the least gain of a continual search, as a share of the value: less may be an error of rounding.
	sureGain = 1e-12
)

// coolingCycle is where a continual search by keys is in its cycle of cooling. Work counts down as in a budget.
type coolingCycle struct {
	work, end int64 // of the cycle
	next      int64 // the next settlement
	settles   bool  // whether plans must be settled
	seen      *Plan // the best plan at the last settlement, with rounded times
	start     *Plan
	settled   *Plan // the best one after settlement
	value     hare.Amount
}

// cool begins the first cycle of a search from start.
func (ks *keySearch) cool(start *Plan) {
	work := firstCycle * int64(max(1, len(ks.m.Jobs)))
	ks.cycle = coolingCycle{work: work, end: ks.cfg.Moves - work, next: ks.cfg.Moves, seen: ks.best, start: start,
		settles: ks.cfg.Continual && ks.rounded && start != nil, settled: start}
	if ks.cycle.settles {
		ks.cycle.value = start.Value(ks.fullModel)
	}
}

// cooled returns how far the search has cooled, from 0 to 1.
func (ks *keySearch) cooled() float64 {
	if !ks.cfg.Continual && ks.cfg.Elapsed == nil {
		return ks.budget.share()
	}
	c := &ks.cycle
	for ks.budget.left <= c.end {
		c.work *= 2
		c.end -= c.work
	}
	return 1 - float64(ks.budget.left-c.end)/float64(c.work)
}

// settle justifies the best plan to the true releases, where that is due.
func (ks *keySearch) settle() {
	c := &ks.cycle
	if !c.settles || ks.best == c.seen || ks.budget.left > c.next {
		return
	}
	c.seen, c.next = ks.best, ks.budget.left-c.work/settlements
	ks.budget.spend(int64(len(ks.m.Jobs)))
	if p := ks.bestPlan(c.start); p != nil {
		if v := p.Value(ks.fullModel); v.Cmp(c.value) < 0 {
			c.settled, c.value = p, v
		}
	}
}
