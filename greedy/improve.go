package greedy

import (
	"context"

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
	// Peek is called between the steps of the search with a function that
	// copies the best plan so far, nil while that is start: good for the time of
	// the call, and without influence on what is found. Nil means nobody looks.
	Peek func(best func() *Plan)
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
	loose, held := looseJobs(m)
	switch {
	case len(loose) == 0:
		return anneal(ctx, m, rel, start, cfg)
	case len(held) > 0 && rel != nil:
		return searchMixed(ctx, m, rel, start, cfg, loose, held)
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
	// until is the share of the time that may be used; zero means all.
	until float64
}

func (b *budget) spend(n int64) { b.left -= n }

func (b *budget) over() bool {
	until := b.until
	if until == 0 {
		until = 1
	}
	return b.left <= 0 || b.ctx.Err() != nil || b.cfg.Elapsed != nil && b.cfg.Elapsed() >= until
}

// share is how much of the budget is used, 0 to 1.
func (b *budget) share() float64 {
	s := 1 - float64(b.left)/float64(b.cfg.Moves)
	if b.cfg.Elapsed != nil {
		s = max(s, b.cfg.Elapsed())
	}
	return min(1, max(0, s))
}
