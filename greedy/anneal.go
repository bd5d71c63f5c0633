package greedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// annealChains is the number of walks from the same start.
const annealChains = 2

// anneal improves a schedule of gang and rigid jobs: list schedules by the
// prices of rel in several orders, then simulated annealing over one order and
// a plan for each job (one type, two in turn, or a set of types), from the best
// of them and start. Every state is decoded as a list schedule, each job as
// early as its plan allows.
//
// rel and start may be nil. Relaxed jobs and gangs that need several types at
// once stay where start has them. cfg.Moves counts jobs placed. The end of ctx
// is no error: the best plan so far is returned, never worse than start, and
// start itself where the search finds nothing. The result does not depend on
// cfg.Workers; it depends on the clock only through ctx and cfg.Elapsed.
func anneal(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig) (*Plan, Stats, error) {
	var stats Stats
	if start != nil && ctx.Err() != nil {
		return start, stats, nil
	}
	p, ok := newAnnealProblem(m, rel, start)
	if !ok || len(p.jobs) == 0 {
		return start, stats, nil
	}
	a := &annealing{p: p, cfg: &cfg, left: cfg.Moves}
	if start != nil {
		a.value, a.have = start.Value(m), true
	}
	a.begin(ctx, rel)
	if a.key != nil && ctx.Err() == nil {
		a.walk(ctx)
	}
	for _, w := range a.walkers {
		stats.Moves += w.d.work
		stats.Evaluations += w.stats.Evaluations
		stats.Accepted += w.stats.Accepted
	}
	if !a.won {
		return start, stats, nil
	}
	if a.stale {
		a.d.load(a.key, a.plan) // has been decoded before
	}
	return a.d.blocks(), stats, nil
}

// annealing is one run of anneal.
type annealing struct {
	p       *annealProblem
	cfg     *ImproveConfig
	left    int64 // jobs to place
	walkers []*walker
	value   hare.Amount // of the best of start and the states found
	have    bool        // there is one
	// key and plan are the best state found, nil before there is one.
	key   []int64
	plan  []jobPlan
	won   bool     // it is better than start
	d     *decoder // has last decoded it where not stale
	stale bool
}

// exact is the value of a state whose jobs end at end.
func (a *annealing) exact(end []int64) hare.Amount {
	p := a.p
	var v hare.Amount
	for i := range p.jobs {
		mj := &p.m.Jobs[p.jobs[i].index]
		v = v.Add(hare.Product(mj.WeightMicro, end[i]-mj.ReleaseUs))
	}
	for _, i := range p.fixed {
		mj := &p.m.Jobs[i]
		v = v.Add(hare.Product(mj.WeightMicro, p.start.EndUs[i]-mj.ReleaseUs))
	}
	return v
}

// offer reports a value if it is better than all before.
func (a *annealing) offer(v hare.Amount) bool {
	if a.have && v.Cmp(a.value) >= 0 {
		return false
	}
	a.value, a.have, a.won = v, true, true
	if a.cfg.Report != nil {
		a.cfg.Report(v)
	}
	return true
}

// done says whether the target is reached.
func (a *annealing) done() bool {
	return a.cfg.StopAt != 0 && a.have && a.value.Float() <= a.cfg.StopAt
}

// share is how much of the budget is used, 0 to 1.
func (a *annealing) share() float64 {
	s := 1 - float64(a.left)/float64(max(1, a.cfg.Moves))
	if a.cfg.Elapsed != nil {
		s = max(s, a.cfg.Elapsed())
	}
	return min(1, max(0, s))
}

// begin finds the best state to start from. Lists may take a tenth of the work
// or a third of the time, but one is always made.
func (a *annealing) begin(ctx context.Context, rel *hare.Relaxation) {
	p := a.p
	a.d = newDecoder(p)
	best := math.Inf(1)
	var bestExact hare.Amount
	keep := func(order []int32, plans []jobPlan) {
		a.stale = true
		key := keysOf(order)
		if !a.d.load(key, plans) {
			return
		}
		if v := a.exact(a.d.end); a.key == nil || v.Cmp(bestExact) < 0 {
			a.stale = false
			best, bestExact = a.d.value(), v
			a.key, a.plan = key, slices.Clone(plans)
			a.offer(v)
		}
	}
	if p.start != nil {
		if order, plans, ok := p.adopt(); ok {
			keep(order, plans)
		}
	}
	l := newLister(p)
	plans := make([]jobPlan, len(p.jobs))
	lambdas := []float64{0.9, 1, 0.8}
	if p.price == nil {
		lambdas = []float64{0}
	}
	ranks := p.ranks(rel)
	for n := range len(ranks) * len(lambdas) * 2 {
		if n > 0 && (l.work >= a.cfg.Moves/10 || ctx.Err() != nil || a.cfg.Elapsed != nil && a.cfg.Elapsed() > 1.0/3) {
			break
		}
		if n%2 == 1 && !p.gangs {
			continue
		}
		order := orderBy(ranks[n/2%len(ranks)])
		if v, fits := l.schedule(ctx, order, lambdas[n/2/len(ranks)], n%2 == 1, plans); fits && v < best {
			keep(order, plans)
		}
	}
	a.left -= l.work
}

