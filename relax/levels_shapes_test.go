package relax

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// randomShaped draws a tiny instance on nodes of two racks, whose jobs keep together, synchronise
// longer where they are spread, have several shapes, or need setups.
func randomShaped(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(2)]
	inst.Cluster.Topology = []string{"rack"}
	for i := range 1 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i), Labels: []hare.Label{{Name: "rack", Value: fmt.Sprint(r.IntN(2))}}}
		for _, t := range types {
			if c := r.IntN(3); c > 0 {
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: c})
			}
		}
		if len(n.GPUs) == 0 {
			n.GPUs = []hare.TypeCount{{Type: types[0], Count: 1}}
		}
		if r.IntN(6) == 0 {
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * placedTick, EndUs: hare.Forever}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	profiles := func(sync hare.Sync, spread bool, setup int64) (on []hare.Profile) {
		for _, t := range types {
			if len(on) > 0 && r.IntN(5) == 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * placedTick, SwitchUs: setup}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(r.IntN(3)) * placedTick / 2
			}
			if spread && sync != hare.Relaxed {
				for _, level := range []string{hare.LevelAny, hare.LabelNode, "rack"} {
					p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: level})
				}
				p.SyncAt[1].SyncUs = int64(r.IntN(2)) * placedTick / 2
				p.SyncAt[2].SyncUs = p.SyncAt[1].SyncUs + int64(r.IntN(3))*placedTick/2
				p.SyncUs = p.SyncAt[2].SyncUs + int64(1+r.IntN(3))*placedTick/2
				p.SyncAt[0].SyncUs = p.SyncUs
			}
			on = append(on, p)
		}
		return on
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(1+r.IntN(3)) * 1_000_000, Rounds: int64(1 + r.IntN(3)),
			Sync: hare.Sync(r.IntN(3))}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * placedTick / 2
		}
		spread, setup := r.IntN(2) == 0, int64(0)
		if r.IntN(3) == 0 {
			setup = int64(1+r.IntN(2)) * placedTick / 2
		}
		if j.Sync != hare.Relaxed && r.IntN(3) == 0 {
			j.Within = []string{hare.LabelNode, "rack"}[r.IntN(2)]
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(4) == 0
		if r.IntN(2) == 0 {
			j.Tasks, j.On = int64(1+r.IntN(3)), profiles(j.Sync, spread, setup)
			if r.IntN(3) == 0 {
				j.GPUsPerTask = 2
			}
		} else {
			for range 1 + r.IntN(3) {
				j.Shapes = append(j.Shapes, hare.Shape{Tasks: int64(1 + r.IntN(3)), Counts: int64(1 + r.IntN(3)),
					On: profiles(j.Sync, spread, setup)})
			}
			if j.Sync == hare.Gang && r.IntN(2) == 0 {
				j.Reshape, j.ReshapeUs = true, int64(r.IntN(2))*placedTick
			}
			j.NormaliseShapes()
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	inst.SettleLevels()
	return inst
}

// Bounds of tiny random instances with levels, and with setups and shapes, are at most their optima,
// and certificates prove what they state.
func TestBoundsOfLevelsAndShapesNeverExceedTheOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	for name, random := range map[string]func(*rand.Rand) *hare.Instance{
		"levels": brute.RandomLevels, "shapes": brute.RandomWithShapes} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(500)
			n, sum, split := 0, 0.0, 0
			for seed := range seeds {
				b := checkMixed(t, seed, random(rand.New(rand.NewPCG(seed, 17))))
				if b.found {
					n++
					sum += b.gap
				}
				for _, p := range b.pools {
					if p.Per != "" && p.Per != hare.PerNode && p.Per != hare.PerAll {
						split++
					}
				}
			}
			t.Logf("%d instances, %d pools split by a label, mean gap of the optimum to the price bound %.2f %%", n,
				split, 100*sum/float64(n))
			if n < int(seeds)/5 || sum > 0.2*float64(n) || name == "levels" && split == 0 {
				t.Errorf("%d of %d instances were compared, with a mean gap of %.4f and %d pools split by a label", n,
					seeds, sum/float64(n), split)
			}
		})
	}
}

// The bounds of an instance agree with each other, and grow with what its rules ask for.
func TestBoundsOfLevelsAndShapes(t *testing.T) {
	seeds, compared := uint64(300), 0
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		inst := randomShaped(rand.New(rand.NewPCG(seed, 31)))
		if err := inst.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		bound := func(method string) (hare.Amount, bool) {
			rel, err := Run(t.Context(), model.New(inst), Config{Method: method, Workers: 1, Cells: 12, Effort: 0.3})
			if err != nil {
				if !errors.Is(err, ErrInfeasible) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				return hare.Amount{}, false
			}
			return rel.Bound, true
		}
		path, fits := bound(hare.MethodCriticalPath)
		if !fits {
			continue
		}
		compared++
		if price, _ := bound(hare.MethodPrice); price.Cmp(path) < 0 {
			t.Errorf("seed %d: price %v, and the path %v", seed, price, path)
		}
		// A job without setups, that may spread and may change its shape, is not slower.
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			j.Within, j.Reshape, j.ReshapeUs = "", j.Sync == hare.Gang && len(j.Shapes) > 1, 0
			for x := range j.On {
				j.On[x].SwitchUs = 0
			}
			for s := range j.Shapes {
				for x := range j.Shapes[s].On {
					j.Shapes[s].On[x].SwitchUs = 0
				}
			}
		}
		if free, ok := bound(hare.MethodCriticalPath); !ok || free.Cmp(path) > 0 {
			t.Errorf("seed %d: the path is %v with fewer rules, and was %v", seed, free, path)
		}
	}
	if compared < int(seeds)/4 {
		t.Errorf("only %d of %d instances were compared", compared, seeds)
	}
}
