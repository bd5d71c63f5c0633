package greedy

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
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
		start, err := Assign(context.Background(), m, Order(m, nil, "wspt"), Insertion)
		if err != nil {
			continue
		}
		before := start.Value(m)
		for work := int64(5); work <= 8000*int64(n); work *= 2 {
			p, _, err := Improve(context.Background(), m, nil, start, ImproveConfig{Seed: int64(seed), Moves: work})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := checkGangs(m, p); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			v := p.Value(m)
			switch v.Cmp(before) {
			case 1:
				t.Errorf("seed %d: %s with the work %d, but %s with half of it", seed, v, work, before)
			case -1:
				better++
			}
			before = v
		}
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
	start, err := Assign(context.Background(), m, Order(m, nil, "wspt"), Insertion)
	if err != nil {
		t.Fatal(err)
	}
	for chains := range 2 {
		before, better := start.Value(m), 0
		for work := int64(1000); work <= 64_000; work *= 2 {
			p, _, err := Improve(context.Background(), m, nil, start, ImproveConfig{Seed: 2, Moves: work, Chains: chains})
			if err != nil {
				t.Fatal(err)
			}
			v := p.Value(m)
			switch v.Cmp(before) {
			case 1:
				t.Errorf("%d chains: %s with the work %d, but %s with half of it", chains, v, work, before)
			case -1:
				better++
			}
			before = v
		}
		if better < 3 {
			t.Errorf("%d chains: more work was better %d times", chains, better)
		}
	}
}

// Tempering gives the same plan with any number of workers, and its own plan for each seed where there are
// several good ones.
func TestTemperingIsDeterministic(t *testing.T) {
	m := standard(t, hare.Rigid)
	m.Jobs = m.Jobs[:30]
	start, err := Assign(context.Background(), m, Order(m, nil, "wspt"), Insertion)
	if err != nil {
		t.Fatal(err)
	}
	moves := int64(6000 * len(m.Jobs))
	if testing.Short() {
		moves /= 2
	}
	var first *Plan
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
		} else if p.Value(m) != first.Value(m) || sumOfEnds(m, p.EndUs) != sumOfEnds(m, first.EndUs) {
			t.Errorf("%d workers: %s, one worker: %s", workers, p.Value(m), first.Value(m))
		}
	}
}
