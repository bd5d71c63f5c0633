package search

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// randomMixed returns a small instance of all kinds of jobs on GPUs that come, go and
// are busy.
func randomMixed(r *rand.Rand, scale int64) *model.Model {
	inst := randomGangs(r, 1+r.IntN(4), r.IntN(3) > 0).Instance
	types := []string{"A", "B", "C", "D"}[:1+r.IntN(4)]
	for i := range 1 + r.IntN(6) {
		j := hare.Job{ID: fmt.Sprint("r", i), WeightMicro: r.Int64N(2_000_000), Rounds: 1 + r.Int64N(scale),
			Tasks: 1 + r.Int64N(12)}
		if r.IntN(4) == 0 {
			j.Rounds, j.Tasks = j.Tasks, j.Rounds
		}
		if r.IntN(2) == 0 {
			j.ReleaseUs = r.Int64N(200)
		}
		for _, t := range types {
			if t == "A" || r.IntN(4) > 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: 1 + r.Int64N(15), SyncUs: r.Int64N(5)})
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return model.New(inst)
}

// accept fails the test unless p is a schedule of m with the value it claims.
func accept(t *testing.T, m *model.Model, p *place.Plan, what string) (entries int) {
	t.Helper()
	s, err := p.Schedule(m)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	value, ends, faults := verify.ScheduleValue(m.Instance, s)
	if len(faults) > 0 {
		t.Fatalf("%s: %v", what, faults[0])
	}
	if value.Cmp(p.Value(m)) != 0 {
		t.Fatalf("%s: value %s, plan says %s", what, value, p.Value(m))
	}
	for i, e := range ends {
		if e != p.EndUs[i] {
			t.Fatalf("%s: job %d ends at %d, plan says %d", what, i, e, p.EndUs[i])
		}
	}
	for _, l := range s.Lanes {
		entries += len(l.Job)
	}
	return entries
}

// All relaxed jobs are placed as runs in this test, also small ones. Under every rule and after
// the search, the schedule is feasible and never better than a bound.
func TestRunsAreFeasible(t *testing.T) {
	placed, lost := 0, 0
	ratio := 0.0
	seeds := uint64(400)
	if testing.Short() {
		seeds = 15
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		m := randomMixed(r, []int64{3, 40, 2000}[r.IntN(3)])
		if len(place.Infeasible(m)) > 0 {
			continue
		}
		limit := int64(0)
		if seed%3 == 0 {
			limit = 300
		}
		big := place.BigJobs(m, limit)
		items := place.OrderWithRuns(m, nil, "wspt", big)
		for _, rule := range []place.Rule{place.EarliestAvailable, place.EarliestFinish, place.Insertion} {
			p, err := place.Assign(t.Context(), m, items, rule)
			if err != nil {
				lost++
				continue
			}
			accept(t, m, p, fmt.Sprint("seed ", seed, " ", rule))
			if rule != place.Insertion {
				continue
			}
			placed++
			bound, err := verify.Bound(m.Instance, &hare.Certificate{Method: hare.MethodCriticalPath,
				Objective: hare.ObjectiveWeightedJCT})
			if b, _ := bound.Float64(); err != nil || p.Value(m).Float() < b-1e-9 {
				t.Fatalf("seed %d: value %s below the bound %v (%v)", seed, p.Value(m), b, err)
			}
			better, _, err := searchRelaxed(t.Context(), m, relaxation(m), p, ImproveConfig{Seed: 1, Moves: 300}, big)
			if err != nil {
				t.Fatal(err)
			}
			accept(t, m, better, fmt.Sprint("seed ", seed, " improved"))
			single, _, err := searchRelaxed(t.Context(), m, relaxation(m), p,
				ImproveConfig{Seed: 1, Moves: 300, Workers: 1},
				big)
			if err != nil || !reflect.DeepEqual(single, better) {
				t.Fatalf("seed %d: one worker and several differ: %v", seed, err)
			}
			one, err := place.Assign(t.Context(), m, place.OrderWithRuns(m, nil, "wspt", make([]bool, len(m.Jobs))),
				place.Insertion)
			if err == nil && one.Value(m).Sign() > 0 {
				ratio += p.Value(m).Float() / one.Value(m).Float()
			}
		}
	}
	t.Logf("%d placed, %d without a place; value over that of single rounds %.3f on average", placed, lost,
		ratio/float64(placed))
	if placed < int(seeds)*4/5 || lost > placed/10 {
		t.Errorf("%d placed, %d without a place", placed, lost)
	}
}

// relaxation returns an arbitrary fractional order with arbitrary prices.
func relaxation(m *model.Model) *hare.Relaxation {
	rel := &hare.Relaxation{Progress: make([][]hare.Point, len(m.Jobs)), GridUs: []int64{0, 50, 300, 4000}}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		rel.Progress[i] = []hare.Point{{TimeUs: float64(j.ReleaseUs)},
			{TimeUs: float64(j.ReleaseUs) + float64(j.Rounds),
				Rounds: float64(j.Rounds)}}
	}
	for k := range m.Types {
		rel.Prices = append(rel.Prices, []float64{3, float64(k), 0.5})
	}
	return rel
}

// Long jobs find places among the fragments that many single rounds leave, at a cost in
// proportion to the number of fragments.
func TestRunsAmongFragments(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing to race")
	}
	r := rand.New(rand.NewPCG(5, 6))
	gpus := []hare.TypeCount{{Type: "A", Count: 24}, {Type: "B", Count: 32}, {Type: "C", Count: 4}}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: gpus}}}}
	for i := range 40 {
		j := hare.Job{ID: fmt.Sprint(i), WeightMicro: 1 + r.Int64N(5), ReleaseUs: r.Int64N(2) * r.Int64N(5_000_000),
			Rounds: 500 + r.Int64N(1500), Tasks: 1 + r.Int64N(16)}
		if i%2 == 0 {
			j.Rounds *= 5000
		}
		fast := 50 + r.Int64N(2000)
		j.On = []hare.Profile{
			{Type: "A", ComputeUs: fast, SyncUs: r.Int64N(fast / 3)},
			{Type: "B", ComputeUs: fast * (15 + r.Int64N(25)) / 10},
			{Type: "C", ComputeUs: fast * (3 + r.Int64N(6))},
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	m := model.New(inst)
	big := place.BigJobs(m, 10_000_000)
	for _, rule := range []place.Rule{place.Insertion, place.EarliestAvailable, place.EarliestFinish} {
		p, err := place.Assign(t.Context(), m, place.OrderWithRuns(m, nil, "wspt", big), rule)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(rule, " ", accept(t, m, p, string(rule)), " entries")
	}
}
