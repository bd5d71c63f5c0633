package verify_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// Certificates with sizes or steps that have no meaning are refused.
func TestBadSizesAndSteps(t *testing.T) {
	inst := small(nodes("A", 4), brief(hare.Gang, 2))
	for _, c := range []struct {
		want string
		*hare.Certificate
	}{
		{"1 of grid_us is not a multiple", &hare.Certificate{GridUs: []int64{0, 5}, StepUs: 2}},
		{"not be negative", &hare.Certificate{GridUs: []int64{0, 5}, StepUs: -5}},
		{"have 1 GPUs", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 1, 0)},
		{"have 1048577 GPUs", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 1<<20+1, 0)},
		{"unknown type", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "B", 2, 0)},
		{"2 prices for 1", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 2, 0, 0)},
		{"0 prices for 1", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 2)},
		{"twice", sized(sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 2, 0), "A", 2, 0)},
		{"outside 0 to 2^53", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 2, -1)},
		{"price outside 0 to 2^53", sized(&hare.Certificate{GridUs: []int64{0, 5}}, "A", 2, 1<<53+1)},
		{"has no grid, prices, path, sizes or step", &hare.Certificate{Method: hare.MethodMachine, StepUs: 1}},
		{"has no grid, prices, path, sizes or step",
			sized(&hare.Certificate{Method: hare.MethodCriticalPath}, "A", 2)},
	} {
		if c.Objective = hare.ObjectiveWeightedJCT; c.Method == "" {
			c.Method = hare.MethodPrice
		}
		if _, err := verify.Bound(inst, c.Certificate); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// The check of a certificate with hostile sizes or steps ends soon. It ends with a bound that
// a plain certificate proves, too, or with a refusal.
func TestHostileSizesAndSteps(t *testing.T) {
	begin := time.Now()
	wide := brief(hare.Relaxed, 1<<31-1) // the steps are of 1 µs
	wide.On = []hare.Profile{{Type: "A", ComputeUs: 1}, {Type: "B", ComputeUs: 2}}
	dear := brief(hare.Relaxed, 1)
	dear.WeightMicro, dear.Rounds = hare.MaxExact, 3
	for name, c := range map[string]struct {
		inst *hare.Instance
		grid []int64
		step int64
	}{
		"too many steps":          {small(nodes("A", 1), dear), []int64{0, hare.MaxExact}, 1},
		"a step of everything":    {small(nodes("A", 1), dear), []int64{0, hare.MaxExact}, hare.MaxExact},
		"too many levels":         {small(append(nodes("A", 1), nodes("B", 1)...), wide), []int64{0, 1}, 1},
		"a round past the end":    {small(nodes("B", 1), wide), []int64{0, 1}, 1},
		"the greatest of numbers": {small(nodes("A", 1), dear), []int64{0, 1e12}, 1e6},
	} {
		cert := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT, GridUs: c.grid,
			Path: true}
		for _, n := range c.inst.Cluster.Nodes {
			cert.Prices = append(cert.Prices, hare.TypePrices{Type: n.GPUs[0].Type, Nanos: []int64{hare.MaxExact}})
		}
		want, err := verify.Bound(c.inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		cert.StepUs = c.step
		if got, err := verify.Bound(c.inst, cert); err != nil || got.Cmp(want) < 0 {
			t.Errorf("%s: %v %v, no less than %v is meant", name, got, err, want)
		}
	}
	// Each of 33 jobs has 64 types and 2^16 steps, which is the limit of one job.
	kinds := make([]hare.Node, 0, 64)
	many := hare.Job{WeightMicro: 1, Rounds: 1, Tasks: 1}
	for k := range 64 {
		kind := fmt.Sprintf("%02d", k)
		kinds = append(kinds, nodes(kind, 1)...)
		many.On = append(many.On, hare.Profile{Type: kind, ComputeUs: 1})
	}
	jobs := make([]hare.Job, 33)
	for i := range jobs {
		jobs[i] = many
	}
	cert := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT,
		GridUs: []int64{0, 1 << 16},
		StepUs: 1}
	if _, err := verify.Bound(small(kinds, jobs...), cert); err == nil || !strings.Contains(err.Error(), "too fine") {
		t.Errorf("33 jobs of 2^28 steps: %v", err)
	}
	// The certificate has 8,192 cells for a million GPUs.
	fine := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT, GridUs: []int64{0}}
	for g := range int64(8192) {
		fine.GridUs = append(fine.GridUs, g+1)
	}
	fine = sized(fine, "A", 1<<20, make([]int64, 8192)...)
	if _, err := verify.Bound(small(nodes("A", 1<<20)), fine); err == nil ||
		!strings.Contains(err.Error(), "too fine") {
		t.Errorf("2^33 of a knapsack: %v", err)
	}
	wantBound(t, small(nodes("A", 1<<20-1)), fine, new(big.Rat))
	if d := time.Since(begin); d > 5*time.Minute {
		t.Errorf("%v for all", d)
	}
}
