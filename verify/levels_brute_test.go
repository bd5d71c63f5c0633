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

// naiveMode is a mode of a job: a type and a level.
type naiveMode struct {
	hare.Profile // with the synchronisation time of the level
	key          string
	level        string
	rank         int
}

// naiveRank returns the place of a level among those from fine to coarse.
func naiveRank(inst *hare.Instance, level string) int {
	return slices.Index(append(brute.LevelNames(inst), hare.PerAll), level)
}

// naiveModes returns the modes of a job before it is known whether there is room for them.
func naiveModes(inst *hare.Instance, job *hare.Job, r nodeReading) (out []naiveMode) {
	names := brute.LevelNames(inst)
	within := "any"
	if job.Within != "" {
		within = job.Within
	}
	for _, p := range job.On {
		for x, level := range names {
			s := brute.SyncUs(inst, p, level)
			md := naiveMode{p, p.Type, level, x}
			md.SyncUs = s
			if md.key = p.Type + "@" + level; level == "any" {
				md.key = p.Type
			}
			if level == within {
				if r.syncWidest {
					md.SyncUs = p.SyncUs
				}
				out = append(out, md)
				break
			}
			if job.Sync != hare.Relaxed && !r.syncWidest && s < brute.SyncUs(inst, p, names[x+1]) {
				out = append(out, md)
			}
		}
	}
	return out
}

// randomLevelPools returns a certificate as randomMixed does, with pools per label.
func randomLevelPools(r *rand.Rand, inst *hare.Instance, last int64) *hare.Certificate {
	c := randomMixed(r, inst, last)
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.Resource == hare.PoolGPUs && len(inst.Cluster.Topology) > 0 && r.IntN(2) == 0 {
			p.Per = inst.Cluster.Topology[r.IntN(len(inst.Cluster.Topology))]
		}
	}
	return c
}

// For random tiny instances with levels and all other rules of nodes, the optimal schedule is
// accepted with its value, and refused where it is not within its level. No certificate whose
// prices are optimised proves more than the optimum, and each proves what the text of
// docs/reference/model.md says.
func TestBoundsOfLevels(t *testing.T) {
	instances, steps := 400, 25
	if testing.Short() {
		instances = 80
	}
	if *soak {
		instances = 100_000
	}
	r := rand.New(rand.NewPCG(15, 4))
	tried, tight := 0, 0
	for i := range instances {
		inst := brute.RandomLevels(r)
		opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil || inst.Objective == hare.ObjectiveMakespan {
			continue
		}
		tried++
		optimum := hare.Product(1, opt)
		if value, _, faults := verify.ScheduleValue(inst, plan); len(faults) > 0 || value.Cmp(optimum) != 0 {
			t.Fatalf("instance %d: the optimal schedule of value %v has value %v, faults %v: %+v", i, optimum, value, faults,
				inst)
		}
		limit := new(big.Rat).SetFrac(optimum.Big(), big.NewInt(1e12))
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			low, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: inst.Objective})
			if err != nil || low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %s proves %v, %v, optimum %v: %+v", i, method, low, err, optimum, inst)
			}
		}
		cert := randomLevelPools(r, inst, opt/1e6)
		best := ascend(r, cert, steps, func() float64 {
			low, err := verify.Bound(inst, cert)
			if err != nil {
				t.Fatalf("instance %d: %v", i, err)
			}
			if low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: prices prove %v, optimum %v: %+v %+v", i, low.FloatString(9), optimum, inst, cert)
			}
			if want := naiveOnNodes(inst, cert, nodeReading{}); !math.IsNaN(want) && math.Abs(want-ratFloat(low)) > 1e-6 {
				t.Fatalf("instance %d: bound %v, naive %v: %+v %+v", i, low.FloatString(9), want, inst, cert)
			}
			return ratFloat(low)
		})
		if best > optimum.Float()*0.999999 {
			tight++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum", tried, tight)
}

// killLevels is killOnNodes for the instances of brute.RandomLevels.
func killLevels(seed uint64, wrong nodeReading) func(*testing.T) (float64, float64, float64) {
	return func(t *testing.T) (float64, float64, float64) {
		r := rand.New(rand.NewPCG(seed, 37))
		inst := brute.RandomLevels(r)
		optimum := optimumOf(t, inst)
		return ascendWrong(r, inst, randomLevelPools(r, inst, int64(math.Round(optimum*1e6))), wrong, optimum)
	}
}

// killMixFitByType: a gang that mixes types has a mode if all of its types together have room in one
// domain, here one GPU of A and two of B in rack r.
func killMixFitByType(t *testing.T) (wrong, right, optimum float64) {
	inst := nodeInstance(t, []byte(`{"hare":"instance/v1","cluster":{"topology":["rack"],"nodes":[`+
		`{"name":"n0","gpus":{"A":1,"B":1},"labels":{"rack":"s"}},{"name":"n1","gpus":{"B":2},"labels":{"rack":"r"}},`+
		`{"name":"n2","gpus":{"A":1},"labels":{"rack":"r"}}]},"jobs":[{"id":"x","tasks":3,"sync":"gang","mix":true,`+
		`"within":"rack","on":{"A":{"compute_s":2,"sync_s":{"node":0,"rack":1}},"B":{"compute_s":2,"sync_s":1}}}]}`))
	low, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodCriticalPath, Objective: inst.Objective})
	free := &hare.Certificate{Method: hare.MethodPrice, Path: true, Objective: inst.Objective, GridUs: []int64{0, 2e6}}
	if right = naiveOnNodes(inst, free, nodeReading{}); right != 3 || err != nil || ratFloat(low) != 3 {
		t.Errorf("the right reading gives %v, the bound is %v, %v, want 3", right, low, err)
	}
	return naiveOnNodes(inst, free, nodeReading{mixFitByType: true}), right, optimumOf(t, inst)
}
