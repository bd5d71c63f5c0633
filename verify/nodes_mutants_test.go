package verify_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// nodeReadings returns the examples of testdata/nodes/wrong-readings.json by name.
func nodeReadings(t *testing.T) (all map[string]struct {
	Optimum, Right               json.Number
	Wrong, Instance, Certificate json.RawMessage
}) {
	t.Helper()
	text, err := os.ReadFile("testdata/nodes/wrong-readings.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The wrong readings of docs/reference/model.md are evaluated on the instances of testdata/nodes that
// each gets wrong. A reading makes its certificate worth more than the optimum, or leaves a job
// without any bound.
func TestWrongReadingsOfNodes(t *testing.T) {
	all := nodeReadings(t)
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

// killOnNodes evaluates a reading at prices that are optimised for it, on the instance of
// brute.RandomOnNodes of a seed.
func killOnNodes(seed uint64, wrong nodeReading) func(*testing.T) (float64, float64, float64) {
	return func(t *testing.T) (float64, float64, float64) {
		r := rand.New(rand.NewPCG(seed, 35))
		inst := brute.RandomOnNodes(r)
		optimum := optimumOf(t, inst)
		return ascendWrong(r, inst, randomPools(r, inst, 6), wrong, optimum)
	}
}

// killUnitsMixing: a gang of three tasks that mixes types holds one GPU of A and two of B. A reading
// that takes it for a unit of three GPUs charges a price that capacity never pays.
func killUnitsMixing(t *testing.T) (wrong, right, optimum float64) {
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
	if right = naiveOnNodes(inst, cert, nodeReading{}); err != nil || right != 2 || ratFloat(low) != 2 {
		t.Errorf("the bound is %v, %v, naive %v, want 2", low, err, right)
	}
	return naiveOnNodes(inst, cert, nodeReading{unitsMixing: true}), right, optimumOf(t, inst)
}
