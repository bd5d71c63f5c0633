package market

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// Drawing is how categories are drawn.
type Drawing string

// Valuation is what a worker is worth to a job in the market of a category.
type Valuation string

const (
	// Uniform draws categories evenly among all that have as many workers as the largest, and then
	// cuts to Job.Most what is above it; what is cut goes to the other jobs.
	Uniform Drawing = "uniform"
	// Near draws around the category that would be best if all workers had a job's mean throughput,
	// K_i in proportion to √(w_i T_i P_i/ρ_i), with lognormal deviations. That category is the
	// first draw.
	Near Drawing = "near"

	// Throughput is ρ_ic, so that a matching has the greatest sum of throughputs.
	Throughput Valuation = "throughput"
	// Saving is what one more worker takes off w_i JCT_i, by the derivative of w T P/Σρ at the
	// throughput that the last matching gave the job, and at the mean throughput at first.
	Saving Valuation = "saving"
)

// Config tunes Sample. The zero value means the defaults.
type Config struct {
	// Draws is N, the number of different categories that are drawn; zero means 64. Where there are
	// no more, all are tried and none is skipped.
	Draws int
	// Skip is the share, below 1, of the drawn categories that no market is held for: those with the
	// worst Score if all workers had a job's mean throughput. Zero means 0.5, negative none.
	Skip float64
	// Drawing is empty for Near.
	Drawing Drawing
	// Spread is the standard deviation of the logarithm of K_i under Near in the first draw; in the
	// N-th it is twice that. Zero means 0.3.
	Spread float64
	// Valuation is empty for Saving.
	Valuation Valuation
	// Passes is how many markets are held for a category, each with the values at the matching
	// before; zero means 2. Under Throughput values do not change, so that one is held.
	Passes int
	// Tries is how many changes are tried on the matchings, the best first, of which those that lower a
	// Score are made: markets do not see what the exchange of parameters takes. A change moves a worker
	// or exchanges two, and moves up to two nodes of workers of jobs that exchange parameters. Zero
	// means 100,000, negative none.
	Tries int
	// Seed is that of the draws.
	Seed uint64
}

// WithDefaults fills in the defaults and refuses settings that mean nothing.
func (cfg Config) WithDefaults() (Config, error) {
	if cfg.Draws == 0 {
		cfg.Draws = 64
	}
	if cfg.Skip == 0 {
		cfg.Skip = 0.5
	}
	cfg.Skip = max(0, cfg.Skip)
	cfg.Drawing = cmp.Or(cfg.Drawing, Near)
	if cfg.Spread == 0 {
		cfg.Spread = 0.3
	}
	cfg.Valuation = cmp.Or(cfg.Valuation, Saving)
	if cfg.Passes == 0 {
		cfg.Passes = 2
	}
	if cfg.Valuation == Throughput {
		cfg.Passes = 1
	}
	if cfg.Tries == 0 {
		cfg.Tries = 100_000
	}
	var es hare.InvalidErrors
	if cfg.Draws < 0 || cfg.Draws > 1<<20 {
		es.Add("/draws", "out_of_range", "must be from 1 to %d", 1<<20)
	}
	if !(cfg.Skip < 1) {
		es.Add("/skip", "out_of_range", "must be below 1, or every category would be skipped")
	}
	if cfg.Drawing != Near && cfg.Drawing != Uniform {
		es.Add("/drawing", "unknown_drawing", "is %.60q: use %s or %s", cfg.Drawing, Near, Uniform)
	}
	if !(cfg.Spread >= 0 && cfg.Spread <= 10) {
		es.Add("/spread", "out_of_range", "must be from 0 to 10")
	}
	if cfg.Valuation != Saving && cfg.Valuation != Throughput {
		es.Add("/valuation", "unknown_valuation", "is %.60q: use %s or %s", cfg.Valuation, Saving, Throughput)
	}
	if cfg.Passes < 0 || cfg.Passes > 100 {
		es.Add("/passes", "out_of_range", "must be from 1 to 100")
	}
	if len(es) > 0 {
		return cfg, es
	}
	return cfg, nil
}

// Placement is the best matching that was found, with the changes that lowered its Score. Prices are
// those of the market before the changes.
type Placement struct {
	Category []int
	Matching
	// Score is Σ w JCT in seconds.
	Score float64
	// Markets is the number of markets that were held, and Skipped that of drawn categories for
	// which none was.
	Markets, Skipped int
	// Changes is the number of changes after the market.
	Changes int
}

