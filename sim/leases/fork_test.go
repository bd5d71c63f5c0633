package leases_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
)

func TestSplitSteps(t *testing.T) {
	for _, x := range []struct {
		steps int64
		rates []float64
		unit  int64
		want  string
	}{
		{100, []float64{3, 1}, 1, "[75 25]"},
		{10, []float64{1, 1, 1}, 1, "[4 3 3]"},
		{10, []float64{1, 1, 1}, 2, "[4 4 2]"},
		{11, []float64{1, 4}, 2, "[3 8]"},
		{1, []float64{1, 9}, 1, "[0 1]"},
		{1, []float64{1, 9}, 2, "[1 0]"},
		{1 << 53, []float64{1e-300, 1e300}, 1, "[0 9007199254740992]"},
	} {
		if got := fmt.Sprint(leases.SplitSteps(x.steps, x.rates, x.unit)); got != x.want {
			t.Errorf("%d by %v in units of %d: %s, not %s", x.steps, x.rates, x.unit, got, x.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		steps, unit := r.Int64N(1<<uint(1+r.IntN(52))), 1+r.Int64N(8)
		rates := make([]float64, 1+r.IntN(9))
		for i := range rates {
			rates[i] = r.ExpFloat64() + 1e-9
		}
		sum := int64(0)
		for _, s := range leases.SplitSteps(steps, rates, unit) {
			if sum += s; s < 0 {
				t.Fatal("a share is negative")
			}
		}
		if sum != steps {
			t.Fatalf("%d of %d steps", sum, steps)
		}
	}
}

// forking gives job 0 the GPUs of so many copies in each round.
type forking struct{ hold leases.Hold }

func (f forking) Hold(context.Context, *leases.State, []leases.Hold) ([]leases.Hold, error) {
	return []leases.Hold{f.hold}, nil
}

func (forking) ForksJobs() {}

// A job of one GPU has 720 steps, at 1 step/s on the K80 and 3 on the V100. Together they do a lease of 360 s
// less what restarting and merging take, and then divide what is left.
func TestCopiesByHand(t *testing.T) {
	cluster := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{1, 1}}
	job := []leases.Job{{ID: "a", Weight: 1, GPUs: 1, Steps: 720, Rate: []float64{1, 3}}}
	both := forking{leases.Hold{GPUs: []int32{0, 1}, Copies: 2}}
	for _, x := range []struct {
		name  string
		steps int64
		cfg   leases.RunConfig
		jctS  float64
	}{
		{"540 and 180 steps", 720, leases.RunConfig{}, 180},
		{"merging", 720, leases.RunConfig{Fork: leases.Fork{MergeS: 10}}, 190},
		{"restarting", 720, leases.RunConfig{RestartS: 20}, 200},
		{"two leases: 360 and 1,080 steps, then 15 and 45", 1500, leases.RunConfig{}, 375},
		// With e = 0.5 a step of two copies counts 0.75: 960 steps, of which the V100 does 720.
		{"learning less", 720, leases.RunConfig{Fork: leases.Fork{Efficiency: 0.5}}, 240},
		// Misjudged by a factor of 3, each gets half of 720 steps; the K80 takes 360 s.
		{"a wrong guess", 720, leases.RunConfig{Fork: leases.Fork{Guess: func(_ *leases.Job, k int) float64 {
			return []float64{3, 1}[k]
		}}}, 360},
		// The V100 fails after 100 s, and its share of 540 steps is divided again; its own 300 are lost. The
		// K80 does 180 steps until 180 s. Then nobody has the V100 before 460 s.
		{"a fault", 720, leases.RunConfig{Faults: []leases.Fault{{GPU: "V100/0", FromS: 100, UntilS: 150}}}, 315},
		{"a fault, with all steps kept", 720, leases.RunConfig{KeepSteps: true,
			Faults: []leases.Fault{{GPU: "V100/0", FromS: 100, UntilS: 150}}}, 240},
	} {
		job[0].Steps = x.steps
		o, err := leases.Run(t.Context(), "x", cluster, job, both, x.cfg)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		nearly(t, x.name, o.MeanJCTS, x.jctS)
		if o.Jobs[0].StepsRun != x.steps {
			t.Errorf("%s: %d of %d steps", x.name, o.Jobs[0].StepsRun, x.steps)
		}
	}
}

func TestCopiesThatCannotBe(t *testing.T) {
	cluster := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{4, 2}, NodeSize: []int{2, 2}}
	job := []leases.Job{{ID: "a", Weight: 1, GPUs: 2, Steps: 720, Rate: []float64{1, 3}}}
	for name, x := range map[string]struct {
		policy any
		want   string
	}{
		"no fork": {lending{"a": {0, 1, 2, 3}}, "got 4 and needs 2 at once"},
		"too few": {forking{leases.Hold{GPUs: []int32{0, 1, 2}, Copies: 2}}, "got 3 and needs 2 at once, for " +
			"each of 2"},
		"same node":     {forking{leases.Hold{GPUs: []int32{0, 2, 1, 3}, Copies: 2}}, `copy 0 of job "a" needs 2 GPUs`},
		"negative":      {forking{leases.Hold{GPUs: []int32{0, 1}, Copies: -1}}, "copies"},
		"far too many":  {forking{leases.Hold{GPUs: []int32{0, 1}, Copies: 1 << 62}}, "copies"},
		"a GPU twice":   {forking{leases.Hold{GPUs: []int32{0, 1, 1, 2}, Copies: 2}}, "allocated twice"},
		"a node twice":  {forking{leases.Hold{GPUs: []int32{0, 1, 2, 3, 4, 5, 0, 1}, Copies: 4}}, "allocated twice"},
		"not a forking": {copying{leases.Hold{GPUs: []int32{0, 1, 2, 3}, Copies: 2}}, "from a policy that forks no jobs"},
	} {
		_, err := leases.Run(t.Context(), "x", cluster, job, x.policy, leases.RunConfig{})
		var refused *sim.AllocationError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, fork := range []leases.Fork{{MergeS: -1}, {MergeS: 360}, {Efficiency: 1.5}, {Efficiency: -1}} {
		policy := forking{leases.Hold{GPUs: []int32{0, 1}}}
		if _, err := leases.Run(t.Context(), "x", cluster, job, policy, leases.RunConfig{Fork: fork}); err == nil {
			t.Errorf("%+v was accepted", fork)
		}
	}
}

type copying struct{ hold leases.Hold }

func (c copying) Hold(context.Context, *leases.State, []leases.Hold) ([]leases.Hold, error) {
	return []leases.Hold{c.hold}, nil
}
