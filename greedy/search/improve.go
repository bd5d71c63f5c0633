package search

import (
	"cmp"
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
)

// Improve searches from start for a better plan, guided by rel, until the work is spent,
// the target is reached or ctx ends. The returned plan is never worse than start.
func Improve(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *place.Plan,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	if cfg.Moves == 0 {
		cfg.Moves = 100_000
	}
	if cfg.Continual && !continues(m, rel, start) {
		return improveInRounds(ctx, m, rel, start, cfg)
	}
	if place.HasShapes(m) {
		return improveInShapes(ctx, m, rel, start, cfg)
	}
	if m.Placed || room.HasSetups(cmp.Or(cfg.shaped, m)) {
		return improveOnNodes(ctx, m, rel, start, cfg)
	}
	filler, annealed := splitJobs(m)
	switch {
	case cfg.shaped != nil && len(filler) > 0:
		return improveOnNodes(ctx, m, rel, start, cfg)
	case len(filler) > 0 && (room.HasAfter(m) || len(annealed) > 0 && m.Instance.Objective != hare.ObjectiveWeightedJCT):
		// The other searches move rounds without regard to other jobs, and take the value of a
		// plan apart by jobs. Classes of GPUs stand for nodes here.
		return improveOnNodes(ctx, m, rel, start, cfg)
	case len(filler) == 0:
		cfg.staged = cfg.Heat == 0 && cfg.shaped == nil
		return anneal(ctx, m, rel, start, cfg)
	case len(annealed) > 0 && rel != nil:
		cfg.JobSeconds = 0 // the annealing has only a part of the time
		return searchMixed(ctx, m, rel, start, cfg, filler, annealed)
	}
	if cfg.Elapsed != nil && !cfg.Continual && start != nil && gangsPay(m) {
		start = improveAsGangs(ctx, m, rel, start, &cfg)
	}
	return searchRelaxed(ctx, m, rel, start, cfg, place.BigJobs(m, place.MaxTasksByRound))
}
