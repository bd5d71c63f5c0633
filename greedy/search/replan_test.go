package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Plans made from the hints of another plan, or of nothing, hold every constraint.
func TestReplansAreFeasible(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := randomGangs(r, 2+r.IntN(25), seed%2 == 0)
		if len(place.Infeasible(m)) > 0 {
			continue
		}
		hints := make([]Hint, len(m.Jobs))
		for _, moves := range []int64{-1, 500} {
			p, stats, err := Replan(t.Context(), m, nil, hints, ImproveConfig{Moves: moves, Chains: 1, Workers: 1})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := checkGangs(m, p); err != nil {
				t.Fatalf("seed %d, %d moves: %v", seed, moves, err)
			}
			if (stats.Moves > 0) != (moves > 0) {
				t.Errorf("seed %d: %d moves made, %d allowed", seed, stats.Moves, moves)
			}
			for i := range hints {
				hints[i] = Hint{}
				if r.IntN(4) > 0 {
					hints[i] = Hint{Types: []int{r.IntN(len(m.Types)), r.IntN(len(m.Types))}, StartUs: p.Jobs[i][0].StartUs}
				}
			}
		}
	}
}

// Searches that start where earlier ones ended make the same list schedules.
func TestListSchedulesWithFloors(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		m := randomGangs(r, 2+r.IntN(40), seed%2 == 0)
		ap, ok := newAnnealProblem(m, nil, nil, nil)
		if !ok {
			continue
		}
		with, without := newListScheduler(ap), newListScheduler(ap)
		without.finder.Floors = nil
		for range 3 {
			order := make([]int32, len(ap.jobs))
			for n, i := range r.Perm(len(order)) {
				order[n] = int32(i)
			}
			a, b := make([]room.JobPlan, len(order)), make([]room.JobPlan, len(order))
			v, fits := with.schedule(t.Context(), order, 0, with.everyPlan, a)
			w, fitsToo := without.schedule(t.Context(), order, 0, without.everyPlan, b)
			if v != w || fits != fitsToo || !slices.Equal(a, b) || with.work != without.work {
				t.Fatalf("seed %d: value %g in %d, without floors %g in %d", seed, v, with.work, w, without.work)
			}
		}
	}
}

// A model with a gang that needs several types at once is planned as well.
func TestReplanAcrossTypes(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 2}, {Type: "B", Count: 2}}}}}}
	for _, id := range []string{"a", "b"} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: id, WeightMicro: 1e6, Rounds: 3, Tasks: 3, Sync: hare.Gang, Mix: true,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 2e6}}})
	}
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	m := model.New(inst)
	for _, moves := range []int64{-1, 100} {
		p, _, err := Replan(t.Context(), m, nil, make([]Hint, 2), ImproveConfig{Moves: moves, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.EndUs[0]+p.EndUs[1] != 18e6 {
			t.Errorf("the jobs end at %v", p.EndUs)
		}
	}
}
