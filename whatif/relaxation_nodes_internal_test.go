package whatif

import (
	"context"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
)

// loosenedOnNodes is loosened, with rules about nodes that are looser too.
func loosenedOnNodes(r *rand.Rand, inst *hare.Instance) *hare.Instance {
	out := loosened(r, inst)
	for i := range out.Cluster.Nodes {
		n := &out.Cluster.Nodes[i]
		switch r.IntN(5) {
		case 0:
			n.CPUMilli *= 2
		case 1:
			n.CPUMilli, n.MemoryMiB = 0, 0
		case 2:
			n.GPUs[0].Count++
			n.Busy = nil // the numbers of the GPUs change
		}
	}
	for i := range out.Jobs {
		j := &out.Jobs[i]
		switch r.IntN(5) {
		case 0:
			j.CPUMilliPerTask /= 2
		case 1:
			j.MemoryMiBPerTask /= 2
		case 2:
			j.DistinctNodes = false
		}
		j.DistinctNodes = j.DistinctNodes && j.Sync != hare.Relaxed
	}
	return out
}

// The test compares what relaxes claims where nodes matter, and the bounds that the base's
// prices prove for a scenario, with optima.
func TestLooserOnNodesAgainstBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	seeds := uint64(1500)
	judged, slacks, bounded, back := 0, 0, 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 31))
		tight := brute.RandomOnNodes(r)
		loose := loosenedOnNodes(r, tight)
		if loose.Validate() != nil {
			continue
		}
		slack, ok := looser(loose, tight)
		if !ok {
			t.Fatalf("seed %d: a loosened instance does not count as looser", seed)
		}
		most, found, done := brute.OptimumOnNodes(tight, 20_000)
		if !done {
			continue
		}
		least, foundToo, done := brute.OptimumOnNodes(loose, 20_000)
		if !done {
			continue
		}
		for _, pair := range [2][2]*hare.Instance{{tight, loose}, {loose, tight}} {
			optimum, exists := least, foundToo != nil
			if pair[1] == tight {
				optimum, exists = most, found != nil
			}
			rel, err := relax.Run(context.Background(), model.New(pair[0]), relax.Config{Workers: 1, Cells: 8, Effort: 0.2})
			if err != nil || !exists || rel.Certificate == nil || rel.Certificate.Method != hare.MethodPrice {
				continue
			}
			prices, err := verify.NewPrices(rel.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			b, err := prices.Bound(pair[1])
			if err != nil {
				continue
			}
			bounded++
			if b.Cmp(big.NewRat(optimum, 1e12)) > 0 {
				t.Fatalf("seed %d: the prices of another instance prove %s, the optimum is %d", seed, b.FloatString(6), optimum)
			}
		}
		if found == nil {
			continue
		}
		if foundToo == nil {
			t.Fatalf("seed %d: the looser instance has no schedule", seed)
		}
		judged++
		if slack.Sign() > 0 {
			slacks++
		}
		if hare.Product(1, least).Add(slack).Cmp(hare.Product(1, most)) > 0 {
			t.Fatalf("seed %d: optimum %d of the looser instance plus slack %s is above %d", seed, least, slack, most)
		}
		if s, ok := looser(tight, loose); ok {
			back++
			if hare.Product(1, most).Add(s).Cmp(hare.Product(1, least)) > 0 {
				t.Fatalf("seed %d: called looser the other way round", seed)
			}
		}
	}
	t.Log(judged, slacks, bounded, back)
	if !testing.Short() && (judged < 200 || slacks < 20 || bounded < 200) {
		t.Errorf("%d pairs judged, %d with slack, %d bounds", judged, slacks, bounded)
	}
}

// Each change makes an instance on nodes that is not looser.
func TestNotLooserOnNodes(t *testing.T) {
	base := func() *hare.Instance {
		return &hare.Instance{
			Objective: hare.ObjectiveWeightedJCT,
			Cluster: hare.Cluster{Nodes: []hare.Node{
				{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, CPUMilli: 4000, MemoryMiB: 10,
					Labels: []hare.Label{{Name: "disk", Value: "nvme"}}},
				{Name: "m", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, CPUMilli: 4000}}},
			Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, Rounds: 2, Tasks: 2, Sync: hare.Gang, GPUsPerTask: 2,
				CPUMilliPerTask: 1000, MemoryMiBPerTask: 3,
				Only: []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}},
				On:   []hare.Profile{{Type: "A", ComputeUs: 4}}}},
		}
	}
	if _, ok := looser(base(), base()); !ok {
		t.Fatal("an instance is as loose as itself")
	}
	for name, change := range map[string]func(*hare.Instance){
		"fewer CPUs":    func(i *hare.Instance) { i.Cluster.Nodes[0].CPUMilli-- },
		"less memory":   func(i *hare.Instance) { i.Cluster.Nodes[0].MemoryMiB-- },
		"a limit":       func(i *hare.Instance) { i.Cluster.Nodes[1].MemoryMiB = 1 << 30 },
		"another label": func(i *hare.Instance) { i.Cluster.Nodes[1].Labels = []hare.Label{{Name: "a", Value: "b"}} },
		"no label":      func(i *hare.Instance) { i.Cluster.Nodes[0].Labels = nil },
		"another name":  func(i *hare.Instance) { i.Cluster.Nodes[0].Name = "o" },
		"GPUs moved": func(i *hare.Instance) {
			i.Cluster.Nodes[0].GPUs[0].Count, i.Cluster.Nodes[1].GPUs[0].Count = 1, 3
		},
		"a smaller task":      func(i *hare.Instance) { i.Jobs[0].GPUsPerTask = 0 },
		"more CPUs a task":    func(i *hare.Instance) { i.Jobs[0].CPUMilliPerTask++ },
		"more memory a task":  func(i *hare.Instance) { i.Jobs[0].MemoryMiBPerTask++ },
		"distinct nodes":      func(i *hare.Instance) { i.Jobs[0].DistinctNodes = true },
		"another selector":    func(i *hare.Instance) { i.Jobs[0].Only[0].Values = []string{"hdd"} },
		"one node excluded":   func(i *hare.Instance) { i.Jobs[0].Exclude = slices.Clone(i.Jobs[0].Only) },
		"other kinds of rule": func(i *hare.Instance) { i.Quota = []hare.Quota{{User: "u", GPUs: 9}} },
	} {
		loose := base()
		change(loose)
		if _, ok := looser(loose, base()); ok {
			t.Errorf("%s counts as looser", name)
		}
	}
}
