package solver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// solvedOnNodes solves a random instance on nodes with a work limit. The result is nil where
// the solver does not support the instance or finds no schedule.
func solvedOnNodes(t *testing.T, inst *hare.Instance, seed int64) *hare.Result {
	t.Helper()
	res, err := solver.Solve(context.Background(), inst, hare.Options{Gap: 1e-9, WorkLimit: 600, Seed: seed},
		solver.Config{Workers: 1})
	if bad := (*hare.InvalidError)(nil); errors.As(err, &bad) && bad.Code == "not_supported" {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if res.Schedule == nil || res.Certificate == nil {
		return nil
	}
	return res
}

// forSolvedOnNodes calls f with so many random instances that the solver supports, and their
// results.
func forSolvedOnNodes(t *testing.T, n int, f func(r *rand.Rand, inst *hare.Instance, res *hare.Result, what string)) {
	if testing.Short() {
		n /= 5
	}
	for seed := int64(0); n > 0; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 15))
		inst := brute.RandomOnNodes(r)
		if res := solvedOnNodes(t, inst, seed+1); res != nil {
			n--
			f(r, inst, res, fmt.Sprintf("seed %d: %+v", seed, inst))
		}
	}
}

// clone returns a deep copy of the cluster and the jobs, as far as the tests change them.
func clone(inst *hare.Instance) *hare.Instance {
	c := *inst
	c.Cluster.Nodes = slices.Clone(inst.Cluster.Nodes)
	c.Jobs = slices.Clone(inst.Jobs)
	return &c
}

func TestNamesOfNodesChangeNothing(t *testing.T) {
	forSolvedOnNodes(t, 60, func(r *rand.Rand, inst *hare.Instance, res *hare.Result, what string) {
		names := map[string]string{}
		for to, from := range r.Perm(len(inst.Cluster.Nodes)) {
			names[inst.Cluster.Nodes[from].Name] = inst.Cluster.Nodes[to].Name
		}
		other := clone(inst)
		for n := range other.Cluster.Nodes {
			other.Cluster.Nodes[n].Name = names[other.Cluster.Nodes[n].Name]
		}
		for i := range other.Jobs {
			j := &other.Jobs[i]
			for _, selector := range []*[]hare.LabelValues{&j.Only, &j.Exclude} {
				*selector = slices.Clone(*selector)
				for x := range *selector {
					if s := &(*selector)[x]; s.Label == hare.LabelNode {
						s.Values = slices.Clone(s.Values)
						for v := range s.Values {
							if name, ok := names[s.Values[v]]; ok {
								s.Values[v] = name
							}
						}
						slices.Sort(s.Values)
					}
				}
			}
		}
		again := solvedOnNodes(t, other, res.Seed)
		if again == nil || again.Value.Cmp(*res.Value) != 0 || again.Bound.Cmp(*res.Bound) != 0 {
			t.Fatalf("other names of nodes give %v and %v instead of %v and %v: %s", again.Value, again.Bound, res.Value,
				res.Bound, what)
		}
	})
}

func TestDefaultsOfNodesChangeNothing(t *testing.T) {
	forSolvedOnNodes(t, 40, func(r *rand.Rand, inst *hare.Instance, res *hare.Result, what string) {
		other := clone(inst)
		for i := range other.Jobs {
			if j := &other.Jobs[i]; j.GPUsPerTask <= 1 {
				j.GPUsPerTask = 1 - j.GPUsPerTask
			}
			if j := &other.Jobs[i]; len(j.Only) == 0 {
				j.Only = []hare.LabelValues{}
			}
		}
		again := solvedOnNodes(t, other, res.Seed)
		var texts [2]bytes.Buffer
		for n, x := range []*hare.Result{res, again} {
			x.Timing = hare.Timing{}
			if err := wire.EncodeResult(&texts[n], x); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
			t.Fatalf("fields at their defaults change the result: %s", what)
		}
	})
}

// TestTighterNodesNeverLowerABound evaluates the prices of an instance for others that differ
// in one field, by which fewer schedules are feasible.
func TestTighterNodesNeverLowerABound(t *testing.T) {
	for name, tighten := range map[string]func(r *rand.Rand, n *hare.Node, j *hare.Job){
		"distinct":         func(_ *rand.Rand, _ *hare.Node, j *hare.Job) { j.DistinctNodes = j.Sync != hare.Relaxed },
		"cpus of a task":   func(r *rand.Rand, _ *hare.Node, j *hare.Job) { j.CPUMilliPerTask += int64(r.IntN(2000)) },
		"memory of a task": func(r *rand.Rand, _ *hare.Node, j *hare.Job) { j.MemoryMiBPerTask += int64(r.IntN(3)) },
		"cpus of a node": func(r *rand.Rand, n *hare.Node, _ *hare.Job) {
			if n.CPUMilli == 0 || n.CPUMilli > 1500 {
				n.CPUMilli = 1500
			}
		},
		"exclude": func(r *rand.Rand, n *hare.Node, j *hare.Job) {
			if len(j.Exclude) == 0 {
				j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{n.Name}}}
			}
		},
		"busy": func(r *rand.Rand, n *hare.Node, _ *hare.Job) {
			if len(n.Busy) == 0 {
				n.Busy = []hare.Busy{{GPU: 0, UntilUs: 2_000_000}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forSolvedOnNodes(t, 40, func(r *rand.Rand, inst *hare.Instance, res *hare.Result, what string) {
				for _, p := range res.Certificate.Pools {
					if len(p.Only) > 0 || p.Type == "" {
						return // what a job pays there depends on whether all of its nodes are in the pool
					}
				}
				other := clone(inst)
				tighten(r, &other.Cluster.Nodes[r.IntN(len(other.Cluster.Nodes))], &other.Jobs[r.IntN(len(other.Jobs))])
				for _, c := range []*hare.Certificate{res.Certificate,
					{Objective: res.Certificate.Objective, Method: hare.MethodCriticalPath}} {
					low, err := verify.Bound(inst, c)
					if err != nil {
						t.Fatalf("%s: %s", err, what)
					}
					if tight, err := verify.Bound(other, c); err == nil && tight.Cmp(low) < 0 {
						t.Fatalf("%s: the bound falls from %v to %v: %s", c.Method, new(big.Float).SetRat(low),
							new(big.Float).SetRat(tight), what)
					}
				}
			})
		})
	}
}
