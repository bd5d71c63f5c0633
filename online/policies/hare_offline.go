package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/relax"
)

// HareConfig tunes NewHare. The zero value is good.
type HareConfig struct {
	// Paper asks for algorithm 1 of the paper: the order of the relaxation, and
	// each task on the GPU that is available first. Otherwise tasks are placed
	// where they end first, gaps included, and the plan is searched.
	Paper bool
	// Assign replaces the rule by which tasks get GPUs: empty means
	// earliest_available under Paper, insertion otherwise.
	Assign greedy.Rule
	// LP solves linear programs. Nil means the price method without linear programs, also
	// for algorithm 1, whose order otherwise comes from the repaired relaxation.
	LP lp.Solver
	// Moves is the work of the search; zero means 20,000, negative none.
	Moves int64
	// Seed is the seed of the search.
	Seed int64
	// Workers is the number of goroutines; zero means one.
	Workers int
}

// defaultMoves are HareConfig.Moves where they are zero.
const defaultMoves = 20_000

// movesPerLP is the number of moves of the search that take as long as one linear
// program, on the small instances whose prices linear programs polish.
const movesPerLP = 1000

// NewHare plans all jobs of inst, which it knows with their releases and the
// windows of service, and then follows the plan: Hare offline.
//
// [V] Algorithm 1, with the repair of the relaxation (docs/inside/bounds.md) and ties by job,
// then round. [D] Prices, gaps and search are Hare's own. Where the GPU that is available
// first leaves no place for a job, gaps are used under Paper too.
func NewHare(ctx context.Context, inst *hare.Instance, cfg HareConfig) (online.Policy, error) {
	plan, err := planHare(ctx, inst, cfg)
	if err != nil {
		return nil, fmt.Errorf("policy: hare: %w", err)
	}
	return NewFollower(inst, plan)
}

func planHare(ctx context.Context, inst *hare.Instance, cfg HareConfig) (*hare.Schedule, error) {
	m := model.New(inst)
	rc := relax.Config{LP: cfg.LP, Workers: max(1, cfg.Workers), Cells: 48}
	moves := cfg.Moves
	if moves == 0 {
		moves = defaultMoves
	}
	switch {
	case cfg.LP == nil:
		rc.MaxLPs = -1
	case cfg.Paper:
		rc.Method = relax.MethodQueyranne
	default:
		rc.MaxLPs = max(1, int(moves/movesPerLP))
	}
	rel, err := relax.Run(ctx, m, rc)
	if err != nil {
		return nil, err
	}
	rule := greedy.Insertion
	if cfg.Paper {
		rule = greedy.EarliestAvailable
	}
	if cfg.Assign != "" {
		rule = cfg.Assign
	}
	items := greedy.Order(m, rel, "relaxation")
	plan, err := greedy.Assign(ctx, m, items, rule)
	if errors.Is(err, greedy.ErrNoPlace) && rule != greedy.Insertion {
		plan, err = greedy.Assign(ctx, m, items, greedy.Insertion)
	}
	if err != nil {
		return nil, err
	}
	if !cfg.Paper && cfg.Moves >= 0 {
		plan, _, err = greedy.Improve(ctx, m, rel, plan,
			greedy.ImproveConfig{Seed: cfg.Seed, Moves: moves, Workers: max(1, cfg.Workers)})
		if err != nil {
			return nil, err
		}
	}
	return plan.Schedule(m)
}
