package verify_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// randomRigid returns a tiny instance of rigid jobs, some of them equal, on GPUs that are free from
// some time on.
func randomRigid(r *rand.Rand) *hare.Instance {
	const half = 500_000
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	kinds := []string{"A", "B"}[:1+r.IntN(2)]
	for _, kind := range kinds {
		count := 1 + r.IntN(4)
		node := haretest.Node(strings.ToLower(kind), kind, count)
		if r.IntN(3) == 0 {
			node.Busy = []hare.Busy{{GPU: r.IntN(count), UntilUs: half * int64(1+r.IntN(4))}}
		}
		if r.IntN(6) == 0 {
			node.Windows = []hare.Window{{StartUs: half * int64(1+r.IntN(3)), EndUs: hare.Forever}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range 2 + r.IntN(3) {
		j := hare.Job{WeightMicro: int64(r.IntN(5)) * 500_000, Rounds: int64(1 + r.IntN(2)), Sync: hare.Rigid}
		if r.IntN(2) == 0 {
			j.ReleaseUs = half * int64(r.IntN(5))
		}
		most := 1
		for _, n := range inst.Cluster.Nodes {
			most = max(most, n.GPUs[0].Count)
		}
		j.Tasks = int64(1 + r.IntN(most))
		for x, n := range inst.Cluster.Nodes {
			if r.IntN(4) > 0 || x == 0 {
				j.On = append(j.On, hare.Profile{Type: n.GPUs[0].Type, ComputeUs: half * int64(1+r.IntN(4)),
					SyncUs: half * int64(r.IntN(2))})
			}
		}
		if !slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool {
			return int64(n.GPUs[0].Count) >= j.Tasks && slices.ContainsFunc(j.On,
				func(p hare.Profile) bool { return p.Type == n.GPUs[0].Type })
		}) {
			j.Tasks = 1
		}
		if i > 0 && r.IntN(3) == 0 {
			j = inst.Jobs[i-1]
			if r.IntN(3) == 0 {
				j.WeightMicro = int64(r.IntN(5)) * 500_000
			}
		}
		j.ID = fmt.Sprint("j", i)
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// randomPriceSet returns random prices, or none.
func randomPriceSet(r *rand.Rand, inst *hare.Instance, ofJobs bool) hare.PriceSet {
	set := hare.PriceSet{GridUs: []int64{0}}
	for range 1 + r.IntN(6) {
		set.GridUs = append(set.GridUs, set.GridUs[len(set.GridUs)-1]+int64(1+r.IntN(1_500_000)))
	}
	scale := []float64{0, 0.3, 1, 3}[r.IntN(4)] * 1e9
	row := func(units int64) []int64 {
		out := make([]int64, len(set.GridUs)-1)
		for g := range out {
			out[g] = int64(r.Float64() * scale * float64(units) / 3)
		}
		return out
	}
	for _, n := range inst.Cluster.Nodes {
		kind := n.GPUs[0].Type
		if r.IntN(4) > 0 {
			set.Prices = append(set.Prices, hare.TypePrices{Type: kind, Nanos: row(1)})
		}
		for tasks := int64(2); tasks <= 4; tasks++ {
			if r.IntN(2) == 0 {
				set.Sizes = append(set.Sizes, hare.SizePrices{Type: kind, Tasks: tasks, Nanos: row(tasks)})
			}
		}
	}
	if ofJobs {
		for i := range inst.Jobs {
			for _, p := range inst.Jobs[i].On {
				if r.IntN(3) > 0 {
					set.Jobs = append(set.Jobs, hare.JobPrices{Job: inst.Jobs[i].ID, Type: p.Type, Nanos: row(inst.Jobs[i].Tasks)})
				}
			}
		}
	}
	return set
}

// randomTree returns a certificate with a random tree, in which most splits are at times when blocks
// may begin.
func randomTree(r *rand.Rand, inst *hare.Instance) *hare.Certificate {
	top := randomPriceSet(r, inst, false)
	c := &hare.Certificate{Method: hare.MethodBranch, Path: r.IntN(2) == 0, Objective: inst.Objective,
		GridUs: top.GridUs, Prices: top.Prices, Sizes: top.Sizes}
	for range r.IntN(4) {
		c.PriceSets = append(c.PriceSets, randomPriceSet(r, inst, r.IntN(3) > 0))
	}
	var grow func(depth int)
	grow = func(depth int) {
		if depth == 0 || r.IntN(12) == 0 {
			c.Tree = append(c.Tree, hare.BranchNode{Prices: r.IntN(len(c.PriceSets) + 1)})
			return
		}
		n := hare.BranchNode{Job: inst.Jobs[r.IntN(len(inst.Jobs))].ID}
		switch {
		case r.IntN(3) == 0:
			n.Type = inst.Cluster.Nodes[r.IntN(len(inst.Cluster.Nodes))].GPUs[0].Type
		case r.IntN(4) == 0:
			n.StartUs = int64(r.IntN(5_000_000))
		default:
			n.StartUs = 500_000*int64(r.IntN(10)) - int64(r.IntN(2))
		}
		n.StartUs = max(0, n.StartUs)
		c.Tree = append(c.Tree, n)
		grow(depth - 1)
		grow(depth - 1)
	}
	grow(r.IntN(7))
	c.PriceSets = c.PriceSets[:min(len(c.PriceSets), len(c.Tree))]
	for n := range c.Tree {
		c.Tree[n].Prices = min(c.Tree[n].Prices, len(c.PriceSets))
	}
	return c
}

// For random tiny instances of rigid jobs, no tree proves more than the optimum, and each proves what
// the text of the documentation says.
func TestBoundsByBranching(t *testing.T) {
	instances := 700
	if testing.Short() {
		instances = 200
	}
	if *soak {
		instances = 100_000
	}
	r := rand.New(rand.NewPCG(19, 4))
	tried, tight, above := 0, 0, 0
	for i := range instances {
		inst := randomRigid(r)
		opt, ok, done := brute.Optimum(inst, 100_000)
		if !ok || !done {
			continue
		}
		tried++
		limit, most := big.NewRat(opt, 1e12), 0.0
		var root float64
		for range 4 {
			cert := randomTree(r, inst)
			low, err := verify.Bound(inst, cert)
			if err != nil {
				t.Fatalf("instance %d: %v: %+v %+v", i, err, inst, cert)
			}
			if low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %v proved, the optimum is %v: %+v %+v", i, low, limit, inst, cert)
			}
			if want := naiveTreeBound(inst, cert, treeReading{}); math.Abs(want-ratFloat(low)) > 1e-6 {
				t.Fatalf("instance %d: bound %v, naive %v: %+v %+v", i, ratFloat(low), want, inst, cert)
			}
			most = max(most, ratFloat(low))
			alone := *cert
			alone.Tree, alone.PriceSets = []hare.BranchNode{{}}, nil
			if b, err := verify.Bound(inst, &alone); err == nil {
				root = max(root, ratFloat(b))
			}
		}
		if most > ratFloat(limit)-1e-9 {
			tight++
		}
		if most > root+1e-9 {
			above++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum, %d above those of the root alone", tried, tight, above)
	if tried < instances/2 || tight == 0 || above == 0 {
		t.Errorf("%d instances of %d, %d bounds equal to the optimum, %d above the root", tried, instances, tight, above)
	}
}

// Each false reading of docs/inside/bounds.md#branch-prices-of-jobs-and-trees proves more than the optimum of some
// instance.
func TestFalseReadingsOfTreesAreKilled(t *testing.T) {
	readings := []struct {
		name string
		r    treeReading
	}{
		{"a hole after the split", treeReading{hole: true}},
		{"the start of the split on neither side", treeReading{neither: true}},
		{"the second part of another job", treeReading{otherJob: true}},
		{"the greatest leaf", treeReading{greatest: true}},
		{"empty without a type", treeReading{anyEmpty: true}},
		{"a core on each of two types", treeReading{coreOfTwo: true}},
		{"long cores", treeReading{coreLong: true}},
		{"cores paid twice", treeReading{corePaid: true}},
		{"only first ends touched", treeReading{points: true}},
		{"arrivals not touched", treeReading{noArrivals: true}},
		{"the release not touched", treeReading{noRelease: true}},
		{"equal jobs apart", treeReading{twinsApart: true}},
		{"equal but for the weight", treeReading{twinsOfSize: true}},
		{"ends on other types", treeReading{otherTypes: true}},
		{"jobs that do not count", treeReading{jobNever: true}},
		{"jobs that count from their last start on", treeReading{jobLate: true}},
	}
	r := rand.New(rand.NewPCG(19, 5))
	killed := make([]int, len(readings))
	for range 250 {
		inst := randomRigid(r)
		opt, ok, done := brute.Optimum(inst, 100_000)
		if !ok || !done {
			continue
		}
		cert := fullTree(inst)
		if cert == nil {
			continue
		}
		limit := float64(opt) / 1e12
		low, err := verify.Bound(inst, cert)
		if err != nil || ratFloat(low) > limit+1e-9 {
			t.Fatalf("%v proved, %v, the optimum is %v", low, err, limit)
		}
		trees := []*hare.Certificate{cert}
		for range 3 {
			trees = append(trees, randomTree(r, inst))
		}
		for _, cert := range trees {
			for x, m := range readings {
				if v := naiveTreeBound(inst, cert, m.r); v > limit+1e-6 {
					killed[x]++
				}
			}
		}
	}
	for x, m := range readings {
		if killed[x] == 0 {
			t.Errorf("%s: no instance shows it", m.name)
		}
	}
	t.Logf("killed %v times", killed)
}

// fullTree splits by type, and at each half second at which a block may begin, down to single
// schedules, without prices; nil if the tree is large.
func fullTree(inst *hare.Instance) *hare.Certificate {
	c := &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1}}
	var kinds []string
	for _, n := range inst.Cluster.Nodes {
		kinds = append(kinds, n.GPUs[0].Type)
	}
	latest := int64(6_000_000)
	var grow func(job, kind int, at int64)
	grow = func(job, kind int, at int64) {
		if len(c.Tree) > 3000 {
			return
		}
		leaf := func() { c.Tree = append(c.Tree, hare.BranchNode{}) }
		if job == len(inst.Jobs) {
			leaf()
			return
		}
		id := inst.Jobs[job].ID
		if kind < len(kinds)-1 && at < 0 {
			c.Tree = append(c.Tree, hare.BranchNode{Job: id, Type: kinds[kind]})
			grow(job, kind, 0)
			grow(job, kind+1, -1)
			return
		}
		at = max(0, at)
		if at > latest {
			leaf()
			return
		}
		c.Tree = append(c.Tree, hare.BranchNode{Job: id, StartUs: at})
		grow(job+1, 0, -1)
		grow(job, kind, at+1_000_000)
	}
	grow(0, 0, -1)
	if len(c.Tree) > 3000 {
		return nil
	}
	return c
}

// What a tree must have, and what it must not.
func TestForgedTrees(t *testing.T) {
	inst := small(nodes("A", 6), brief(hare.Rigid, 4), brief(hare.Rigid, 4))
	tree := func(nodes ...hare.BranchNode) *hare.Certificate {
		return &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1}, Tree: nodes}
	}
	sound := tree(hare.BranchNode{Job: "0", StartUs: 0}, hare.BranchNode{}, hare.BranchNode{})
	wantBound(t, inst, sound, big.NewRat(3, 1))
	leaf, split := hare.BranchNode{}, hare.BranchNode{Job: "0", StartUs: 0}
	with := func(change func(inst *hare.Instance, c *hare.Certificate)) (*hare.Instance, *hare.Certificate) {
		other, c := *inst, *sound
		other.Jobs, other.Cluster.Nodes = slices.Clone(inst.Jobs), slices.Clone(inst.Cluster.Nodes)
		change(&other, &c)
		return &other, &c
	}
	for name, change := range map[string]func(inst *hare.Instance, c *hare.Certificate){
		"no tree":              func(_ *hare.Instance, c *hare.Certificate) { c.Tree = nil },
		"a part without leaf":  func(_ *hare.Instance, c *hare.Certificate) { c.Tree = []hare.BranchNode{split, leaf} },
		"two roots":            func(_ *hare.Instance, c *hare.Certificate) { c.Tree = []hare.BranchNode{leaf, leaf} },
		"prices that lack":     func(_ *hare.Instance, c *hare.Certificate) { c.Tree = []hare.BranchNode{{Prices: 1}} },
		"negative prices":      func(_ *hare.Instance, c *hare.Certificate) { c.Tree = []hare.BranchNode{{Prices: -1}} },
		"an unknown job":       func(_ *hare.Instance, c *hare.Certificate) { c.Tree[0].Job = "x" },
		"an unknown type":      func(_ *hare.Instance, c *hare.Certificate) { c.Tree[0].Type = "B" },
		"no grid":              func(_ *hare.Instance, c *hare.Certificate) { c.GridUs = nil },
		"a set without a grid": func(_ *hare.Instance, c *hare.Certificate) { c.PriceSets = []hare.PriceSet{{}} },
		"a step":               func(_ *hare.Instance, c *hare.Certificate) { c.StepUs = 1 },
		"a tree of prices":     func(_ *hare.Instance, c *hare.Certificate) { c.Method = hare.MethodPrice },
		"a gang":               func(inst *hare.Instance, _ *hare.Certificate) { inst.Jobs[0].Sync = hare.Gang },
		"a job that never runs": func(inst *hare.Instance, _ *hare.Certificate) {
			inst.Jobs[0].Tasks = 7
		},
		"GPUs that leave": func(inst *hare.Instance, _ *hare.Certificate) {
			inst.Cluster.Nodes[0].Windows = []hare.Window{{StartUs: 0, EndUs: 9e6}}
		},
		"a switch": func(inst *hare.Instance, _ *hare.Certificate) {
			inst.Jobs[0].On = []hare.Profile{{Type: "A", ComputeUs: 1e6, SwitchUs: 1}}
		},
		"another objective": func(inst *hare.Instance, c *hare.Certificate) {
			inst.Objective, c.Objective = hare.ObjectiveMakespan, hare.ObjectiveMakespan
		},
	} {
		sound.Tree = []hare.BranchNode{split, leaf, leaf}
		if b, err := verify.Bound(with(change)); err == nil {
			t.Errorf("%s: accepted with %v", name, b)
		}
	}
}

// branchDocuments returns optimal plans of tiny instances: of rigid jobs with trees, and of gang and rigid jobs with
// trees of one leaf. Of each, one document states just what is proved, and one the least decimal above.
func branchDocuments(t *testing.T) (out []documents) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed+otherDocuments(), 47))
		inst := randomRigid(r)
		cert := randomTree(r, inst)
		switch seed % 4 {
		case 2:
			inst = randomGangs(r)
			cert = randomLeaf(r, inst)
		case 3:
			inst = randomRelaxed(r)
			cert = randomLeaf(r, inst)
		}
		value, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		optimum := hare.Product(1, value)
		low, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		bound, _ := hare.FloorAmount(low)
		for _, more := range []int64{0, 1} {
			stated := bound.Add(hare.Product(1e6, more))
			one := *cert
			one.Bound = stated.Bound6()
			res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &optimum, Bound: &stated,
				Schedule: plan, Certificate: &one, Options: hare.Options{Detail: "lanes"},
				InstanceSHA256: wire.SHA256(inst)}
			x := documents{name: fmt.Sprintf("branch %d, %d above", seed, more), instance: instanceText(t, inst),
				result: resultText(t, res)}
			if code, said := goVerdict(&x); (code == 0) != (more == 0) {
				t.Errorf("%s: %d, %s", x.name, code, said)
			}
			out = append(out, x)
		}
	}
	if len(out) < 60 {
		t.Errorf("only %d results with trees", len(out))
	}
	return out
}