// walk anneals from a state. The walks take turns, or run side by side, in
// stretches of the same work, so that what they find does not depend on how
// many of them run at a time.
func (a *annealing) walk(ctx context.Context) {
	p := a.p
	n := float64(len(p.jobs))
	for i := range annealChains {
		r := rand.New(rand.NewPCG(uint64(a.cfg.Seed), uint64(i)+1))
		a.walkers = append(a.walkers, newWalker(p, nil, a.key, a.plan, r))
	}
	mean := a.walkers[0].value / n
	mn := newMenu(p, max(menuScale*mean, math.SmallestNonzeroFloat64))
	for _, w := range a.walkers {
		w.menu = mn
	}
	hot, cold := hottest*mean/n, coldest*mean/n
	if p.spread {
		hot, cold = spreadFactor*hot, spreadFactor*cold
	}
	// Few jobs are cheap to place and soon stuck: cool them several times.
	cycles := math.Floor(min(8, max(1, 200/n)))
	stretch := min(max(500, 400_000/int64(len(p.jobs))), max(1, a.left/(40*annealChains)))
	met := 0
	for a.left > 0 && ctx.Err() == nil && !a.done() {
		share := a.share()
		if a.cfg.Elapsed != nil && share >= 1 {
			break
		}
		phase := share * cycles
		phase -= min(math.Floor(phase), cycles-1)
		t := hot * math.Pow(cold/hot, phase)
		// Where walks are soon stuck, apart they find more.
		if next := int(share * exchanges); next > met && cycles == 1 {
			met = next
			a.exchange(t)
		}
		a.stretch(ctx, t, min(stretch, (a.left+annealChains-1)/annealChains))
		a.gather()
		if a.cfg.Peek != nil {
			a.cfg.Peek(a.peek)
		}
	}
}

// peek decodes the best state apart from the search.
func (a *annealing) peek() *Plan {
	if !a.won || a.key == nil {
		return nil
	}
	d := newDecoder(a.p)
	d.load(slices.Clone(a.key), slices.Clone(a.plan)) // has been decoded before
	return d.blocks()
}

// exchanges is how often the walks compare their states.
const exchanges = 50

// exchange lets walks go on from the best of their states. A walk stays where it
// is with the probability of a rise from there to its own at temperature t:
// cold walks all work on the best, hot ones stay apart.
func (a *annealing) exchange(t float64) {
	best := a.walkers[0]
	for _, w := range a.walkers {
		if w.value < best.value {
			best = w
		}
	}
	for _, w := range a.walkers {
		if w == best || w.r.Float64() < math.Exp((best.value-w.value)/t) {
			continue
		}
		w.d.load(best.d.key, best.d.plan) // has been decoded before
		w.value = best.value
		a.left -= int64(len(a.p.jobs))
	}
}

// Temperatures in mean w (C − a) over the number of jobs; the scale of the menu
// and the margin of giving up in mean w (C − a).
const (
	hottest      = 4.0
	coldest      = 0.2
	spreadFactor = 3.0
	menuScale    = 0.03
	giveUp       = 0.15
)

// stretch lets each walk place work jobs at temperature t.
func (a *annealing) stretch(ctx context.Context, t float64, work int64) {
	before := int64(0)
	for _, w := range a.walkers {
		before += w.d.work
	}
	sideBySide(a.cfg.Workers, len(a.walkers), func(x int) { a.walkers[x].run(ctx, t, work) })
	for _, w := range a.walkers {
		before -= w.d.work
	}
	a.left += before
}

// gather takes over what the walks found, the first of equals.
func (a *annealing) gather() {
	for _, w := range a.walkers {
		if w.better {
			w.better = false
			if a.offer(a.exact(w.bestEnd)) {
				a.key, a.plan, a.stale = append(a.key[:0], w.bestKey...), append(a.plan[:0], w.bestPlan...), true
			}
		}
	}
}
