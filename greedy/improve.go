package greedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// ImproveConfig tunes Improve.
type ImproveConfig struct {
	Seed int64
	// Moves limits the work: one is one job placed once. Zero means 100,000.
	Moves int64
	// StopAt ends the search at this value in weight-seconds; zero means never.
	StopAt float64
	// Report is called with every better value; nil means nobody looks.
	Report func(hare.Amount)
	// Workers is the number of goroutines; the result does not depend on it
	// where Moves limits.
	Workers int
	// Elapsed is the share of the time budget that is over, 0 to 1; nil where
	// only Moves limits.
	Elapsed func() float64
}

// Stats says what a search did.
type Stats struct {
	Moves, Evaluations, Accepted int64
}

// Improve searches from start for a better plan, guided by rel, until the work,
// the target or ctx ends; the plan is never worse than start.
func Improve(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig) (*Plan, Stats, error) {
	if cfg.Moves == 0 {
		cfg.Moves = 100_000
	}
	relaxed := false
	for i := range m.Jobs {
		relaxed = relaxed || m.Jobs[i].Sync == hare.Relaxed
	}
	if !relaxed {
		return anneal(ctx, m, rel, start, cfg)
	}
	return searchRelaxed(ctx, m, rel, start, cfg, bigJobs(m, oneByOne))
}

// weighted is Σ w (C − a) in floats of 1e-12, for comparisons within a search.
func weighted(m *hare.Model, ends []int64) float64 {
	sum := 0.0
	for i := range m.Jobs {
		sum += float64(m.Jobs[i].WeightMicro) * float64(ends[i]-m.Jobs[i].ReleaseUs)
	}
	return sum
}

// budget counts the moves of a search against its limits.
type budget struct {
	ctx  context.Context
	cfg  *ImproveConfig
	left int64
}

func (b *budget) spend(n int64) { b.left -= n }

func (b *budget) over() bool { return b.left <= 0 || b.ctx.Err() != nil }

// share is how much of the budget is used, 0 to 1.
func (b *budget) share() float64 {
	s := 1 - float64(b.left)/float64(b.cfg.Moves)
	if b.cfg.Elapsed != nil {
		s = max(s, b.cfg.Elapsed())
	}
	return min(1, max(0, s))
}

// searchRelaxed searches over the keys of rounds and what prices weigh for each
// job: a state's rounds are placed in the order of keys, each by price and
// early, and justified. Big jobs have one key and are placed as wholes.
func searchRelaxed(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig, big []bool) (*Plan, Stats, error) {
	s := newKeySearch(ctx, m, start, &cfg)
	s.use(start, big)
	return s.search(rel, start)
}

func newKeySearch(ctx context.Context, m *hare.Model, start *Plan, cfg *ImproveConfig) *keySearch {
	return &keySearch{whole: m, m: m, unit: 1, best: start, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x68617265)),
		bud: budget{ctx, cfg, cfg.Moves}, cfg: cfg, bestValue: math.Inf(1)}
}

// search runs and returns the best plan in µs.
func (s *keySearch) search(rel *hare.Relaxation, start *Plan) (*Plan, Stats, error) {
	if s.best != nil {
		s.bestValue = weighted(s.m, s.best.EndUs)
	}
	first := s.best
	s.run(rel)
	if s.best == first {
		return start, s.stats, nil
	}
	return s.best.from(s.unit), s.stats, nil
}

// use chooses between step functions and cells.
func (s *keySearch) use(start *Plan, big []bool) {
	if start != nil && !slices.Contains(big, true) {
		horizon := slices.Max(append(start.EndUs, 0))
		if m, unit := coarse(s.m, horizon); m != nil {
			if p := start.in(unit); p != nil {
				s.m, s.unit, s.best = m, unit, p
				s.empty = newGridBoard(m, 4*horizon/unit+64)
				return
			}
		}
	}
	s.empty = newRunBoard(s.m, big)
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
	patience = 100
	jitter   = 0.1
	// nearBest is the share of the best value up to which a plan is justified
	// more than once.
	nearBest = 1.002
	// worthSettling is the same for the chain's value and the first time.
	worthSettling = 1.012
)

// startLambdas are what prices weigh for all jobs in the first states.
var startLambdas = [...]float64{0.6, 0.3, 0}

