package greedy

import (
	"context"

	"github.com/hare-sched/hare"
)

func anneal(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig) (*Plan, Stats, error) {
	return searchRelaxed(ctx, m, rel, start, cfg)
}
