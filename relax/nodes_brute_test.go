package relax

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

const placedTick = 1_000_000

// randomPlaced draws a tiny instance with fields of nodes: one to three nodes of up to three
// GPUs of one or two types, some with CPUs, memory, labels, windows or busy GPUs, and one to
// three jobs.
func randomPlaced(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(2)]
	left := 6
	for i := range 1 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i)}
		for _, t := range types {
			if c := min(left, r.IntN(4)); c > 0 {
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: c})
				left -= c
			}
		}
		if len(n.GPUs) == 0 {
			n.GPUs = []hare.TypeCount{{Type: types[0], Count: 1}}
		}
		if r.IntN(2) == 0 {
			n.CPUMilli = int64(1+r.IntN(4)) * 500
		}
		if r.IntN(4) == 0 {
			n.MemoryMiB = int64(1 + r.IntN(4))
		}
		if r.IntN(2) == 0 {
			n.Labels = []hare.Label{{Name: "disk", Value: []string{"hdd", "nvme"}[r.IntN(2)]}}
		}
		switch r.IntN(6) {
		case 0:
			at := int64(1+r.IntN(4)) * placedTick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at},
				{StartUs: at + int64(1+r.IntN(3))*placedTick, EndUs: hare.Forever}}
		case 1:
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * placedTick, EndUs: hare.Forever}}
		}
		if r.IntN(5) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(3)) * placedTick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(4) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(1+r.IntN(3)) * 1_000_000, Rounds: int64(1 + r.IntN(2)),
			Tasks: int64(1 + r.IntN(2)), Sync: hare.Sync(r.IntN(3))}
		if g := int64(1 + r.IntN(3)); g > 1 {
			j.GPUsPerTask = g
		}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * placedTick / 2
		}
		if r.IntN(2) == 0 {
			j.CPUMilliPerTask = int64(1+r.IntN(3)) * 500
		}
		if r.IntN(3) == 0 {
			j.MemoryMiBPerTask = int64(1 + r.IntN(2))
		}
		switch r.IntN(5) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: "node", Values: []string{"n0"}}}
		case 2:
			j.Only = []hare.LabelValues{{Label: "node", Values: []string{"n0", "n1"}}}
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
		j.DistinctNodes = j.Sync != hare.Relaxed && r.IntN(4) == 0
		for _, t := range types {
			if len(types) > 1 && r.IntN(5) == 0 && len(j.On) > 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * placedTick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(3)) * placedTick / 2
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// checkPlaced compares the bounds of every certified method with the optimum.
func checkPlaced(t *testing.T, seed uint64) (gap float64, pools int, ok bool) {
	t.Helper()
	inst := randomPlaced(rand.New(rand.NewPCG(seed, 11)))
	if err := inst.Validate(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	m := model.New(inst)
	if !m.Placed {
		return 0, 0, false
	}
	opt, plan, done := brute.OptimumOnNodes(inst, 150_000)
	found := done && plan != nil
	optimum := hare.Product(1, opt)
	for _, method := range []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine} {
		rel, err := Run(t.Context(), m, Config{Method: method, Workers: 1, Cells: 24, Effort: 0.5, Steps: 2})
		if err != nil {
			if found {
				t.Errorf("seed %d: %s: %v, but there is a schedule of %d", seed, method, err, opt)
			}
			return 0, 0, false
		}
		stated, _ := new(big.Rat).SetString(rel.Certificate.Bound)
		proved, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, method, err)
		}
		if more := new(big.Rat).Sub(proved, stated); more.Sign() < 0 || more.Cmp(big.NewRat(1, 1e6)) >= 0 {
			t.Errorf("seed %d: %s: the certificate states %s and proves %s", seed, method, rel.Certificate.Bound,
				proved.FloatString(9))
		}
		if found && rel.Bound.Cmp(optimum) > 0 {
			t.Errorf("seed %d: %s bound %v above the optimum %v", seed, method, rel.Bound, optimum)
		}
		if method == hare.MethodPrice && found && opt > 0 {
			gap, pools = 1-rel.Bound.Float()/optimum.Float(), len(rel.Certificate.Pools)
		}
	}
	return gap, pools, found
}

func TestPlacedBoundsNeverExceedTheOptimum(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 100
	}
	n, sum, withPools := 0, 0.0, 0
	for seed := range seeds {
		if gap, pools, ok := checkPlaced(t, seed); ok {
			n++
			sum += gap
			if pools > 0 {
				withPools++
			}
		}
	}
	t.Logf("%d instances, %d with pools, mean gap of the optimum to the price bound %.2f %%", n, withPools,
		100*sum/float64(n))
	if n < int(seeds)/10 || withPools < int(seeds)/100 {
		t.Errorf("only %d of %d instances were compared, %d of them with pools", n, seeds, withPools)
	}
}