type keySearch struct {
	whole, m  *hare.Model // in µs, and in units
	unit      int64       // of time in m, in µs
	empty     *board
	r         *rand.Rand
	bud       budget
	cfg       *ImproveConfig
	stats     Stats
	best      *Plan
	bestValue float64
	guide     *guide // nil without prices
	keys      [][]float64
	lambda    []float64 // by job, what prices weigh; 0 places as early as possible
	trials    [trials]trial
}

// trial is one change of the state and what comes of it.
type trial struct {
	jobs   []int
	keys   [][]float64 // of these jobs
	lambda []float64
	placer
	own  *Plan // buffers
	plan *Plan // nil where there is none
	// value is that after one justification, final that of plan.
	value, final float64
}

// run starts from start and from the order of rel, and moves on.
func (s *keySearch) run(rel *hare.Relaxation) {
	m := s.m
	if s.best != nil {
		s.justifyStart()
	}
	if rel == nil || len(m.Jobs) == 0 || s.bud.over() {
		return
	}
	s.begin(rel)
	value := s.first()
	origin, chain, stale := slices.Clone(s.keys), value, 0
	for !math.IsInf(value, 1) && !s.bud.over() && (s.cfg.StopAt == 0 || s.bestValue*float64(s.unit) > s.cfg.StopAt*1e12) {
		if stale++; stale > patience {
			// An order that finds no place is followed by another.
			if v := s.restart(origin); !math.IsInf(v, 1) {
				value, chain, stale = v, v, 0
			}
			continue
		}
		for x := range s.trials {
			s.change(&s.trials[x])
		}
		s.try(trials, func(x int) { s.trials[x].evaluate(s, value*worthSettling) })
		temperature := max(1, hotRelaxed/float64(len(s.keys))*value*(1-s.bud.share()))
		for x := range s.trials {
			s.keep(&s.trials[x])
		}
		for x := range s.trials {
			t := &s.trials[x]
			if t.plan == nil {
				continue
			}
			s.stats.Evaluations++
			if t.value <= value || s.r.Float64() < math.Exp((value-t.value)/temperature) {
				value = t.value
				for at, i := range t.jobs {
					s.keys[i], s.lambda[i] = t.keys[at], t.lambda[at]
				}
				s.stats.Accepted++
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
	horizon := int64(0)
	if s.best != nil {
		horizon = slices.Max(s.best.EndUs)
	}
	s.guide = newGuide(s.m, s.unit, rel, s.empty.big, horizon+horizon/10, s.cfg.Workers)
	for i := range s.m.Jobs {
		s.keys = append(s.keys, s.keysOf(i, rel))
	}
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
	t.settle(s)
	s.bud.spend(t.work)
	s.keep(t)
}

// first makes the first states, and returns the value of the best; +Inf where
// the budget ends before.
func (s *keySearch) first() float64 {
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
	value := math.Inf(1)
	for x := range n {
		t := &s.trials[x]
		if t.plan == nil {
			continue
		}
		s.keep(t)
		if t.value < value {
			value, s.lambda = t.value, slices.Clone(lambdas[x])
		}
	}
	return value
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

// placer places the rounds of a state on a board of its own.
type placer struct {
	board  *board
	items  []Item
	rows   [][]float64 // keys by job
	prices []float64   // what they weigh, by job
	work   int64
}

func (t *trial) prepare(s *keySearch) {
	if t.board == nil {
		t.board = s.empty.fresh()
	}
	t.work, t.plan = 0, nil
}

// evaluate places the state with the changes of t, and justifies what is better
// than limit.
func (t *trial) evaluate(s *keySearch, limit float64) {
	t.prepare(s)
	t.rows = append(t.rows[:0], s.keys...)
	if s.lambda != nil {
		t.prices = append(t.prices[:0], s.lambda...)
	}
	for at, i := range t.jobs {
		t.rows[i], t.prices[i] = t.keys[at], t.lambda[at]
	}
	if t.decode(s); t.plan != nil && t.value < limit {
		t.settle(s)
	}
}

// decode places all rounds in the order of their keys.
func (t *trial) decode(s *keySearch) {
	t.items = t.items[:0]
	for i, row := range t.rows {
		if s.m.Jobs[i].Sync != hare.Relaxed || t.board.big[i] {
			t.items = append(t.items, Item{int32(i), Whole, row[0]})
			continue
		}
		for r, k := range row {
			t.items = append(t.items, Item{int32(i), int64(r), k})
		}
	}
	sortItems(t.items)
	t.board.reset(s.empty)
	if t.own == nil {
		t.own = &Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: make([]int64, len(s.m.Jobs))}
	}
	p := t.own
	for i := range s.m.Jobs {
		p.Jobs[i], p.EndUs[i] = p.Jobs[i][:0], s.m.Jobs[i].ReleaseUs
	}
	t.work += int64(len(s.m.Jobs))
	for n, it := range t.items {
		if n%checkEvery == 0 && s.bud.ctx.Err() != nil {
			return
		}
		i := int(it.Job)
		ok := false
		if lambda := t.prices[i]; lambda > 0 && it.Round != Whole {
			p.EndUs[i], ok = t.board.guidedRound(s.guide, lambda, i, it.Round, p.EndUs[i], &p.Jobs[i])
		} else {
			ok = t.board.item(it, p)
		}
		if !ok {
			return
		}
	}
	t.plan, t.value = p, weighted(s.m, p.EndUs)
	t.final = t.value
}

// settle justifies the plan, which is on the board: once for the trial's value,
// and while that helps, up to six times, where it may be the best.
func (t *trial) settle(s *keySearch) {
	for n := 0; n < 6 && s.bud.ctx.Err() == nil && (n == 0 || t.final < s.bestValue*nearBest); n++ {
		t.work += 2 * int64(len(s.m.Jobs))
		t.board.justify(s.bud.ctx, t.plan)
		before := t.final
		t.final = weighted(s.m, t.plan.EndUs)
		if n == 0 {
			t.value = t.final
		}
		if t.final >= before*(1-1e-5) {
			return
		}
	}
}

// change draws new keys for one to four jobs, or what prices weigh for them.
func (s *keySearch) change(t *trial) {
	t.jobs, t.keys, t.lambda = t.jobs[:0], t.keys[:0], t.lambda[:0]
	kinds := 4
	if s.guide != nil {
		kinds = 5
	}
	span := 0.0
	for _, row := range s.keys {
		span = max(span, row[len(row)-1])
	}
	for range 1 + s.r.IntN(4) {
		i := s.r.IntN(len(s.keys))
		if slices.Contains(t.jobs, i) {
			continue
		}
		row, lambda := slices.Clone(s.keys[i]), s.lambda[i]
		switch s.r.IntN(kinds) {
		case 0: // scale
			f := math.Exp(0.25 * s.r.NormFloat64())
			for r := range row {
				row[r] *= f
			}
		case 1: // shift
			d := 0.04 * span * s.r.NormFloat64()
			for r := range row {
				row[r] += d
			}
		case 2: // stretch about the middle
			mid, f := row[len(row)/2], math.Exp(0.4*s.r.NormFloat64())
			for r := range row {
				row[r] = mid + (row[r]-mid)*f
			}
		case 3: // end where another job ends
			o := s.keys[s.r.IntN(len(s.keys))]
			if last := row[len(row)-1]; last > 0 {
				f := o[len(o)-1] / last
				for r := range row {
					row[r] *= f
				}
			}
		case 4:
			lambda = max(0, 2*s.r.Float64()-1)
		}
		t.jobs, t.keys, t.lambda = append(t.jobs, i), append(t.keys, row), append(t.lambda, lambda)
	}
}

// restart begins another chain near the first order.
func (s *keySearch) restart(origin [][]float64) (value float64) {
	lambda := 0.0
	if s.guide != nil {
		lambda = startLambdas[s.r.IntN(len(startLambdas))]
	}
	for i := range s.keys {
		s.keys[i] = slices.Clone(origin[i])
		f := math.Exp(jitter * s.r.NormFloat64())
		for r := range s.keys[i] {
			s.keys[i][r] *= f
		}
		s.lambda[i] = lambda
	}
	t := &s.trials[0]
	t.jobs = t.jobs[:0]
	s.try(1, func(x int) { s.trials[x].evaluate(s, math.Inf(1)) })
	if t.plan == nil {
		return math.Inf(1)
	}
	s.keep(t)
	return t.value
}
