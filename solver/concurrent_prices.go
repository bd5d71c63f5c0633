package solver

import (
	"context"
	"math"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/relax"
)

// The annealing of many jobs has two chains of trials and no use for a third core, which finds prices of jobs at the
// same time. On two cores, one chain comes about as far in the whole time as two in what such prices would leave.
const (
	exactSeconds = 1.2e-3           // the time for each job in which one core computes the bound exactly and proves it
	exactShare   = 0.4              // the most of the time for that
	shownLeast   = 10 * time.Second // shorter limits do not pay for bounds on the way
)

// pricesConcurrently reports whether prices of jobs are found beside the search.
func (s *solve) pricesConcurrently() bool {
	return s.concurrencyPays() && s.incumbent != nil && !s.gapReached() && s.priced != nil &&
		len(s.priced.Certificate.Pools) == 0
}

// improveWhilePricing improves the incumbent while other cores raise the bound by prices of jobs.
func (s *solve) improveWhilePricing(ctx context.Context, guide *hare.Relaxation) {
	left := s.timeLeft().Seconds()
	exact := min(exactShare*left, exactSeconds*float64(len(s.model.Jobs)))
	part, cancel := context.WithTimeout(ctx, time.Duration((left-exact)*float64(time.Second)))
	defer cancel()
	chains := min(greedy.AnnealingChains, s.cores()-1)
	s.limits.workers, s.limits.chains = chains, chains
	bp, from, target := &concurrentPrices{}, s.priced, s.value.Float()
	s.concurrent = bp
	found := make(chan proven, 1)
	go func() { found <- s.priceJobsConcurrently(part, bp, from, target, s.cores()-chains) }()
	s.improve(ctx, guide)
	s.cut = s.cut || part.Err() != nil
	cancel() // the search may have reached the gap
	end := <-found
	s.takeShown()
	s.limits.workers, s.limits.chains, s.concurrent = s.cfg.Workers, 0, nil
	if end.proof != nil && !s.best.atLeast(end.rel) {
		s.best = end
	}
}

// priceJobsConcurrently finds prices of jobs and proves their bound; the answer has no proof where none was found. It
// runs beside the solving goroutine, and reads only what the solving goroutine does not change.
func (s *solve) priceJobsConcurrently(ctx context.Context, bp *concurrentPrices, from *hare.Relaxation, target float64,
	workers int) proven {
	prove := func(rel *hare.Relaxation) proven {
		if rel == nil {
			return proven{}
		}
		proof, _ := s.prove(rel) // of a tree, which is no error where it is too large to check
		return proven{rel, proof}
	}
	cfg := relax.JobPricesConfig{Target: target, Cells: timedCells, Workers: workers, Quit: s.quit.Done(),
		Report: func(bound float64) { bp.bound.Store(math.Float64bits(bound)) }}
	if s.opt.TimeLimit >= shownLeast {
		cfg.Improved = func(rel *hare.Relaxation) {
			if shown := prove(rel); shown.proof != nil {
				bp.shown.Store(&shown)
			}
		}
	}
	return prove(relax.JobPrices(ctx, s.model, from, cfg))
}
