package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// randomRelaxed returns randomGangs with all jobs relaxed, each with up to wider times as many tasks.
func randomRelaxed(r *rand.Rand, jobs int, windows bool, wider int64) *model.Model {
	inst := randomGangs(r, jobs, windows).Instance
	for i := range inst.Jobs {
		inst.Jobs[i].Sync, inst.Jobs[i].Mix = hare.Relaxed, false
		inst.Jobs[i].Tasks *= 1 + r.Int64N(wider)
	}
	return model.New(inst)
}

// Relaxed jobs at the places of gangs are a plan, which ends each job when its gang ends, also where jobs have more
// tasks than a type has GPUs and where nodes pause.
func TestPlacesOfGangsServeRelaxedJobs(t *testing.T) {
	plans, wide := 0, 0
	for seed := uint64(1); seed <= 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 31))
		m := randomRelaxed(r, 2+r.IntN(10), seed%3 > 0, 4)
		jobs := make([]int, len(m.Jobs))
		for i := range jobs {
			jobs[i] = i
		}
		gangs := gangSurrogates(m, jobs)
		plan, err := place.Assign(t.Context(), gangs, place.Order(gangs, nil, "wspt"), place.Insertion)
		if err != nil {
			continue // a window is too short for a whole round of some gang
		}
		plans++
		p := atPlacesOfGangs(m, gangs, plan)
		for i := range m.Jobs {
			if m.Jobs[i].Tasks > gangs.Jobs[i].Tasks {
				wide++
			}
			if p.EndUs[i] != plan.EndUs[i] {
				t.Fatalf("seed %d: job %d ends at %d, its gang at %d", seed, i, p.EndUs[i], plan.EndUs[i])
			}
		}
		accept(t, m, p, fmt.Sprint("seed ", seed))
	}
	if plans < 100 || wide < 50 {
		t.Errorf("%d plans, %d jobs wider than a type", plans, wide)
	}
}

// Where jobs arrive over time, the others take the places of their surrogates, and no search for others follows.
func TestPlacesServeWhereJobsArrive(t *testing.T) {
	m := mixture(t)
	if !arriveTogether(m) {
		t.Error("the jobs of standard-200 arrive together")
	}
	inst := m.Instance
	for i := range inst.Jobs {
		inst.Jobs[i].ReleaseUs = int64(i) * 6_000_000
	}
	if m = model.New(inst); arriveTogether(m) {
		t.Error("the jobs arrive over time")
	}
	filler, annealed := splitJobs(m)
	rest := *m
	rest.Jobs = nil
	for _, i := range filler {
		rest.Jobs = append(rest.Jobs, m.Jobs[i])
	}
	cfg := ImproveConfig{Seed: 1, Moves: 4000}
	ms := &mixedSearch{ctx: t.Context(), m: m, rel: relaxation(m), cfg: &cfg, left: cfg.Moves,
		big: make([]bool, len(m.Jobs)), filler: filler, annealed: annealed, fillerModel: &rest,
		placesServe: placesMayServe(m)}
	if !ms.candidate(0, 0.2) || !ms.placesServe || ms.progress != nil {
		t.Fatalf("after the first candidate, places serve: %t", ms.placesServe)
	}
	first := ms.value
	if !ms.candidate(1, 0.9) || !ms.placesServe || ms.progress != nil {
		t.Error("the second candidate searched for other places")
	}
	if ms.value.Cmp(first) > 0 {
		t.Errorf("the value went from %s to %s", first, ms.value)
	}
	accept(t, m, ms.best, "places of gangs")
}

// Relaxed jobs are annealed as gangs where they synchronise little and are narrow.
func TestGangsPay(t *testing.T) {
	for _, c := range []struct {
		name                string
		sync                float64 // as a share of the compute time
		tasks               int64   // of 40 GPUs
		span                int64   // between two releases
		pays                bool
		wantSync, wantWidth float64
	}{
		{"little", 0.05, 4, 1_000_000, true, 0.05 / 1.05, 0.1},
		{"together", 0.05, 4, 0, false, 0.05 / 1.05, 0.1},
		{"together, less", 0.03, 4, 0, true, 0.03 / 1.03, 0.1},
		{"much", 0.1, 4, 1_000_000, false, 0.1 / 1.1, 0.1},
		{"wide", 0.05, 20, 1_000_000, false, 0.05 / 1.05, 0.5},
	} {
		inst := loadInstance(t, "standard-200")
		inst.Jobs = inst.Jobs[:20]
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			j.Tasks, j.ReleaseUs = c.tasks, c.span*int64(i)
		}
		m := model.New(inst)
		for i := range m.Classes {
			m.Classes[i].GPUs = m.Classes[i].GPUs[:min(40, len(m.Classes[i].GPUs))]
		}
		for i := range m.Jobs {
			for k := range m.Jobs[i].Modes {
				md := &m.Jobs[i].Modes[k]
				md.SyncUs = int64(c.sync * float64(md.ComputeUs))
			}
		}
		if pays := gangsPay(m); pays != c.pays {
			t.Errorf("%s: pays: %t", c.name, pays)
		}
		if sync, width := syncAndWidth(m); math.Abs(sync-c.wantSync) > 1e-3 || math.Abs(width-c.wantWidth) > 1e-3 {
			t.Errorf("%s: shares %g and %g, want %g and %g", c.name, sync, width, c.wantSync, c.wantWidth)
		}
	}
}

// The annealing of gangs never makes a plan of relaxed jobs worse, and makes at least a third of the list schedules
// better.
func TestImproveAsGangs(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 6 // under the race detector
	}
	plans, better := 0, 0
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		r := rand.New(rand.NewPCG(seed, 33))
		m := randomRelaxed(r, 3+r.IntN(15), seed%3 > 0, 1)
		start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if err != nil {
			continue
		}
		plans++
		p := improveAsGangs(t.Context(), m, relaxation(m), start, &ImproveConfig{Seed: int64(seed), Moves: 1000})
		accept(t, m, p, fmt.Sprint("seed ", seed))
		switch p.Value(m).Cmp(start.Value(m)) {
		case 1:
			t.Fatalf("seed %d: %s after %s", seed, p.Value(m), start.Value(m))
		case -1:
			better++
		}
	}
	if plans < seeds*2/3 || better < plans/3 {
		t.Errorf("better in %d of %d", better, plans)
	}
}
