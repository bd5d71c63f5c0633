package greedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// searchRelaxed searches over the keys of rounds and what prices weigh for each
// job: a state's rounds are placed in the order of keys, each by price and
// early, and justified. Big jobs have one key and are placed as wholes.
func searchRelaxed(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig, big []bool) (*Plan, Stats, error) {
	s := newKeySearch(ctx, m, start, &cfg)
	s.use(start, big)
	return s.search(rel, start)
}

// searchBeside is searchRelaxed beside the blocks of held, up to about horizon.
func searchBeside(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start, held *Plan, horizon int64, cfg ImproveConfig) (*Plan, Stats, error) {
	s := newKeySearch(ctx, m, start, &cfg)
	s.useBeside(start, held, horizon, bigJobs(m, oneByOne))
	return s.search(rel, start)
}

func newKeySearch(ctx context.Context, m *hare.Model, start *Plan, cfg *ImproveConfig) *keySearch {
	return &keySearch{whole: m, m: m, unit: 1, best: start, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x68617265)),
		bud: budget{ctx: ctx, cfg: cfg, left: cfg.Moves}, cfg: cfg, bestValue: math.Inf(1)}
}

// search runs and returns the best plan in µs.
func (s *keySearch) search(rel *hare.Relaxation, start *Plan) (*Plan, Stats, error) {
	if s.best != nil {
		s.bestValue = weighted(s.m, s.best.EndUs)
	}
	first := s.best
	s.peek = func() *Plan {
		if s.best == first {
			return nil
		}
		return s.plan(start)
	}
	s.run(rel)
	s.stats.Moves = s.cfg.Moves - s.bud.left
	if best := s.peek(); best != nil {
		return best, s.stats, nil
	}
	return start, s.stats, nil
}

// plan is the best plan in µs; nil where start is no worse.
func (s *keySearch) plan(start *Plan) *Plan {
	best := s.best.from(s.unit)
	if s.rounded {
		s.tighten(best)
	}
	if start != nil && s.rounded && weighted(s.whole, start.EndUs) <= weighted(s.whole, best.EndUs) {
		return nil
	}
	return best
}

// beforeTightening is the share of the time after which a plan for rounded
// times is fitted to the true ones.
const beforeTightening = 0.93

// tighten starts the jobs of p early, one after another: the search has seen
// releases later than they are. It leaves off when time is over.
func (s *keySearch) tighten(p *Plan) {
	b := newRunBoard(s.whole, make([]bool, len(s.whole.Jobs)))
	if s.held != nil {
		b.hold(s.held)
	}
	b.hold(p)
	b.allEarly(s.bud.ctx, p)
}

// use chooses between step functions and cells.
func (s *keySearch) use(start *Plan, big []bool) {
	horizon := int64(0)
	if start != nil {
		horizon = slices.Max(append(start.EndUs, 0))
	}
	s.useBeside(start, nil, horizon, big)
}

// useBeside is use without the GPUs of held.
func (s *keySearch) useBeside(start, held *Plan, horizon int64, big []bool) {
	if (start != nil || held != nil) && !slices.Contains(big, true) {
		if m, unit := coarse(s.m, horizon); m != nil {
			p, exact := inUnits(start, unit)
			h, too := inUnits(held, unit)
			if too {
				s.m, s.unit, s.best, s.held = m, unit, p, held
				for i := range m.Jobs {
					j := &s.whole.Jobs[i]
					s.later += float64(j.WeightMicro) * float64(m.Jobs[i].ReleaseUs*unit-j.ReleaseUs)
				}
				if s.rounded = !exact || s.later > 0; s.rounded {
					s.bud.until = beforeTightening
				}
				if start != nil {
					s.horizon = horizon / unit
				}
				s.empty = newGridBoard(m, 4*horizon/unit+64)
				if h != nil {
					s.empty.hold(h)
				}
				return
			}
		}
	}
	s.empty = newRunBoard(s.m, big)
	if held != nil {
		s.empty.hold(held)
	}
	if start != nil {
		s.horizon = slices.Max(append(start.EndUs, 0))
	}
}

// inUnits is p.in(unit), and nil of nil.
func inUnits(p *Plan, unit int64) (*Plan, bool) {
	if p == nil {
		return nil, true
	}
	p = p.in(unit)
	return p, p != nil
}

