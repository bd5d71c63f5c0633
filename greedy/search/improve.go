package search

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// searches is the table that Improve walks: searches for some models first, the one for all models last.
var searches = [...]search{
	shapesSearch,
	exactSearch,
	annealingSearch,
	mixedJobsSearch,
	gangsSearch,
	keysSearch,
	nodesSearch,
}

// Parts returns what ImproveConfig.Without can leave out: the searches, and parts of them.
func Parts() (names []string) {
	for i := range searches {
		names = append(names, searches[i].name)
	}
	return append(names, justification, grids)
}

// Improve searches from start for a better plan, guided by rel, until the work is spent, the target is reached or ctx
// ends. It runs the first search of the table that supports the model. The returned plan is never worse than start.
func Improve(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *place.Plan,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	if cfg.Moves == 0 {
		cfg.Moves = 100_000
	}
	rq := &request{m: m, rel: rel, start: start, cfg: cfg, improve: Improve}
	for i := range searches {
		switch s := &searches[i]; {
		case cfg.leavesOut(s.name) || !s.supports(rq):
		case cfg.Continual && !s.continual(rq):
			return improveInRounds(ctx, rq)
		default:
			return s.run(ctx, rq)
		}
	}
	return start, Stats{}, nil // all searches that support the model are left out
}
