package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/internal/testing/brute"
)

// TestSearchOnNodesAgainstBruteForce also counts how often the search finds the optimum.
func TestSearchOnNodesAgainstBruteForce(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 15
	}
	solved, optimal := 0, 0
	for seed := 0; solved < n; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		_, m := feasibleNodes(r, 1+r.IntN(3), 1+r.IntN(3))
		what := fmt.Sprint("seed ", seed)
		var first *place.Plan
		for _, kind := range []string{"wspt", "arrival"} {
			if p, err := place.Assign(context.Background(), m, place.Order(m, nil, kind), place.Insertion); err == nil {
				first = p
				break
			}
		}
		if first == nil {
			continue
		}
		best, _, done := brute.OptimumOnNodes(m.Instance, 30_000)
		if !done {
			continue
		}
		solved++
		p, _, err := Improve(context.Background(), m, nil, first, ImproveConfig{Seed: int64(seed), Moves: 1500})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		mustPass(t, m, p, what)
		value := int64(room.Weighted(m, p.EndUs))
		if value < best || value > int64(room.Weighted(m, first.EndUs)) {
			t.Fatalf("%s: the search found %d from %.0f, and the optimum is %d\n%+v", what, value, room.Weighted(m,
				first.EndUs),
				best, m.Instance)
		}
		if value == best {
			optimal++
		}
		cfg := ImproveConfig{Seed: int64(seed), Moves: 1500, Workers: 1}
		again, _, _ := Improve(context.Background(), m, nil, first, cfg)
		if fmt.Sprint(again) != fmt.Sprint(p) {
			t.Fatalf("%s: the same search gave another plan", what)
		}
	}
	t.Logf("the search found the optimum of %d of %d instances", optimal, solved)
	if optimal < n*9/10 {
		t.Errorf("the search found the optimum of %d of %d instances", optimal, solved)
	}
}
