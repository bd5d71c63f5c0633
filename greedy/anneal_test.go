package greedy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
)

// randomGangs is a small instance of gang and rigid jobs.
func randomGangs(r *rand.Rand, jobs int, windows bool) *hare.Model {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C", "D"}[:1+r.IntN(4)]
	for n := range 1 + r.IntN(4) {
		node := hare.Node{Name: fmt.Sprint("n", n)}
		total := 0
		for _, t := range types {
			if c := r.IntN(5); c > 0 || n == 0 {
				node.GPUs = append(node.GPUs, hare.TypeCount{Type: t, Count: c + 1})
				total += c + 1
			}
		}
		if total == 0 {
			continue
		}
		if windows && r.IntN(2) == 0 {
			a := r.Int64N(50)
			b := a + 100 + r.Int64N(300)
			node.Windows = []hare.Window{{StartUs: a, EndUs: b}, {StartUs: b + 1 + r.Int64N(100), EndUs: hare.Forever}}
		}
		if windows {
			for g := range total {
				if r.IntN(3) == 0 {
					node.Busy = append(node.Busy, hare.Busy{GPU: g, UntilUs: 1 + r.Int64N(150)})
				}
			}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range jobs {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: r.Int64N(2_000_000), Rounds: 1 + r.Int64N(12), Tasks: 1 + r.Int64N(4), Sync: hare.Gang}
		if r.IntN(3) == 0 {
			j.Sync = hare.Rigid
		}
		if r.IntN(2) == 0 {
			j.ReleaseUs = r.Int64N(200)
		}
		for _, t := range types {
			if len(j.On) == 0 || r.IntN(4) > 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: 1 + r.Int64N(15), SyncUs: r.Int64N(5)})
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return hare.NewModel(inst)
}

// randomPlans gives each job any plan that the search can draw.
func randomPlans(w *walker) []jobPlan {
	var plans []jobPlan
	for i := range w.d.p.jobs {
		j := &w.d.p.jobs[i]
		switch {
		case len(j.whole) == 0:
			plans = append(plans, chainOver(j.chain[0]))
		case j.rigid:
			plans = append(plans, wholeOn(j.whole[w.r.IntN(len(j.whole))]))
		default:
			plans = append(plans, w.gangPlan(j, j.whole[w.r.IntN(len(j.whole))]))
		}
	}
	return plans
}

// The state after each committed and each rolled back trial is that of a whole
// decode. Snapshots that a change makes stale and that are used nevertheless
// show here: with "from" instead of "from-1" in try, with stepWide winding from
// a snapshot after the place of the job, or with the early stop before the last
// changed key.
func TestTrialsEqualWholeDecodes(t *testing.T) {
	moves := 0
	for seed := uint64(1); seed <= 60; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		m := randomGangs(r, 8+r.IntN(50), seed%3 == 0)
		p, ok := newAnnealProblem(m, nil, nil)
		if !ok {
			continue
		}
		w := &walker{d: newDecoder(p), r: r, menu: newMenu(p, 1e-6)}
		for k := range w.d.gap {
			w.d.gap[k] = 2
		}
		order := make([]int32, len(p.jobs))
		for i, x := range r.Perm(len(order)) {
			order[i] = int32(x)
		}
		if !w.d.load(keysOf(order), randomPlans(w)) {
			continue
		}
		for k := range w.d.gap {
			w.d.gap[k] = 2
			w.d.resnap(int16(k), 0, len(w.d.seq[k]))
		}
		whole := newDecoder(p)
		for range 400 {
			old := w.d.value()
			var delta float64
			switch r.IntN(3) {
			case 0:
				delta, ok = w.shift()
			case 1:
				delta, ok = w.swap()
			case 2:
				delta, ok = w.replan()
			}
			if len(w.d.undo) == 0 {
				continue
			}
			moves++
			fits := whole.load(w.d.key, w.d.plan)
			if fits != ok {
				t.Fatalf("seed %d: trial fits %v, whole decode %v", seed, ok, fits)
			}
			if ok {
				if diff := whole.value() - old - delta; diff > 1e-15 || diff < -1e-15 {
					t.Fatalf("seed %d: trial says %g more, whole decode %g", seed, delta, whole.value()-old)
				}
			}
			if !ok || r.IntN(2) == 0 {
				w.d.rollback()
				if !whole.load(w.d.key, w.d.plan) {
					t.Fatalf("seed %d: rolled back to a state that does not fit", seed)
				}
			} else {
				w.d.commit()
			}
			if !slices.Equal(whole.end, w.d.end) {
				t.Fatalf("seed %d: ends differ from a whole decode's", seed)
			}
			for k, seq := range w.d.seq {
				for i, e := range seq {
					if e.job != whole.seq[k][i].job {
						t.Fatalf("seed %d: sequence of type %d differs at %d", seed, k, i)
					}
				}
			}
		}
	}
	if moves < 5000 {
		t.Fatalf("only %d moves", moves)
	}
}
