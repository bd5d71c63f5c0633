package search

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// A search on time grids finds the same plan as a search on profiles, with any number of workers.
// The plan is also feasible if times are in seconds.
func TestSearchOnCellsAsOnSteps(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 3 // the workers of Improve are the same for each
	}
	tried := 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 13))
		m := randomMixed(r, 1+r.Int64N(100))
		inst := *m.Instance
		inst.Jobs = nil
		for _, j := range m.Instance.Jobs {
			if j.Sync == hare.Relaxed {
				inst.Jobs = append(inst.Jobs, j)
			}
		}
		m = model.New(&inst)
		start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if err != nil {
			continue
		}
		tried++
		rel := relaxation(m)
		big := make([]bool, len(m.Jobs))
		cfg := ImproveConfig{Seed: 1, Moves: 400, Workers: 1}
		s := newKeySearch(t.Context(), m, start, &cfg)
		s.empty, s.horizon = place.NewRunResidual(m, big), slices.Max(start.EndUs)
		want, stats, err := s.search(rel, start)
		if err != nil {
			t.Fatal(err)
		}
		s = newKeySearch(t.Context(), m, start, &cfg)
		s.chooseResidual(start, big)
		if s.unit != 1 {
			continue
		}
		if s.m == s.fullModel {
			t.Fatalf("seed %d: no cells", seed)
		}
		got, gotStats, _ := s.search(rel, start)
		if gotStats != stats || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: cells %v, steps %v", seed, gotStats, stats)
		}
		cfg.Workers = 4
		if got, _, _ = Improve(t.Context(), m, rel, start, cfg); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: one worker and several differ", seed)
		}
		scaled := inst
		scaled.Jobs = append([]hare.Job(nil), inst.Jobs...)
		for i := range scaled.Jobs {
			j := &scaled.Jobs[i]
			j.ReleaseUs *= 1000
			j.On = append([]hare.Profile(nil), j.On...)
			for k := range j.On {
				j.On[k].ComputeUs *= 1000
				j.On[k].SyncUs *= 1000
			}
		}
		scaled.Cluster = hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 3},
			{Type: "B", Count: 2}, {Type: "C", Count: 2}, {Type: "D", Count: 2}},
			Windows: []hare.Window{{StartUs: 7000, EndUs: 500_000}, {StartUs: 600_000, EndUs: hare.Forever}}}}}
		m = model.New(&scaled)
		if start, err = place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion); err != nil {
			t.Fatal(err)
		}
		best, _, err := Improve(t.Context(), m, relaxation(m), start, cfg)
		if err != nil {
			t.Fatal(err)
		}
		accept(t, m, best, fmt.Sprint("seed ", seed))
	}
	if tried < int(seeds)/2 {
		t.Errorf("%d tried", tried)
	}
}

// Whatever moves are made, the keys of a job never fall from round to round, so that the rounds are placed in order.
func TestMovesKeepRoundsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 13))
	m := randomRelaxed(r, 8, true, 1)
	start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		t.Fatal(err)
	}
	cfg := ImproveConfig{Seed: 1, Moves: 400}
	ks := newKeySearch(t.Context(), m, start, &cfg)
	ks.chooseResidual(start, make([]bool, len(m.Jobs)))
	ks.prepare(relaxation(m))
	ks.lambda = make([]float64, len(m.Jobs))
	below := false
	for range 20_000 {
		var tr trial
		ks.drawMove(&tr)
		for at, i := range tr.jobs {
			if !slices.IsSorted(tr.keys[at]) {
				t.Fatalf("job %d: %v becomes %v", i, ks.keys[i], tr.keys[at])
			}
			below = below || tr.keys[at][0] < 0
			ks.keys[i] = tr.keys[at]
		}
	}
	if !below {
		t.Error("no move made a key negative")
	}
}
