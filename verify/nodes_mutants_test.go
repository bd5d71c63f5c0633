package verify_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/verify"
)

// The wrong readings of docs/nodes.md are evaluated on the instances of testdata/nodes that
// each gets wrong. A reading makes its certificate worth more than the optimum, or leaves a job
// without any bound.
func TestWrongReadingsOfNodes(t *testing.T) {
	text, err := os.ReadFile("testdata/nodes/wrong-readings.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Optimum     json.Number
		Wrong       json.RawMessage
		Right       json.Number
		Instance    json.RawMessage
		Certificate json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	readings := map[string]nodeReading{
		"4 dearest_first":    {dearestFirst: true},
		"7 gang_on_one_node": {gangOnOneNode: true},
		"10 left_end":        {leftOfAll: true},
		"11 own_by_gpus":     {ownByNode: true},
		"12 first_class":     {lastClass: true},
		"13 subset_gang":     {subsetGang: true},
		"14 pool_of_first":   {poolOfFirst: true},
	}
	if len(all) != len(readings) {
		t.Errorf("%d examples for %d readings", len(all), len(readings))
	}
	for name, reading := range readings {
		x := all[name]
		inst := nodeInstance(t, x.Instance)
		cert := &hare.Certificate{Method: hare.MethodPrice, Path: true, GridUs: []int64{0, 1e6}}
		if x.Certificate != nil {
			cert = nodeCertificate(t, x.Certificate)
			right, _ := x.Right.Float64()
			if got := naiveOnNodes(inst, cert, nodeReading{}); math.Abs(got-right) > 1e-6 {
				t.Errorf("%s: the right reading gives %v, want %v", name, got, right)
			}
		}
		optimum, _ := x.Optimum.Float64()
		if opt, plan, done := brute.OptimumOnNodes(inst, 100_000); !done || plan == nil ||
			hare.Product(1, opt).Float() != optimum {
			t.Errorf("%s: the optimum is %v, want %v", name, hare.Product(1, opt), optimum)
		}
		got := naiveOnNodes(inst, cert, reading)
		var want float64
		if json.Unmarshal(x.Wrong, &want) != nil {
			want = math.Inf(1)
		}
		if got <= optimum || got != want && math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v, above the optimum %v", name, got, want, optimum)
		}
	}
}

// The other wrong readings are evaluated at prices that are optimised for them, on random tiny
// instances. Each reading exceeds the optimum of the instance of its seed.
func TestOptimisedPricesKillReadingsOfNodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		seed  uint64
		wrong nodeReading
	}{
		{"7 gang_on_one_node", 11, nodeReading{gangOnOneNode: true}},
		{"10 left_end", 134, nodeReading{leftEnd: true}},
		{"11 own_by_gpus", 170, nodeReading{ownByNode: true}},
		{"12 first_class", 50, nodeReading{firstClass: true}},
		{"14 pool_of_first", 148, nodeReading{poolOfFirst: true}},
		{"1 gang_unit", 11, nodeReading{gangUnit: true}},
		{"2 mean_node", 4, nodeReading{meanNode: true}},
		{"3 no_singles", 4, nodeReading{noSingles: true}},
		{"6 units_relaxed", 5, nodeReading{unitsRelaxed: true}},
		{"8 fit_at_0", 15, nodeReading{fitAtZero: true}},
		{"9 cpus_at_0", 89, nodeReading{cpusAtZero: true}},
		{"35 price_d", 107, nodeReading{of: reading{priceD: true}}},
		{"36 no_idle", 25, nodeReading{of: reading{noIdle: true}}},
	} {
		if !killed(c.seed, c.wrong) {
			t.Errorf("%s: the instance of seed %d does not kill the reading", c.name, c.seed)
		}
	}
}

// killed says whether a reading exceeds the optimum of the instance of a seed, while the right
// reading does not.
func killed(seed uint64, wrong nodeReading) bool {
	r := rand.New(rand.NewPCG(seed, 35))
	inst := brute.RandomOnNodes(r)
	opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
	if !done || plan == nil {
		return false
	}
	optimum := hare.Product(1, opt).Float()
	cert := randomPools(r, inst, 6)
	rise := func(as nodeReading) float64 {
		return ascend(r, cert, 150, func() float64 {
			v := naiveOnNodes(inst, cert, as)
			if math.IsNaN(v) {
				return math.Inf(-1)
			}
			return v
		})
	}
	best := rise(wrong)
	if best <= optimum+1e-6 {
		return false
	}
	return naiveOnNodes(inst, cert, nodeReading{}) <= optimum+1e-6
}

// A gang of three tasks that mixes types holds one GPU of A and two of B. A reading that takes
// it for a unit of three GPUs charges a price that capacity never pays.
func TestMixingGangsAreNoUnits(t *testing.T) {
	inst := nodeInstance(t, []byte(`{"hare":"instance/v1","cluster":{"nodes":[{"name":"n0","gpus":{"A":1}},`+
		`{"name":"n1","gpus":{"B":2}}]},"jobs":[{"id":"x","tasks":3,"sync":"gang","mix":true,`+
		`"on":{"A":{"compute_s":2},"B":{"compute_s":2}}}]}`))
	cert := &hare.Certificate{Method: hare.MethodPrice, Path: true, Objective: hare.ObjectiveWeightedJCT,
		GridUs: []int64{0, 2e6}}
	for _, kind := range []string{"A", "B"} {
		cert.Pools = append(cert.Pools, hare.Pool{Type: kind, Per: hare.PerAll,
			Sizes: []hare.PoolSize{{GPUs: 3, Nanos: []int64{1e9}}}})
		cert.Prices = append(cert.Prices, hare.TypePrices{Type: kind, Nanos: []int64{0}})
	}
	low, err := verify.Bound(inst, cert)
	if right := naiveOnNodes(inst, cert, nodeReading{}); err != nil || right != 2 || ratFloat(low) != 2 {
		t.Errorf("the bound is %v, %v, naive %v, want 2", low, err, right)
	}
	if wrong := naiveOnNodes(inst, cert, nodeReading{unitsMixing: true}); wrong <= 2 {
		t.Errorf("the wrong reading gives %v, want more than the optimum 2", wrong)
	}
}
