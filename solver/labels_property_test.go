package solver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// relabelled returns an instance with other names of nodes, label values, users and jobs, and how
// nodes are called now. With shuffle the nodes have another order, too.
func relabelled(r *rand.Rand, inst *hare.Instance, shuffle bool) (*hare.Instance, map[string]string) {
	other := brute.Clone(inst)
	nodes := map[string]string{}
	for to, from := range r.Perm(len(inst.Cluster.Nodes)) {
		nodes[inst.Cluster.Nodes[from].Name] = fmt.Sprintf("other-%d", to)
	}
	rename := func(list []string, to func(string) string) {
		for i := range list {
			list[i] = to(list[i])
		}
		slices.Sort(list)
	}
	node := func(name string) string { return nodes[name] }
	value := func(text string) string { return "z" + text }
	user := func(name string) string { return map[string]string{"ann": "zoe", "bob": "al"}[name] }
	job := func(id string) string { return "job " + id }
	selector := func(s []hare.LabelValues) {
		for i := range s {
			if s[i].Label == hare.LabelNode {
				rename(s[i].Values, node)
			} else {
				rename(s[i].Values, value)
			}
		}
	}
	for i := range other.Cluster.Nodes {
		n := &other.Cluster.Nodes[i]
		n.Name = nodes[n.Name]
		for x := range n.Labels {
			n.Labels[x].Value = value(n.Labels[x].Value)
		}
	}
	if shuffle {
		slices.SortFunc(other.Cluster.Nodes, func(a, b hare.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	for i := range other.Cluster.Reservations {
		v := &other.Cluster.Reservations[i]
		selector(v.Nodes)
		rename(v.Users, user)
		rename(v.Jobs, job)
	}
	for i := range other.Quota {
		other.Quota[i].User = user(other.Quota[i].User)
	}
	for i := range other.Jobs {
		j := &other.Jobs[i]
		j.ID = job(j.ID)
		selector(j.Only)
		selector(j.Exclude)
		rename(j.Users, user)
		for x := range j.After {
			j.After[x].Job = job(j.After[x].Job)
		}
		if j.Running() {
			for x, gpu := range j.Progress.GPUs {
				name, number, _ := strings.Cut(gpu, "/")
				j.Progress.GPUs[x] = nodes[name] + "/" + number
			}
		}
	}
	return other, nodes
}

// Names and the order of nodes change nothing: optima and bounds are equal, and a schedule has the same
// value on the nodes of the other names. Where only names change, the search ends with the same value
// and bound.
func TestLabelsChangeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector has nothing to find, and the test runs without it")
	}
	n := uint64(300)
	compared := 0
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 63))
		inst, _ := brute.RandomFields(r)
		shuffle := r.IntN(3) > 0
		other, nodes := relabelled(r, inst, shuffle)
		if err := other.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		before, plan, done := brute.OptimumOnNodes(inst, 20_000)
		after, otherPlan, otherDone := brute.OptimumOnNodes(other, 20_000)
		if !done || !otherDone {
			continue
		}
		what := func() string {
			return fmt.Sprintf("seed %d: %s\n%s", seed, wire.Canonical(inst), wire.Canonical(other))
		}
		if before != after || (plan == nil) != (otherPlan == nil) {
			t.Fatalf("the optimum is %d, and with other names %d: %s", before, after, what())
		}
		for _, c := range []*hare.Certificate{{Method: hare.MethodCriticalPath, Objective: inst.Objective},
			{Method: hare.MethodMachine, Objective: inst.Objective}, gridPrices(r, inst)} {
			low, err := verify.Bound(inst, c)
			again, otherErr := verify.Bound(other, c)
			if (err == nil) != (otherErr == nil) || err == nil && low.Cmp(again) != 0 {
				t.Fatalf("%s: the bound is %v, %v, and with other names %v, %v: %s", c.Method, low, err, again,
					otherErr, what())
			}
		}
		if plan == nil {
			continue
		}
		compared++
		for i := range plan.Jobs {
			plan.Jobs[i] = "job " + plan.Jobs[i]
		}
		for i := range plan.Lanes {
			name, number, _ := strings.Cut(plan.Lanes[i].GPU, "/")
			plan.Lanes[i].GPU = nodes[name] + "/" + number
		}
		value, _, faults := verify.ScheduleValue(other, plan)
		if len(faults) > 0 || value.Cmp(hare.Product(1, before)) != 0 {
			t.Fatalf("the schedule has the faults %v and the value %v: %s", faults, value, what())
		}
		if !shuffle {
			res, _ := solvedBytes(t, inst)
			again, _ := solvedBytes(t, other)
			if (res.Value == nil) != (again.Value == nil) || res.Value != nil && res.Value.Cmp(*again.Value) != 0 ||
				res.Bound.Cmp(*again.Bound) != 0 {
				t.Errorf("other names give %v and %v instead of %v and %v: %s", again.Value, again.Bound, res.Value, res.Bound,
					what())
			}
		}
	}
	if compared < int(n)/2 {
		t.Errorf("only %d instances were compared", compared)
	}
}
