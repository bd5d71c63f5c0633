package search

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
)

// Most searches plan what they do by the moves that they have. A continual search makes them in rounds, of which
// each one has twice the moves of the one before, begins from the best plan so far, and is made only where all
// of it fits into the moves that are left. A search with more moves therefore makes the same rounds, and more.
// Annealing and the search of relaxed jobs by keys need no rounds: see runStages and cooled.
const firstRound = 6 // the moves of the first round, for each job

// continues reports whether the search of m is continual without rounds.
func continues(m *hare.Model, rel *hare.Relaxation, start *place.Plan) bool {
	if place.HasShapes(m) || m.Placed || room.HasSetups(m) {
		return false
	}
	filler, annealed := splitJobs(m)
	switch {
	case len(filler) == 0:
		return true
	case room.HasAfter(m):
		return false
	case len(annealed) > 0:
		// Of few jobs, the search by keys tries nearly all orders.
		return m.Instance.Objective == hare.ObjectiveWeightedJCT && len(m.Jobs) > fewJobs && rel != nil && start != nil
	}
	return true
}

// improveInRounds is Improve by searches of twice as many moves each.
func improveInRounds(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *place.Plan,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	var stats Stats
	best := start
	var value hare.Amount
	if best != nil {
		value = best.Value(m)
	}
	moves := firstRound * int64(max(1, len(m.Jobs)))
	for n := int64(0); moves <= cfg.Moves-stats.Moves && ctx.Err() == nil; n++ {
		if cfg.StopAt != 0 && best != nil && value.Float() <= cfg.StopAt {
			break
		}
		part := cfg
		part.Continual, part.Moves, part.Seed = false, moves, cfg.Seed+n<<44
		p, done, err := Improve(ctx, m, rel, best, part)
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
