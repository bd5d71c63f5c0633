package greedy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

// Relaxed jobs at the places of gangs are a plan, which ends each job when its gang ends, also where jobs have more
// tasks than a type has GPUs and where nodes pause.
func TestPlacesOfGangsServeRelaxedJobs(t *testing.T) {
	plans, wide := 0, 0
	for seed := uint64(1); seed <= 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 31))
		inst := randomGangs(r, 2+r.IntN(10), seed%3 > 0).Instance
		for i := range inst.Jobs {
			inst.Jobs[i].Sync, inst.Jobs[i].Mix = hare.Relaxed, false
			inst.Jobs[i].Tasks *= 1 + r.Int64N(4)
		}
		m := hare.NewModel(inst)
		jobs := make([]int, len(m.Jobs))
		for i := range jobs {
			jobs[i] = i
		}
		gangs := gangSurrogates(m, jobs)
		plan, err := Assign(t.Context(), gangs, Order(gangs, nil, "wspt"), Insertion)
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

// Where jobs arrive over time and the places of surrogates are the best ones, no more search for others follows.
func TestPlacesServeWhereJobsArrive(t *testing.T) {
	m := mixture(t)
	if !arriveTogether(m) {
		t.Error("the jobs of standard-200 arrive together")
	}
	inst := m.Instance
	for i := range inst.Jobs {
		inst.Jobs[i].ReleaseUs = int64(i) * 6_000_000
	}
	if m = hare.NewModel(inst); arriveTogether(m) {
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
		big: make([]bool, len(m.Jobs)), filler: filler, annealed: annealed, rest: &rest}
	if !ms.candidate(0, 0.2) || !ms.placesServe {
		t.Fatalf("after the first candidate, places serve: %t", ms.placesServe)
	}
	first := ms.value
	ms.progress = nil
	if !ms.candidate(1, 0.9) || !ms.placesServe || ms.progress != nil {
		t.Error("the second candidate searched for other places")
	}
	if ms.value.Cmp(first) > 0 {
		t.Errorf("the value went from %s to %s", first, ms.value)
	}
	accept(t, m, ms.best, "places of gangs")
}
