package search

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A search with more work does what one with less work did, and then goes on: its value is not higher. The test
// fails if anything of the search depends on the limit, as a cooling does that ends with the work.
func TestMoreWorkIsNeverWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing to race")
	}
	better := 0
	for seed := uint64(1); seed <= 30; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		n := 3 + r.IntN(12)
		m := randomGangs(r, n, seed%4 > 0)
		start, err := place.Assign(context.Background(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if err != nil {
			continue
		}
		better += betterWithMoreWork(t, m, start, ImproveConfig{Seed: int64(seed)}, 5, 8000*int64(n))
	}
	if better < 30 {
		t.Errorf("more work was better %d times", better)
	}
}

// The same holds for more rigid jobs than StagedJobs, with one chain as beside prices, too.
func TestMoreWorkIsNeverWorseForManyRigidJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing to race")
	}
	m := standard(t, hare.Rigid)
	m.Jobs = m.Jobs[:StagedJobs+20]
	start, err := place.Assign(context.Background(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		t.Fatal(err)
	}
	for _, chains := range []int{1, AnnealingChains} {
		cfg := ImproveConfig{Seed: 2, Chains: chains}
		if better := betterWithMoreWork(t, m, start, cfg, 1000, 64_000); better < 3 {
			t.Errorf("%d chains: more work was better %d times", chains, better)
		}
	}
}

// betterWithMoreWork searches from start with the least work, twice as much, and so on up to the most. It fails the
// test where a value is higher than the one before, and returns how many are lower.
func betterWithMoreWork(t *testing.T, m *model.Model, start *place.Plan, cfg ImproveConfig, least,
	most int64) (better int) {
	t.Helper()
	before := start.Value(m)
	for cfg.Moves = least; cfg.Moves <= most; cfg.Moves *= 2 {
		p, _, err := Improve(context.Background(), m, nil, start, cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", cfg.Seed, err)
		}
		if err := checkGangs(m, p); err != nil {
			t.Fatalf("seed %d: %v", cfg.Seed, err)
		}
		v := p.Value(m)
		switch v.Cmp(before) {
		case 1:
			t.Errorf("seed %d, %d chains: %s with the work %d, but %s with half of it", cfg.Seed, cfg.Chains, v,
				cfg.Moves, before)
		case -1:
			better++
		}
		before = v
	}
	return better
}

// Tempering gives the same plan with any number of workers, and its own plan for each seed where there are
// several good ones.
func TestTemperingIsDeterministic(t *testing.T) {
	m := standard(t, hare.Rigid)
	m.Jobs = m.Jobs[:30]
	start, err := place.Assign(context.Background(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		t.Fatal(err)
	}
	moves := int64(6000 * len(m.Jobs))
	if testing.Short() {
		moves /= 2
	}
	var first *place.Plan
	for workers := 1; workers <= 3; workers++ {
		p, stats, err := Improve(context.Background(), m, nil, start, ImproveConfig{Seed: 4, Moves: moves,
			Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if stats.Moves < moves || stats.Moves > moves+moves/10 {
			t.Errorf("%d moves, limited to %d", stats.Moves, moves)
		}
		if first == nil {
			first = p
		} else if p.Value(m) != first.Value(m) || room.SumOfEnds(m, p.EndUs) != room.SumOfEnds(m, first.EndUs) {
			t.Errorf("%d workers: %s, one worker: %s", workers, p.Value(m), first.Value(m))
		}
	}
}
