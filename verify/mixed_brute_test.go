package verify_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// randomMixed returns a certificate for inst as randomPools does, with pools of quotas and with
// weight that is moved along dependencies. For the objective makespan the last time of the grid
// is last; for others last does not matter.
func randomMixed(r *rand.Rand, inst *hare.Instance, last int64) *hare.Certificate {
	const half = 500_000
	cells := 6
	var cuts []int64
	if inst.Objective == hare.ObjectiveMakespan {
		for t := int64(half); t < last; t += half {
			cuts = append(cuts, t)
		}
		r.Shuffle(len(cuts), func(a, b int) { cuts[a], cuts[b] = cuts[b], cuts[a] })
		cuts = append(cuts[:min(len(cuts), cells-1)], 0, last)
		slices.Sort(cuts)
		cells = len(cuts) - 1
	}
	c := randomPools(r, inst, cells)
	if cuts != nil {
		c.GridUs = cuts
	}
	c.Objective = inst.Objective
	for q := range inst.Quota {
		if r.IntN(3) == 0 {
			continue
		}
		p := hare.Pool{Resource: hare.PoolQuota, Quota: q}
		row := func(scale float64) []int64 {
			out := make([]int64, cells)
			for g := range out {
				out[g] = int64(r.Float64() * scale * 1e9)
			}
			return out
		}
		if r.IntN(2) == 0 {
			p.Nanos = row(0.3)
		}
		var sizes []int64
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			for x := range j.ShapeCount() {
				s := j.Shape(x)
				sizes = append(sizes, s.TaskGPUs(), s.Tasks*s.TaskGPUs())
			}
		}
		slices.Sort(sizes)
		for _, s := range slices.Compact(sizes) {
			if r.IntN(2) == 0 {
				p.Sizes = append(p.Sizes, hare.PoolSize{GPUs: s, Nanos: row(0.3 * float64(s))})
			}
		}
		if p.Nanos != nil || p.Sizes != nil {
			c.Pools = append(c.Pools, p)
		}
	}
	if inst.Objective != hare.ObjectiveMakespan {
		c.After = randomAfter(r, inst)
	}
	return c
}

// randomAfter moves weight along dependencies, later jobs first, which wait for earlier ones.
func randomAfter(r *rand.Rand, inst *hare.Instance) (out []hare.AfterWeight) {
	left := make([]int64, len(inst.Jobs))
	for i := range inst.Jobs {
		left[i] = inst.Jobs[i].WeightMicro
	}
	for i := len(inst.Jobs) - 1; i >= 0; i-- {
		for _, p := range inst.Jobs[i].After {
			micro := int64(r.IntN(5)) * left[i] / 4
			if micro == 0 {
				continue
			}
			left[i] -= micro
			left[slices.IndexFunc(inst.Jobs, func(j hare.Job) bool { return j.ID == p.Job })] += micro
			out = append(out, hare.AfterWeight{Job: inst.Jobs[i].ID, Before: p.Job, Micro: micro})
		}
	}
	return out
}

// hasFixed reports whether jobs end with the work that runs at time 0, and count by themselves.
func hasFixed(inst *hare.Instance) bool {
	return inst.Objective != hare.ObjectiveMakespan && slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool {
		return j.Running() && (j.Sync == hare.Rigid ||
			j.Progress.RoundsDone+j.Shape(j.Progress.Shape).Counts >= j.Rounds)
	})
}

// For random tiny instances with all rules mixed, the optimal schedule is accepted with its value
// and constant, no certificate whose prices are optimised proves more than the optimum, and each
// proves what the text of the documentation says.
func TestBoundsOfRules(t *testing.T) {
	instances, steps := 900, 25
	if testing.Short() {
		instances = 150
	}
	if *soak {
		instances = 200_000
	}
	r := rand.New(rand.NewPCG(15, 2))
	tried, tight, makespans, met := 0, 0, 0, 0
	for i := range instances {
		inst := brute.RandomMixed(r)
		opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		tried++
		optimum := hare.Product(1, opt)
		res := &hare.Result{Objective: inst.Objective, Value: &optimum, Schedule: plan}
		if hasFixed(inst) {
			constant := hare.Product(1, brute.Fixed(inst))
			res.Constant = &constant
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("instance %d: the optimal schedule of value %v: %s: %+v", i, optimum, rep, inst)
		}
		limit := new(big.Rat).SetFrac(optimum.Big(), big.NewInt(1e12))
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			if inst.Objective == hare.ObjectiveMakespan && method == hare.MethodMachine {
				continue
			}
			low, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: inst.Objective})
			if err != nil || low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %s proves %v, %v, optimum %v: %+v", i, method, low, err, optimum, inst)
			}
		}
		if inst.Objective == hare.ObjectiveMakespan {
			makespans++
			met += boundMakespan(t, r, inst, opt/1e6, steps)
			continue
		}
		cert := randomMixed(r, inst, 0)
		best := ascend(r, cert, steps, func() float64 {
			low, err := verify.Bound(inst, cert)
			if err != nil {
				t.Fatalf("instance %d: %v: %+v", i, err, inst)
			}
			if low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: prices prove %v, optimum %v: %+v %+v", i, low.FloatString(9), optimum, inst, cert)
			}
			if want := naiveOnNodes(inst, cert, nodeReading{}); math.Abs(want-ratFloat(low)) > 1e-6 && !math.IsNaN(want) {
				t.Fatalf("instance %d: bound %v, naive %v: %+v %+v", i, low.FloatString(9), want, inst, cert)
			}
			return ratFloat(low)
		})
		if best > optimum.Float()*0.999999 {
			tight++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum; %d makespans, %d proved", tried, tight, makespans, met)
	if tried < instances/4 || met == 0 {
		t.Errorf("only %d instances, %d makespans proved", tried, met)
	}
}

// boundMakespan checks that no prices prove that a makespan is above the optimum, and that prices
// prove earlier times exactly where the naive excess is positive. It returns 1 if some prices
// prove a time, and 0 otherwise.
func boundMakespan(t *testing.T, r *rand.Rand, inst *hare.Instance, optimum int64, steps int) int {
	t.Helper()
	proved := 0
	for _, last := range []int64{optimum, optimum - 500_000} {
		if last <= 0 {
			continue
		}
		cert := randomMixed(r, inst, last)
		ascend(r, cert, steps, func() float64 {
			low, err := verify.Bound(inst, cert)
			excess := naiveOnNodes(inst, cert, nodeReading{})
			if err == nil && (last >= optimum || low.Cmp(big.NewRat(last+1, 1e6)) != 0) {
				t.Fatalf("prices prove %v, the optimum is %d µs: %+v %+v", low, optimum, inst, cert)
			}
			if excess > 1e-6 && err != nil || excess < -1e-6 && err == nil {
				t.Fatalf("the bound is %v, %v, the naive excess %v: %+v %+v", low, err, excess, inst, cert)
			}
			if err == nil {
				proved = 1
			}
			return excess
		})
	}
	return proved
}