// Sample places jobs: it draws categories (K_1, …, K_n) of jobs with K_i workers, holds the matching
// market of those that are not skipped, and returns the matching with the least Score. All workers are
// given out, as far as the jobs can use them. The same problem, settings and seed give the same
// placement. It takes
// O(N n log n) for N draws of n jobs, and the time of Market.Match for each category that is not
// skipped, and O(C) for each of Config.Tries. Errors are hare.InvalidErrors, or those of the context.
func Sample(ctx context.Context, p *Problem, cfg Config) (*Placement, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("market: settings: %w", err)
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("market: %w", err)
	}
	if len(p.Jobs) == 0 {
		return &Placement{Matching: Matching{Prices: make([]float64, len(p.Classes))}}, nil
	}
	s := newSampler(p, cfg)
	type drawn struct {
		category []int
		estimate float64
	}
	var all []drawn
	categories := s.all()
	keep := len(categories)
	if categories == nil {
		categories = s.distinct()
		keep = max(1, int(math.Ceil(float64(len(categories))*(1-cfg.Skip)-1e-9)))
	}
	for _, c := range categories {
		all = append(all, drawn{c, s.estimate(c)})
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(a.estimate, b.estimate) })
	m := NewMarket(p)
	var held []*Placement
	for i, d := range all {
		if i >= keep && len(held) > 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		held = s.hold(m, d.category, held)
		s.skipped = len(all) - i - 1
	}
	if len(held) == 0 {
		// Jobs that run on few classes can make every drawn category impossible. The one with the
		// least workers is then as likely as any.
		if held = s.hold(m, s.least(), held); len(held) == 0 {
			return nil, hare.InvalidErrors{{Pointer: "/jobs", Code: "no_category", Detail: "no drawn category can be " +
				"matched, because the jobs compete for classes that are too small: place fewer jobs"}}
		}
	}
	slices.SortStableFunc(held, func(a, b *Placement) int { return cmp.Compare(a.Score, b.Score) })
	best := held[0]
	for _, h := range held {
		if err := s.improve(ctx, h); err != nil {
			return nil, err
		}
		if h.Score < best.Score {
			best = h
		}
	}
	best.Markets, best.Skipped = s.markets, s.skipped
	return best, nil
}

type sampler struct {
	p        *Problem
	cfg      Config
	rng      *rand.Rand
	mean     []float64 // throughput of a worker by job
	slowness []float64 // 1/r between nodes by job
	most     []int
	total    int
	base     []float64 // K_i at the best of the relaxed categories, up to a factor
	share    []float64
	tries    int // that improve has left
	markets  int // held
	skipped  int
}

func newSampler(p *Problem, cfg Config) *sampler {
	n := len(p.Jobs)
	s := &sampler{p: p, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6d61726b6574)), // "market" in ASCII
		mean: make([]float64, n), slowness: make([]float64, n), most: make([]int, n), base: make([]float64, n),
		share: make([]float64, n), tries: cfg.Tries}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		workers := 0.0
		for c, rate := range j.Rate {
			if n := float64(p.Classes[c].Workers); rate > 0 && n > 0 {
				s.mean[i] += rate * n
				workers += n
				if bps := p.Classes[c].BetweenBps; bps > 0 {
					s.slowness[i] = max(s.slowness[i], 1/bps)
				}
			}
		}
		s.mean[i] /= workers
		s.most[i] = p.mostOf(j)
		s.total += s.most[i]
		s.base[i] = math.Sqrt(j.Weight * j.Iterations * j.Samples / s.mean[i])
	}
	s.total = min(s.total, p.workers())
	return s
}

func (s *sampler) least() []int {
	c := make([]int, len(s.p.Jobs))
	for i := range c {
		c[i] = s.p.Jobs[i].least()
	}
	return c
}

// all lists all categories with s.total workers where there are no more than Config.Draws, and is
// nil otherwise. It takes O(N n).
func (s *sampler) all() [][]int {
	var all [][]int
	category := make([]int, len(s.p.Jobs))
	least, most := make([]int, len(category)+1), make([]int, len(category)+1) // of the jobs from i on
	for i := len(category) - 1; i >= 0; i-- {
		least[i], most[i] = least[i+1]+s.p.Jobs[i].least(), most[i+1]+s.most[i]
	}
	var add func(i, left int) bool
	add = func(i, left int) bool {
		if i == len(category) {
			all = append(all, slices.Clone(category))
			return len(all) <= s.cfg.Draws
		}
		for k := max(s.p.Jobs[i].least(), left-most[i+1]); k <= min(s.most[i], left-least[i+1]); k++ {
			category[i] = k
			if !add(i+1, left-k) {
				return false
			}
		}
		return true
	}
	if !add(0, s.total) {
		return nil
	}
	return all
}

// distinct draws until it has Config.Draws different categories, four times as often at most.
func (s *sampler) distinct() [][]int {
	var all [][]int
	seen := map[string]bool{}
	for i := 0; len(all) < s.cfg.Draws && i < 4*s.cfg.Draws; i++ {
		c := s.draw(i)
		if key := fmt.Sprint(c); !seen[key] {
			seen[key] = true
			all = append(all, c)
		}
	}
	return all
}

