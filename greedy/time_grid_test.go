package greedy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// A time grid gives the same answers as a profile.
func TestCellsAreProfiles(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		c := model.Class{GPUs: make([]int32, 1+r.IntN(6))}
		at := r.Int64N(3)
		for range r.IntN(4) {
			w := hare.Window{StartUs: at, EndUs: at + 1 + r.Int64N(200)}
			c.Windows = append(c.Windows, w)
			at = w.EndUs + 1 + r.Int64N(50)
		}
		if len(c.Windows) == 0 || r.IntN(2) == 0 {
			c.Windows = append(c.Windows, hare.Window{StartUs: at, EndUs: hare.Forever})
		}
		p, g := newProfile(&c), newTimeGrid(&c, 1<<20)
		type taken struct {
			from, to int64
			n        int32
		}
		var all []taken
		for range 300 {
			if len(all) > 0 && r.IntN(3) == 0 {
				x := r.IntN(len(all))
				p.add(all[x].from, all[x].to, all[x].n)
				g.add(all[x].from, all[x].to, all[x].n)
				all[x] = all[len(all)-1]
				all = all[:len(all)-1]
				continue
			}
			from, hold := r.Int64N(700), 1+r.Int64N([]int64{10, 64, 65, 200}[r.IntN(4)])
			limit := never
			if r.IntN(2) == 0 {
				limit = from + r.Int64N(200)
			}
			s, n := p.earliest(from, limit, hold, 1)
			if gs, gn := g.earliest(from, limit, hold); gs != s || gn != n && s != never {
				t.Fatalf("seed %d: earliest(%d, %d, %d) is %d, %d, want %d, %d", seed, from, limit, hold, gs, gn, s, n)
			}
			by := from + r.Int64N(600)
			ls, ln := p.latest(from, by, hold, 1)
			if gs, gn := g.latest(from, by, hold); gs != ls || gn != ln && ls != never {
				t.Fatalf("seed %d: latest(%d, %d, %d) is %d, %d, want %d, %d", seed, from, by, hold, gs, gn, ls, ln)
			}
			if r.IntN(3) == 0 {
				s, n = ls, ln
			}
			if s != never {
				x := taken{s, s + hold, 1 + r.Int32N(n)}
				p.add(x.from, x.to, -x.n)
				g.add(x.from, x.to, -x.n)
				all = append(all, x)
			}
		}
	}
}

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
		start, err := Assign(t.Context(), m, Order(m, nil, "wspt"), Insertion)
		if err != nil {
			continue
		}
		tried++
		rel := relaxation(m)
		big := make([]bool, len(m.Jobs))
		cfg := ImproveConfig{Seed: 1, Moves: 400, Workers: 1}
		s := newKeySearch(t.Context(), m, start, &cfg)
		s.empty, s.horizon = newRunResidual(m, big), slices.Max(start.EndUs)
		want, stats, err := s.search(rel, start)
		if err != nil {
			t.Fatal(err)
		}
		s = newKeySearch(t.Context(), m, start, &cfg)
		s.chooseResidual(start, big)
		if s.unit != 1 {
			continue
		}
		if s.empty.grid == nil {
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
		if start, err = Assign(t.Context(), m, Order(m, nil, "wspt"), Insertion); err != nil {
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
