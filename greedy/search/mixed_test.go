package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// Plans of random instances of all modes with windows, busy GPUs, releases and gangs that mix
// types are feasible, never worse than the start, and the same on any number of workers.
func TestMixedPlansAreFeasible(t *testing.T) {
	mixtures, better := 0, 0
	seeds := 100
	if testing.Short() {
		seeds = 8
	}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		r := rand.New(rand.NewPCG(seed, 12))
		m := randomMixture(r, 3+r.IntN(20), seed%3 > 0)
		loose, held := splitJobs(m)
		start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if len(loose) == 0 || len(held) == 0 || err != nil {
			continue
		}
		mixtures++
		given := start
		if seed%4 == 0 {
			given = nil
		}
		cfg := ImproveConfig{Seed: int64(seed), Moves: 50 + r.Int64N(600), Workers: 1}
		p, _, err := Improve(t.Context(), m, relaxation(m), given, cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p == nil {
			if given != nil {
				t.Fatalf("seed %d: lost the start", seed)
			}
			continue
		}
		if err := checkGangs(m, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		accept(t, m, p, fmt.Sprint("seed ", seed))
		if given != nil && p.Value(m).Cmp(start.Value(m)) > 0 {
			t.Fatalf("seed %d: worse than the start", seed)
		}
		if p.Value(m).Cmp(start.Value(m)) < 0 {
			better++
		}
		cfg.Workers = 3
		if again, _, err := Improve(t.Context(), m, relaxation(m), given, cfg); err != nil ||
			!reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: one worker and three differ: %v", seed, err)
		}
	}
	if mixtures < seeds*6/10 || better < mixtures/3 {
		t.Errorf("better than the start in %d of %d", better, mixtures)
	}
}

// randomMixture returns randomGangs with some jobs relaxed or mixing types.
func randomMixture(r *rand.Rand, jobs int, windows bool) *model.Model {
	inst := randomGangs(r, jobs, windows).Instance
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		switch r.IntN(5) {
		case 0, 1:
			j.Sync = hare.Relaxed
		case 2:
			j.Mix = j.Sync == hare.Gang
		}
	}
	return model.New(inst)
}

// Every report is of a better value than the one before, and the last is that of the
// plan. The end of ctx ends the search with the best plan so far.
func TestMixedSearchReportsAndEnds(t *testing.T) {
	m := mixture(t)
	start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := start.Value(m)
	reports := 0
	cfg := ImproveConfig{Seed: 3, Moves: 6000, Report: func(v hare.Amount) {
		if v.Cmp(last) >= 0 {
			t.Errorf("reported %s after %s", v, last)
		}
		last = v
		reports++
	}}
	p, _, err := Improve(ctx, m, relaxation(m), start, cfg)
	if err != nil || p.Value(m).Cmp(last) != 0 || reports == 0 {
		t.Errorf("reported %s last of %d, the plan is worth %s (%v)", last, reports, p.Value(m), err)
	}
	accept(t, m, p, "mixture")
	cfg.Moves, last, reports = 1<<50, start.Value(m), 0
	began := time.Now()
	cfg.Elapsed = func() float64 { return time.Since(began).Seconds() / 2 }
	cfg.Report = func(v hare.Amount) {
		last = v
		if reports++; reports == 2 {
			cancel()
		}
	}
	p, _, err = Improve(ctx, m, relaxation(m), start, cfg)
	if err != nil || p.Value(m).Cmp(last) > 0 {
		t.Errorf("cancelled after %s, the plan is worth %s (%v)", last, p.Value(m), err)
	}
	accept(t, m, p, "cancelled mixture")
}

// mixture returns standard-200 with half of the jobs rigid and a quarter gang.
func mixture(t testing.TB) *model.Model {
	inst := loadInstance(t, "standard-200")
	for i := range inst.Jobs {
		inst.Jobs[i].Sync = []hare.Sync{hare.Rigid, hare.Gang, hare.Rigid, hare.Relaxed}[i%4]
	}
	return model.New(inst)
}