// draw draws a category; number counts the draws from 0.
func (s *sampler) draw(number int) []int {
	for i := range s.share {
		switch {
		case s.cfg.Drawing == Uniform:
			s.share[i] = s.rng.ExpFloat64() // shares of a sum that are even over all compositions
		case number == 0:
			s.share[i] = s.base[i]
		default:
			spread := s.cfg.Spread * (1 + float64(number)/float64(s.cfg.Draws))
			s.share[i] = s.base[i] * math.Exp(spread*s.rng.NormFloat64())
		}
	}
	if s.cfg.Drawing == Uniform {
		if c, ok := s.cut(); ok {
			return c
		}
	}
	return s.divide()
}

// cut draws evenly among the categories with s.total workers, which are the choices of n − 1 of the
// places between the workers that are left after each job has its least number. It returns false
// where a job would have more than it can use.
func (s *sampler) cut() ([]int, bool) {
	category := s.least()
	left := s.total
	for _, k := range category {
		left -= k
	}
	cuts := s.rng.Perm(left + len(category) - 1)[:len(category)-1]
	slices.Sort(cuts)
	before := -1
	for i := range category {
		at := left + len(category) - 1
		if i < len(cuts) {
			at = cuts[i]
		}
		category[i] += at - before - 1
		before = at
		if category[i] > s.most[i] {
			return nil, false
		}
	}
	return category, true
}

// divide divides the workers in proportion to s.share within the bounds of the jobs. What is lost
// to rounding goes to the jobs with the greatest remainders.
func (s *sampler) divide() []int {
	category := s.least()
	n := len(category)
	fixed := make([]bool, n)
	left, sum := float64(s.total), 0.0
	for i := range category {
		sum += s.share[i]
	}
	for again := true; again; { // a job beyond a bound stays there, and the others divide what is left
		again = false
		for _, low := range [2]bool{true, false} {
			for i := range category {
				if fixed[i] || sum <= 0 {
					continue
				}
				want := left * s.share[i] / sum
				if low && want < float64(category[i]) || !low && want > float64(s.most[i]) {
					if !low {
						category[i] = s.most[i]
					}
					fixed[i], again = true, true
					left -= float64(category[i])
					sum -= s.share[i]
				}
			}
		}
	}
	rest := s.total
	type remainder struct {
		job int
		of  float64
	}
	var open []remainder
	for i := range category {
		if !fixed[i] && sum > 0 {
			want := max(0, left*s.share[i]/sum)
			k := min(max(int(want), category[i]), s.most[i])
			category[i] = k
			open = append(open, remainder{i, want - float64(k)})
		}
		rest -= category[i]
	}
	slices.SortStableFunc(open, func(a, b remainder) int { return cmp.Compare(b.of, a.of) })
	for _, r := range open {
		if rest > 0 && category[r.job] < s.most[r.job] {
			category[r.job]++
			rest--
		}
	}
	for i := range category { // what rounding and bounds have left over, either way
		up := max(0, min(rest, s.most[i]-category[i]))
		down := max(0, min(-rest, category[i]-s.p.Jobs[i].least()))
		category[i] += up - down
		rest += down - up
	}
	return category
}

// estimate is the Score of a category if all workers had a job's mean throughput.
func (s *sampler) estimate(category []int) float64 {
	sum := 0.0
	for i, k := range category {
		j, n := &s.p.Jobs[i], float64(k)
		sum += j.Weight * j.Iterations * (j.Samples/(n*s.mean[i]) + 2*(n-1)*j.Bytes*s.slowness[i]/n)
	}
	return sum
}

// hold holds the markets of a category and appends the best of their matchings.
func (s *sampler) hold(m *Market, category []int, held []*Placement) []*Placement {
	best := &Placement{Score: math.Inf(1)}
	at := make([]float64, len(category)) // Σρ of each job
	for i, k := range category {
		at[i] = float64(k) * s.mean[i]
	}
	for range s.cfg.Passes {
		got, ok := m.Match(category, func(i, c int) float64 {
			j := &s.p.Jobs[i]
			if s.cfg.Valuation == Throughput {
				return j.Rate[c]
			}
			return j.Weight * j.Iterations * j.Samples * j.Rate[c] / (at[i] * at[i])
		})
		s.markets++
		if !ok {
			return held
		}
		if score := s.p.Score(got.Counts); score < best.Score {
			best.Category, best.Matching, best.Score = category, *got, score
		}
		for i, counts := range got.Counts {
			rate := 0.0
			for c, n := range counts {
				rate += float64(n) * s.p.Jobs[i].Rate[c]
			}
			at[i] = math.Sqrt(at[i] * rate) // halfway, lest two jobs change places for ever
		}
	}
	if best.Counts == nil {
		return held
	}
	return append(held, best)
}
