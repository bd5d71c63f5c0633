package verify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// Wrong readings of when nodes have room (docs/reference/model.md#running-work-reservations-and-quotas, "When nodes
// have room") exceed the optimum of the instance of their seed without any price, while the right reading does not.
func TestWrongReadingsOfWindows(t *testing.T) {
	for _, c := range []struct {
		name  string
		seed  uint64
		wrong nodeReading
	}{
		{"a gang stays in one window for all rounds", 1626, nodeReading{windowOfJob: true}},
		{"a relaxed task holds its GPU while it synchronises", 372, nodeReading{windowOfSync: true}},
		{"all tasks of a round are on one node", 1935, nodeReading{windowOfNode: true}},
		{"all nodes must be open", 146, nodeReading{windowOfAll: true}},
		{"a reservation keeps those off whom it lists", 87, nodeReading{closedForUser: true}},
	} {
		inst := brute.RandomMixed(rand.New(rand.NewPCG(c.seed, 36)))
		opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			t.Fatalf("%s: no optimum", c.name)
		}
		optimum := hare.Product(1, opt).Float()
		cert := &hare.Certificate{Method: hare.MethodPrice, Path: true, GridUs: []int64{0, 1e6}, Objective: inst.Objective}
		right := naiveOnNodes(inst, cert, nodeReading{})
		if low, err := verify.Bound(inst, cert); err != nil || math.Abs(ratFloat(low)-right) > 1e-6 || right > optimum {
			t.Errorf("%s: the bound is %v, %v, naive %v, and the optimum %v", c.name, low, err, right, optimum)
		}
		if wrong := naiveOnNodes(inst, cert, c.wrong); wrong <= optimum+1e-6 || math.IsInf(wrong, 1) {
			t.Errorf("%s: the reading gives %v, and the optimum is %v", c.name, wrong, optimum)
		}
	}
}

// A reservation is in the way of rounds of each kind, or a faster type opens later.
func TestLeastEndThroughWindows(t *testing.T) {
	for _, c := range []struct {
		name, instance string
		want           int64
	}{
		{"a rigid job waits for the reservation", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}],` +
			`"reservations":[{"from_s":3600,"until_s":7200,"users":["ops"]}]},"jobs":[` +
			`{"id":"x","sync":"rigid","tasks":2,"on":{"A":{"compute_s":4000}}}]}`, 11200},
		{"a gang goes on after it", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}],` +
			`"reservations":[{"from_s":10,"until_s":20,"users":["ops"]}]},"jobs":[` +
			`{"id":"x","sync":"gang","rounds":5,"tasks":2,"on":{"A":{"compute_s":4}}}]}`, 32},
		{"a relaxed round begins before it", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}],` +
			`"reservations":[{"from_s":10,"until_s":20,"users":["ops"]}]},"jobs":[` +
			`{"id":"x","rounds":3,"on":{"A":{"compute_s":3,"sync_s":2}}}]}`, 25},
		{"those whom it lists do not wait", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}],` +
			`"reservations":[{"from_s":10,"until_s":20,"users":["ops"]}]},"jobs":[` +
			`{"id":"x","sync":"rigid","user":["ops"],"rounds":5,"on":{"A":{"compute_s":4}}}]}`, 20},
		{"a fast type opens later", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":1}},` +
			`{"name":"b","gpus":{"B":1},"in_service_s":[[25,null]]}],"reservations":[{"until_s":1,"users":["ops"]}]},"jobs":[` +
			`{"id":"x","sync":"gang","rounds":10,"on":{"A":{"compute_s":10},"B":{"compute_s":1}}}]}`, 33},
	} {
		inst := nodeInstance(t, []byte(c.instance))
		low, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodCriticalPath, Objective: inst.Objective})
		if err != nil || ratFloat(low) != float64(c.want) {
			t.Errorf("%s: the bound is %v, %v, want %d", c.name, low, err, c.want)
		}
	}
}
