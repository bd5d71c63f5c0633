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

// searchRelaxed searches over the keys of rounds: a state's rounds are placed
// in the order of keys, each as early as possible, and justified. Big jobs have
// one key and are placed as wholes.
func searchRelaxed(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig, big []bool) (*Plan, Stats, error) {
	s := &keySearch{m: m, empty: newRunBoard(m, big), board: newRunBoard(m, big), r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x68617265)),
		bud: budget{ctx, &cfg, cfg.Moves}, cfg: &cfg}
	s.best, s.bestValue = start, math.Inf(1)
	if start != nil {
		s.bestValue = weighted(m, start.EndUs)
	}
	s.run(rel)
	return s.best, s.stats, nil
}

type keySearch struct {
	m            *hare.Model
	empty, board *board
	r            *rand.Rand
	bud          budget
	cfg          *ImproveConfig
	stats        Stats
	best         *Plan
	bestValue    float64
	items        []Item
}

// run starts from the order of rel and from start, and moves on.
func (s *keySearch) run(rel *hare.Relaxation) {
	m := s.m
	if s.best != nil {
		// Justify the plan at hand first: the best gain for its time.
		s.board.copyFrom(s.empty)
		p := s.best.clone()
		for i := range p.Jobs {
			for x := range p.Jobs[i] {
				s.board.take(&p.Jobs[i][x])
			}
		}
		s.settle(p, 6)
	}
	if rel == nil || s.bud.over() {
		return
	}
	keys := make([][]float64, len(m.Jobs))
	var items int
	for i := range m.Jobs {
		keys[i] = s.keysOf(i, rel)
		items += len(keys[i])
	}
	_, plan := s.decode(keys)
	if plan == nil {
		return
	}
	value := s.settle(plan, 2)
	for !s.bud.over() && (s.cfg.StopAt == 0 || s.bestValue > s.cfg.StopAt*1e12) {
		jobs, old := s.move(keys)
		v, p := s.decode(keys)
		if p == nil {
			s.undo(keys, jobs, old)
			continue
		}
		if v < value*1.012 {
			v = s.settle(p, 1)
		}
		s.stats.Evaluations++
		temperature := 0.0003 * value * (1 - s.bud.share())
		if v <= value || s.r.Float64() < math.Exp((value-v)/max(temperature, 1)) {
			value = v
			s.stats.Accepted++
			continue
		}
		s.undo(keys, jobs, old)
	}
}

// keysOf are the keys of job i's items.
func (s *keySearch) keysOf(i int, rel *hare.Relaxation) []float64 {
	j := &s.m.Jobs[i]
	if j.Sync != hare.Relaxed || s.board.big[i] {
		return []float64{timeOf(rel.Progress[i], float64(j.Rounds)/2)}
	}
	keys := make([]float64, j.Rounds)
	at := 0
	for r := range keys {
		keys[r] = advanceTo(rel.Progress[i], &at, float64(r)+0.5)
	}
	return keys
}

// decode places all rounds in the order of their keys.
func (s *keySearch) decode(keys [][]float64) (float64, *Plan) {
	s.items = s.items[:0]
	for i, row := range keys {
		if s.m.Jobs[i].Sync != hare.Relaxed || s.board.big[i] {
			s.items = append(s.items, Item{int32(i), Whole, row[0]})
			continue
		}
		for r, k := range row {
			s.items = append(s.items, Item{int32(i), int64(r), k})
		}
	}
	sortItems(s.items)
	s.board.reset(s.empty)
	p := &Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: make([]int64, len(s.m.Jobs))}
	for i := range s.m.Jobs {
		p.EndUs[i] = s.m.Jobs[i].ReleaseUs
	}
	s.bud.spend(int64(len(s.m.Jobs)))
	for n, it := range s.items {
		if n%checkEvery == 0 && s.bud.ctx.Err() != nil || !s.board.item(it, p) {
			return 0, nil
		}
	}
	return weighted(s.m, p.EndUs), p
}

// settle justifies the plan on the board up to passes times and keeps it when
// it is the best so far.
func (s *keySearch) settle(p *Plan, passes int) float64 {
	v := weighted(s.m, p.EndUs)
	for gained := true; gained && passes > 0 && !s.bud.over(); passes-- {
		s.bud.spend(2 * int64(len(s.m.Jobs)))
		s.board.justify(s.bud.ctx, p)
		w := weighted(s.m, p.EndUs)
		gained = w < v*(1-1e-5)
		v = w
	}
	if v < s.bestValue {
		s.best, s.bestValue = p.clone(), v
		if s.cfg.Report != nil {
			s.cfg.Report(p.Value(s.m))
		}
	}
	return v
}

// move changes the keys of one to four jobs and returns what they were.
func (s *keySearch) move(keys [][]float64) (jobs []int, old [][]float64) {
	n := 1 + s.r.IntN(4)
	span := 0.0
	for _, row := range keys {
		span = max(span, row[len(row)-1])
	}
	for range n {
		i := s.r.IntN(len(keys))
		if slices.Contains(jobs, i) {
			continue
		}
		jobs = append(jobs, i)
		old = append(old, slices.Clone(keys[i]))
		row := keys[i]
		switch s.r.IntN(4) {
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
			o := keys[s.r.IntN(len(keys))]
			if last := row[len(row)-1]; last > 0 {
				f := o[len(o)-1] / last
				for r := range row {
					row[r] *= f
				}
			}
		}
	}
	return jobs, old
}

func (s *keySearch) undo(keys [][]float64, jobs []int, old [][]float64) {
	for x, i := range jobs {
		keys[i] = old[x]
	}
}
