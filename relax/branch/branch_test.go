package branch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax/branch"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// randomRigid returns a tiny instance of rigid jobs, of which some are equal.
func randomRigid(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for _, kind := range []string{"A", "B"}[:1+r.IntN(2)] {
		node := hare.Node{Name: kind, GPUs: []hare.TypeCount{{Type: kind, Count: 4}}}
		if r.IntN(3) == 0 {
			node.Busy = []hare.Busy{{GPU: r.IntN(4), UntilUs: int64(1+r.IntN(4)) * 700_000}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range 2 + r.IntN(4) {
		j := hare.Job{WeightMicro: int64(1 + r.IntN(2_000_000)), ReleaseUs: int64(r.IntN(3)) * 400_000,
			Rounds: int64(1 + r.IntN(3)), Tasks: int64(1 + r.IntN(4)), Sync: hare.Rigid}
		for _, n := range inst.Cluster.Nodes {
			j.On = append(j.On, hare.Profile{Type: n.Name, ComputeUs: int64(1 + r.IntN(1_000_000)),
				SyncUs: int64(r.IntN(300_000))})
		}
		if i > 0 && r.IntN(3) == 0 {
			j = inst.Jobs[i-1]
		}
		j.ID = fmt.Sprint("j", i)
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// inOrder has the jobs one after another on the first type.
func inOrder(m *model.Model) (out []branch.Place) {
	at := int64(0)
	for _, s := range m.Capacity(0) {
		at = max(at, s.FromUs)
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		at = max(at, j.ReleaseUs)
		out = append(out, branch.Place{StartUs: at})
		at += j.Rounds * j.Modes[0].DurationUs()
	}
	return out
}

func free(m *model.Model) *hare.Certificate {
	return &hare.Certificate{Method: hare.MethodPrice, Path: true, Objective: m.Instance.Objective, GridUs: []int64{0, 1}}
}

// Branch and bound finds the optimum of tiny instances, and proves it.
func TestRunProvesTheOptimum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 19))
	proved := 0
	for i := range 60 {
		inst := randomRigid(r)
		opt, ok, done := brute.Optimum(inst, 300_000)
		if !ok || !done {
			continue
		}
		m := model.New(inst)
		pr := branch.New(m)
		if pr == nil {
			t.Fatalf("instance %d is refused", i)
		}
		places := inOrder(m)
		out := branch.Run(context.Background(), pr, branch.Config{Places: places, Prices: free(m)})
		if out.Certificate == nil || !out.Optimal {
			t.Fatalf("instance %d: %+v", i, out)
		}
		if want := hare.Product(1, opt); out.Bound.Cmp(want) != 0 {
			t.Fatalf("instance %d: bound %v, the optimum is %v", i, out.Bound, want)
		}
		if out.Places != nil {
			places = out.Places
		}
		sum := int64(0)
		for j, p := range places {
			for _, md := range m.Jobs[j].Modes {
				if md.Type == p.Type {
					sum += m.Jobs[j].WeightMicro * (p.StartUs + m.Jobs[j].Rounds*md.DurationUs() - m.Jobs[j].ReleaseUs)
				}
			}
		}
		if sum != opt {
			t.Fatalf("instance %d: places of value %d, the optimum is %d", i, sum, opt)
		}
		low, err := verify.Bound(inst, out.Certificate)
		if err != nil || low.Cmp(new(big.Rat).SetFrac(out.Bound.RoundDown().Big(), big.NewInt(1e12))) < 0 {
			t.Fatalf("instance %d: %v proved, %v", i, low, err)
		}
		proved++
	}
	if proved < 40 {
		t.Errorf("only %d instances", proved)
	}
}

// A limit ends the search with a bound that holds, and the same limit gives the same certificate.
func TestLimitedRunIsTheSame(t *testing.T) {
	inst := frozen(t, "rigid-9-4")
	m := model.New(inst)
	var last []byte
	for range 2 {
		out := branch.Run(context.Background(), branch.New(m), branch.Config{Places: inOrder(m), Prices: free(m),
			Evaluations: 2400})
		low, err := verify.Bound(inst, out.Certificate)
		if err != nil || out.Optimal || out.Nodes < 3 {
			t.Fatalf("%+v: %v", out, err)
		}
		if f, _ := low.Float64(); f < out.Bound.Float()-1e-6 || f > 1052.687993 {
			t.Errorf("%v proved, %v stated", f, out.Bound)
		}
		text := wire.CertificateJSON(out.Certificate)
		if last != nil && !bytes.Equal(text, last) {
			t.Error("the second certificate differs")
		}
		last = text
	}
}

// New takes rigid jobs without further rules on GPUs that stay.
func TestNewRefusesOtherInstances(t *testing.T) {
	for name, change := range map[string]func(inst *hare.Instance){
		"gang":     func(inst *hare.Instance) { inst.Jobs[0].Sync = hare.Gang },
		"leaving":  func(inst *hare.Instance) { inst.Cluster.Nodes[0].Windows = []hare.Window{{EndUs: 1e12}} },
		"makespan": func(inst *hare.Instance) { inst.Objective = hare.ObjectiveMakespan },
		"too wide": func(inst *hare.Instance) { inst.Jobs[0].Tasks = 100 },
	} {
		inst := frozen(t, "rigid-9-1")
		if branch.New(model.New(inst)) == nil {
			t.Fatal("the instance itself is refused")
		}
		change(inst)
		if branch.New(model.New(inst)) != nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func frozen(t testing.TB, name string) *hare.Instance {
	t.Helper()
	f, err := os.Open("../../testdata/instances/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := wire.DecodeInstance(z, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// Two jobs of four GPUs on six GPUs run one after the other. A tree proves it.
func ExampleRun() {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 6}}}}}}
	for _, id := range []string{"x", "y"} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: id, WeightMicro: 1e6, Rounds: 1, Tasks: 4, Sync: hare.Rigid,
			On: []hare.Profile{{Type: "A", ComputeUs: 2e6}}})
	}
	m := model.New(inst)
	out := branch.Run(context.Background(), branch.New(m), branch.Config{
		Places: []branch.Place{{StartUs: 0}, {StartUs: 2e6}},
		Prices: &hare.Certificate{Method: hare.MethodPrice, GridUs: []int64{0, 1}},
	})
	fmt.Println(out.Optimal, out.Bound, out.Nodes)
	// Output: true 6 3
}