// trials is how many changes of a state are tried side by side; the first that
// is accepted is the next state. It does not depend on the number of cores, so
// that the search does not either.
const trials = 4

const (
	// hotRelaxed is the first temperature, in values over the number of jobs.
	hotRelaxed = 0.02
	// patience is how many rounds of trials without a better value a chain
	// has before another begins, with keys jittered by so much.
	patience = 300
	jitter   = 0.03
	// worthSettling is the share of the value before justification of the state
	// at hand up to which a plan is justified.
	worthSettling = 1.0005
	// worthAPass is the gain of a justification after which another may follow.
	worthAPass = 1e-4
	// polish is how often a plan is justified again that is the best after once.
	polish = 5
	// A new λ is 0 but for the share useful, and then at most mostPrice.
	useful, mostPrice = 0.75, 1.2
)

// startLambdas are what prices weigh for all jobs in the first states.
var startLambdas = [...]float64{0.8, 0.6, 0.4, 0.25}

// state is what a plan is decoded from; rows of keys are never changed.
type state struct {
	keys   [][]float64
	lambda []float64
	value  float64 // after one justification
}

type keySearch struct {
	whole, m  *hare.Model // in µs, and in units
	unit      int64       // of time in m, in µs
	rounded   bool        // a plan for m may leave gaps in whole
	later     float64     // Σ w · how much later releases are in m, in 1e-12
	held      *Plan       // of other jobs, in µs; nil without
	horizon   int64       // of a plan of these jobs in m, 0 without
	empty     *board
	r         *rand.Rand
	bud       budget
	cfg       *ImproveConfig
	stats     Stats
	best      *Plan
	bestValue float64
	peek      func() *Plan // the best so far in µs; nil while that is what it began with
	once      float64      // least value after one justification
	guide     *guide       // nil without prices
	keys      [][]float64
	items     []Item    // of keys, in order
	lambda    []float64 // by job, what prices weigh; 0 places as early as possible
	trials    [trials]trial
}

// run starts from start and from the order of rel, and moves on.
func (s *keySearch) run(rel *hare.Relaxation) {
	if s.best != nil {
		s.justifyStart()
	}
	if rel == nil || len(s.m.Jobs) == 0 || s.bud.over() {
		return
	}
	s.begin(rel)
	value, raw := s.first()
	top := state{slices.Clone(s.keys), slices.Clone(s.lambda), value}
	chain, stale := value, 0
	for !math.IsInf(value, 1) && !s.bud.over() && (s.cfg.StopAt == 0 || s.bestValue*float64(s.unit)+s.later > s.cfg.StopAt*1e12) {
		if s.cfg.Peek != nil {
			s.cfg.Peek(s.peek)
		}
		if stale++; stale > patience {
			// An order that finds no place is followed by another.
			if v, w := s.restart(&top); !math.IsInf(v, 1) {
				value, raw, chain, stale = v, w, v, 0
			}
			continue
		}
		for x := range s.trials {
			s.change(&s.trials[x])
		}
		s.try(trials, func(x int) { s.trials[x].evaluate(s, raw*worthSettling) })
		temperature := max(1, hotRelaxed/float64(len(s.keys))*value*(1-s.bud.share()))
		for x := range s.trials {
			t := &s.trials[x]
			s.keep(t)
			if t.plan != nil {
				s.once = min(s.once, t.value)
			}
		}
		for x := range s.trials {
			t := &s.trials[x]
			if t.plan == nil {
				continue
			}
			s.stats.Evaluations++
			if t.value <= value || s.r.Float64() < math.Exp((value-t.value)/temperature) {
				value, raw = t.value, t.raw
				for at, i := range t.jobs {
					s.keys[i], s.lambda[i] = t.keys[at], t.lambda[at]
				}
				s.items, t.items = t.items, s.items
				s.stats.Accepted++
				if value < top.value {
					top = state{slices.Clone(s.keys), slices.Clone(s.lambda), value}
				}
				if value < chain*(1-1e-5) {
					chain, stale = value, 0
				}
				break
			}
		}
	}
}

// begin prepares prices and the first keys.
func (s *keySearch) begin(rel *hare.Relaxation) {
	// Without a plan the tables end at once, and waiting always costs its weight:
	// for jobs that fill what others leave that is better than full tables.
	s.guide = newGuide(s.m, s.unit, rel, s.empty.big, s.horizon+s.horizon/10, s.cfg.Workers)
	for i := range s.m.Jobs {
		s.keys = append(s.keys, s.keysOf(i, rel))
	}
	s.sort()
}

