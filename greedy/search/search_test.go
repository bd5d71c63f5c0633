package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// chosen returns the name of the first search that supports a request.
func chosen(rq *request) string {
	for i := range searches {
		if searches[i].supports(rq) {
			return searches[i].name
		}
	}
	return ""
}

func TestSearchesSupport(t *testing.T) {
	with := func(inst *hare.Instance, change func(*hare.Instance)) *model.Model {
		other := *inst
		other.Jobs = slices.Clone(inst.Jobs)
		change(&other)
		if err := other.Validate(); err != nil {
			t.Fatal(err)
		}
		return model.New(&other)
	}
	r := rand.New(rand.NewPCG(1, 41))
	gangs, mixed := randomGangs(r, 8, false), randomMixture(r, 12, false)
	few, relaxed := randomRelaxed(r, 8, false, 1), randomRelaxed(r, exactJobs+1, false, 1)
	for i := range relaxed.Jobs {
		for k := range relaxed.Jobs[i].Modes {
			relaxed.Jobs[i].Modes[k].SyncUs = 0
		}
	}
	makespan := func(inst *hare.Instance) { inst.Objective = hare.ObjectiveMakespan }
	after := func(inst *hare.Instance) { inst.Jobs[1].After = []hare.Predecessor{{Job: inst.Jobs[0].ID}} }
	setups := func(inst *hare.Instance) {
		inst.Jobs[0].On = slices.Clone(inst.Jobs[0].On)
		inst.Jobs[0].On[0].SwitchUs = 1
	}
	clock := func() float64 { return 0 }
	for _, c := range []struct {
		name      string
		m         *model.Model
		cfg       ImproveConfig
		unguided  bool
		want      string
		continual bool
	}{
		{name: "gangs", m: gangs, want: "annealing", continual: true},
		{name: "gangs, makespan", m: with(gangs.Instance, makespan), want: "annealing", continual: true},
		{name: "gangs that wait", m: with(gangs.Instance, after), want: "annealing", continual: true},
		{name: "gangs with setups", m: with(gangs.Instance, setups), want: "nodes"},
		{name: "mixed", m: mixed, want: "mixed"},
		{name: "mixed without prices", m: mixed, unguided: true, want: "keys"},
		{name: "mixed, makespan", m: with(mixed.Instance, makespan), want: "nodes"},
		{name: "mixed that wait", m: with(mixed.Instance, after), want: "nodes"},
		{name: "few tasks", m: few, want: "exact", continual: true},
		{name: "relaxed", m: relaxed, want: "keys", continual: true},
		{name: "relaxed, makespan", m: with(relaxed.Instance, makespan), want: "keys", continual: true},
		{name: "relaxed that wait", m: with(relaxed.Instance, after), want: "nodes"},
	} {
		rq := &request{m: c.m, rel: &hare.Relaxation{}, start: &place.Plan{}, cfg: c.cfg}
		if c.unguided {
			rq.rel = nil
		}
		at := slices.IndexFunc(searches[:], func(s search) bool { return s.supports(rq) })
		if got := chosen(rq); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		} else if got := searches[at].continual(rq); got != c.continual {
			t.Errorf("%s: continual: %t", c.name, got)
		}
	}
	// Gangs stand for relaxed jobs where a clock limits the search and the jobs synchronise little.
	rq := &request{m: relaxed, start: &place.Plan{}, cfg: ImproveConfig{Elapsed: clock}}
	if got, want := chosen(rq), map[bool]string{true: "gangs", false: "keys"}[gangsPay(relaxed)]; got != want {
		t.Errorf("relaxed jobs and a clock: %s, want %s", got, want)
	}
}

// Whatever is left out, plans are feasible and no worse than the start.
func TestPartsMayBeLeftOut(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 43))
		_, m := feasibleWithRules(r, 1+r.IntN(4), 1+r.IntN(7))
		start, err := place.Assign(t.Context(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if err != nil {
			continue
		}
		for _, part := range Parts() {
			p, _, err := Improve(t.Context(), m, relaxation(m), start,
				ImproveConfig{Seed: 1, Moves: 200, Without: []string{part}})
			if err != nil {
				t.Fatal(err)
			}
			mustPass(t, m, p, fmt.Sprintf("seed %d without %s", seed, part))
			if p.Value(m).Cmp(start.Value(m)) > 0 {
				t.Errorf("seed %d without %s: worse than the start", seed, part)
			}
		}
	}
}
