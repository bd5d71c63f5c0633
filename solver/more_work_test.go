package solver_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

var (
	moreWork      = flag.Int("hare.more-work", 200, "the instances of TestMoreWorkIsNeverWorse")
	moreWorkFirst = flag.Uint64("hare.more-work-seed", 1, "the seed of its first instance")
	moreWorkMost  = flag.Int64("hare.more-work-limit", 100, "the greatest work limit, for each job")
	moreWorkJobs  = flag.Int("hare.more-work-jobs", 12, "the most jobs of most of them")
)

// A greater work limit never gives a higher value or a lower bound: jobs of each kind and of several, arrivals, nodes
// that pause, and the rules of all fields; with and without a gap that ends the solve.
func TestMoreWorkIsNeverWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector has nothing to find, and the test runs without it")
	}
	engine, err := lp.NewPool(lp.PoolConfig{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	solved, better, raised := map[string]int{}, map[string]int{}, map[string]int{}
	for x := range *moreWork {
		r := rand.New(rand.NewPCG(*moreWorkFirst+uint64(x), 19))
		kind, inst := moreWorkInstance(r, x)
		opt := hare.Options{Seed: int64(x), Gap: 1e-12}
		if r.IntN(4) == 0 {
			opt.Gap = 0.01
		}
		cfg := solver.Config{Workers: 1 + r.IntN(2)}
		if r.IntN(16) == 0 {
			cfg.LP = engine
		}
		var before *hare.Result
		for work := int64(1 + r.IntN(len(inst.Jobs))); work <= *moreWorkMost*int64(len(inst.Jobs)); work *= 2 {
			opt.WorkLimit = work
			res, err := solver.Solve(t.Context(), inst, opt, cfg)
			if err != nil {
				t.Fatalf("%s, seed %d, work %d: %v", kind, x, work, err)
			}
			if res.Value == nil {
				break
			}
			if before != nil {
				switch res.Value.Cmp(*before.Value) {
				case 1:
					t.Errorf("%s, seed %d: %s with the work %d, but %s with half of it", kind, x, res.Value, work, before.Value)
				case -1:
					better[kind]++
				}
				switch res.Bound.Cmp(*before.Bound) {
				case -1:
					t.Errorf("%s, seed %d: bound %s with the work %d, but %s with half of it", kind, x, res.Bound, work,
						before.Bound)
				case 1:
					raised[kind]++
				}
			}
			before = res
		}
		if before != nil {
			solved[kind]++
		}
	}
	t.Logf("solved %v, better %v, bound raised %v", solved, better, raised)
	if *moreWork < 200 {
		return
	}
	for _, kind := range []string{"relaxed", "gang", "rigid", "mixed", "many", "rules"} {
		if solved[kind] == 0 || better[kind] == 0 || raised[kind] == 0 {
			t.Errorf("%s: solved %d, better %d times, bound raised %d times", kind, solved[kind], better[kind],
				raised[kind])
		}
	}
}

// moreWorkInstance draws a small instance, and says of which kind it is.
func moreWorkInstance(r *rand.Rand, x int) (string, *hare.Instance) {
	kinds := []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid}
	names := []string{"relaxed", "gang", "rigid", "mixed", "rules"}
	kind := names[x%len(names)]
	jobs := 3 + r.IntN(max(1, *moreWorkJobs-2))
	if kind == "rules" {
		return kind, brute.RandomMixed(r)
	}
	if x%50 == 1 {
		kind, jobs = "many", 101+r.IntN(20) // gang and rigid jobs are not tempered
	}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(2)]
	for n := range 1 + r.IntN(4) {
		node := hare.Node{Name: fmt.Sprintf("n%d", n),
			GPUs: []hare.TypeCount{{Type: types[n%len(types)], Count: 2 + r.IntN(4)}}}
		if r.IntN(5) == 0 {
			from := 1_000_000 * r.Int64N(40)
			node.Windows = []hare.Window{{StartUs: 0, EndUs: from + 1_000_000},
				{StartUs: from + 9_000_000, EndUs: hare.Forever}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	arrivals := int64(r.IntN(3)) * 40_000
	for i := range jobs {
		sync := kinds[r.IntN(3)]
		switch kind {
		case "many":
			sync = kinds[1+r.IntN(2)]
		case "mixed":
		default:
			sync = kinds[x%len(names)]
		}
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: 50_000 + r.Int64N(1_000_000), Sync: sync,
			ReleaseUs: 1000 * int64(r.Float64()*float64(arrivals)), Rounds: 1 + r.Int64N(12), Tasks: 1 + r.Int64N(4)}
		scale := math.Exp(r.NormFloat64() / 2)
		for _, typ := range types {
			j.On = append(j.On, hare.Profile{Type: typ, ComputeUs: 1000 * (1 + int64(2000*scale*(0.3+r.Float64()))),
				SyncUs: 1000 * r.Int64N(300)})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	var doc bytes.Buffer
	if err := wire.EncodeInstance(&doc, inst); err != nil {
		panic(err)
	}
	inst, err := wire.DecodeInstance(&doc, wire.Limits{})
	if err != nil {
		panic(err)
	}
	return kind, inst
}