// justifyStart justifies the plan at hand.
func (s *keySearch) justifyStart() {
	t := &s.trials[0]
	t.prepare(s)
	t.board.reset(s.empty)
	t.plan = s.best.from(1)
	for i := range t.plan.Jobs {
		for x := range t.plan.Jobs[i] {
			t.board.take(&t.plan.Jobs[i][x])
		}
	}
	t.value, t.final = s.bestValue, s.bestValue
	t.settle(s, 1)
	s.bud.spend(t.work)
	s.keep(t)
}

// first makes the first states, and returns the values of the best, justified
// and as decoded; +Inf where the budget ends before.
func (s *keySearch) first() (value, raw float64) {
	n := len(startLambdas)
	if s.guide == nil {
		n = 1
	}
	lambdas := make([][]float64, n)
	for x := range n {
		lambdas[x] = make([]float64, len(s.keys))
		if s.guide != nil {
			for i := range lambdas[x] {
				lambdas[x][i] = startLambdas[x]
			}
		}
		s.trials[x].jobs = s.trials[x].jobs[:0]
	}
	s.try(n, func(x int) {
		s.trials[x].prices = lambdas[x]
		s.trials[x].evaluate(s, math.Inf(1))
	})
	at := 0
	value = math.Inf(1)
	for x := range n {
		t := &s.trials[x]
		if t.plan == nil {
			continue
		}
		s.keep(t)
		if t.value < value {
			at = x
			value, raw, s.lambda = t.value, t.raw, slices.Clone(lambdas[x])
		}
	}
	if !math.IsInf(value, 1) {
		s.once = value
		t := &s.trials[at]
		t.work = 0
		t.settle(s, polish)
		s.bud.spend(t.work)
		s.keep(t)
	}
	return value, raw
}

// try lets the first n trials do their work, side by side where workers are
// allowed, and pays for it.
func (s *keySearch) try(n int, do func(x int)) {
	sideBySide(s.cfg.Workers, n, do)
	for x := range n {
		s.bud.spend(s.trials[x].work)
	}
}

// keep takes the plan of a trial where it is the best so far.
func (s *keySearch) keep(t *trial) {
	if t.plan == nil || t.final >= s.bestValue {
		return
	}
	s.best, s.bestValue = t.plan.from(1), t.final
	if s.cfg.Report != nil {
		s.cfg.Report((&Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: s.best.EndUs}).from(s.unit).Value(s.whole))
	}
}

// sort puts the items of all keys in order.
func (s *keySearch) sort() {
	s.items = s.items[:0]
	for i, row := range s.keys {
		s.items = s.itemsOf(i, row, s.items)
	}
	sortItems(s.items)
}

// itemsOf appends job i's items.
func (s *keySearch) itemsOf(i int, row []float64, items []Item) []Item {
	if s.m.Jobs[i].Sync != hare.Relaxed || s.empty.big[i] {
		return append(items, Item{int32(i), Whole, row[0]})
	}
	for r, k := range row {
		items = append(items, Item{int32(i), int64(r), k})
	}
	return items
}

// keysOf are the keys of job i's items.
func (s *keySearch) keysOf(i int, rel *hare.Relaxation) []float64 {
	j := &s.m.Jobs[i]
	if j.Sync != hare.Relaxed || s.empty.big[i] {
		return []float64{timeOf(rel.Progress[i], float64(j.Rounds)/2)}
	}
	keys := make([]float64, j.Rounds)
	at := 0
	for r := range keys {
		keys[r] = advanceTo(rel.Progress[i], &at, float64(r)+0.5)
	}
	return keys
}

// restart begins another chain near the best state.
func (s *keySearch) restart(top *state) (value, raw float64) {
	for i := range s.keys {
		s.keys[i], s.lambda[i] = slices.Clone(top.keys[i]), top.lambda[i]
		f := math.Exp(jitter * s.r.NormFloat64())
		for r := range s.keys[i] {
			s.keys[i][r] *= f
		}
	}
	s.sort()
	t := &s.trials[0]
	t.jobs = t.jobs[:0]
	s.try(1, func(x int) { s.trials[x].evaluate(s, math.Inf(1)) })
	if t.plan == nil {
		return math.Inf(1), 0
	}
	s.keep(t)
	return t.value, t.raw
}
