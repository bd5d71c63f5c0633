package search

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
)

// Most searches plan what they do by the moves that they have. A continual search makes them in rounds, of which
// each one has twice the moves of the one before, begins from the best plan so far, and is made only where all
// of it fits into the moves that are left. A search with more moves therefore makes the same rounds, and more.
// Searches that are continual by themselves need no rounds: see search.continual.

// firstRound is the moves of the first round, for each job.
const firstRound = 6

// improveInRounds is Improve by searches of twice as many moves each.
func improveInRounds(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
	var stats Stats
	m, cfg, best := rq.m, &rq.cfg, rq.start
	var value hare.Amount
	if best != nil {
		value = best.Value(m)
	}
	moves := firstRound * int64(max(1, len(m.Jobs)))
	for n := int64(0); moves <= cfg.Moves-stats.Moves && ctx.Err() == nil; n++ {
		if cfg.StopAt != 0 && best != nil && value.Float() <= cfg.StopAt {
			break
		}
		part := *cfg
		part.Continual, part.Moves, part.Seed = false, moves, cfg.Seed+n<<44
		p, done, err := rq.improve(ctx, m, rq.rel, best, part)
		stats.Moves += moves
		stats.Evaluations += done.Evaluations
		stats.Accepted += done.Accepted
		if err != nil {
			return best, stats, err
		}
		if p != nil {
			if v := p.Value(m); best == nil || v.Cmp(value) < 0 {
				best, value = p, v
			}
		}
		moves *= 2
	}
	return best, stats, nil
}
