package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// arriving returns a cluster of GPUs of type A on nodes that come one after another.
func arriving(count, gpus int) (out []hare.Node) {
	for n := range count {
		out = append(out, hare.Node{Name: fmt.Sprint("n", n), GPUs: []hare.TypeCount{{Type: "A", Count: gpus}},
			Windows: []hare.Window{{StartUs: int64(n) * 1000, EndUs: hare.Forever}}})
	}
	return out
}

// chain returns a tree of splits by start of job 0.
func chain(splits int) (out []hare.BranchNode) {
	for n := range splits {
		out = append(out, hare.BranchNode{Job: "0", StartUs: int64(n)}, hare.BranchNode{})
	}
	return append(out, hare.BranchNode{})
}

// hostileTree is a tree that takes too long, or too much memory.
type hostileTree struct {
	name, want string
	inst       *hare.Instance
	cert       *hare.Certificate
}

func hostileTrees() (out []hostileTree) {
	add := func(name, want string, inst *hare.Instance, change func(c *hare.Certificate)) {
		c := &hare.Certificate{Method: hare.MethodBranch, Objective: hare.ObjectiveWeightedJCT,
			GridUs: []int64{0, 1}, Tree: []hare.BranchNode{{}}}
		change(c)
		out = append(out, hostileTree{name, want, inst, c})
	}
	pair := []hare.Job{brief(hare.Rigid, 1), brief(hare.Rigid, 1)}
	own := func(c *hare.Certificate) {
		c.PriceSets = []hare.PriceSet{{GridUs: []int64{0, 1e9}, Jobs: []hare.JobPrices{
			{Job: "0", Type: "A", Nanos: []int64{5}}, {Job: "1", Type: "A", Nanos: []int64{5}}}}}
		c.Tree[0].Prices = 1
	}
	const leaves = "leaves of the tree take too long"
	add("a million GPUs that come at 3,000 times", leaves, small(arriving(3000, 349), pair...), own)
	add("300 sizes on GPUs that come at 300 times", leaves, small(arriving(300, 349), pair...),
		func(c *hare.Certificate) {
			for tasks := range int64(300) {
				c = sized(c, "A", 2+tasks, 5)
			}
		})
	sixteen := make([]hare.Job, 16)
	for i := range sixteen {
		sixteen[i] = brief(hare.Rigid, 1)
	}
	add("30,001 nodes that sort 3,000 arrivals for each job", "a tree of 30001 nodes takes too long",
		small(arriving(3000, 1), sixteen...), func(c *hare.Certificate) { c.Tree = chain(15_000) })
	add("more sets than nodes", "has 1000 price_sets, which are too many", small(nodes("A", 1), pair...),
		func(c *hare.Certificate) {
			for range 1000 {
				c.PriceSets = append(c.PriceSets, hare.PriceSet{GridUs: []int64{0, 1}})
			}
		})
	add("no node", "a tree of 0 nodes", small(nodes("A", 1), pair...), func(c *hare.Certificate) { c.Tree = nil })
	return out
}

// treeDocuments returns documents of a tree with an empty plan.
func treeDocuments(t *testing.T, name string, inst *hare.Instance, cert *hare.Certificate) *documents {
	t.Helper()
	bound := hare.Amount{}
	one := *cert
	one.Bound = bound.Bound6()
	res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Bound: &bound, Certificate: &one,
		Options: hare.Options{Detail: "lanes"}, InstanceSHA256: wire.SHA256(inst)}
	return &documents{name: name, instance: instanceText(t, inst), result: resultText(t, res)}
}

// Trees that take too long are refused by both verifiers, soon and for this reason.
func TestHostileTreesAreRefused(t *testing.T) {
	begin := time.Now()
	all := hostileTrees()
	for _, x := range all {
		if b, err := verify.Bound(x.inst, x.cert); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, %v, want %q", x.name, b, err, x.want)
		}
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("package verify took %v", d)
	}
	py := startPython(t)
	begin = time.Now()
	for _, x := range all {
		code, said, err := py.verdict(treeDocuments(t, x.name, x.inst, x.cert))
		if err != nil || code != 1 || !strings.Contains(said, x.want) {
			t.Errorf("%s: %d, %.300s, %v, want %q", x.name, code, said, err, x.want)
		}
	}
	if d := time.Since(begin); d > 2*time.Minute {
		t.Errorf("hare_verify.py took %v", d)
	}
}

// Profiles of types that the cluster lacks cost nothing, so many of them do not forbid a fine grid.
func TestTreesIgnoreTypesThatTheClusterLacks(t *testing.T) {
	job := brief(hare.Rigid, 1)
	for x := range 1 << 16 {
		job.On = append(job.On, hare.Profile{Type: fmt.Sprintf("x%05d", x), ComputeUs: 1})
	}
	inst := small(nodes("A", 1), job)
	cert := &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0},
		Tree: []hare.BranchNode{{}}}
	for g := range int64(1<<17 + 1) {
		cert.GridUs = append(cert.GridUs, g+1)
	}
	wantBound(t, inst, cert, big.NewRat(1, 1))
}

// A node whose job or type is empty is no node: without these it would be a leaf or a split by start.
func TestNodesWithEmptyNames(t *testing.T) {
	inst := small(nodes("A", 2), brief(hare.Rigid, 1))
	good := treeDocuments(t, "", inst, &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective,
		GridUs: []int64{0, 1}, Tree: []hare.BranchNode{{Job: "0", Type: "A"}, {}, {}}})
	py := startPython(t)
	for _, c := range []struct{ to, want string }{
		{`{"job":"","type":"A"}`, "/job: must not be empty"},
		{`{"job":"0","type":""}`, "/type: must not be empty"},
		{`{"job":"","start_us":0}`, "/job: must not be empty"},
	} {
		x := *good
		x.result = bytes.Replace(good.result, []byte(`{"job":"0","type":"A"}`), []byte(c.to), 1)
		if bytes.Equal(x.result, good.result) {
			t.Fatalf("no node in %s", good.result)
		}
		if code, said := goVerdict(&x); code != 2 || !strings.Contains(said, c.want) {
			t.Errorf("%s: package verify says %d, %s", c.to, code, said)
		}
		if code, said, err := py.verdict(&x); err != nil || code != 2 {
			t.Errorf("%s: hare_verify.py says %d, %s, %v", c.to, code, said, err)
		}
	}
}

// ending is a context that ends after so many questions.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// The check of a tree ends with its context, before each sweep and between the prices of two instants.
func TestTreesEndWithTheContext(t *testing.T) {
	inst := small(nodes("A", 2), brief(hare.Rigid, 1))
	cert := &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1},
		PriceSets: []hare.PriceSet{{GridUs: []int64{0, 1, 2, 3}, Jobs: []hare.JobPrices{
			{Job: "0", Type: "A", Nanos: []int64{1, 2, 3}}}}},
		Tree: []hare.BranchNode{{Job: "0", StartUs: 0}, {Prices: 1}, {Prices: 1}}, Bound: "0.000000"}
	const most = 1000
	whole := &ending{context.Background(), most}
	if _, err := verify.Prove(whole, inst, cert); err != nil {
		t.Fatal(err)
	}
	asked := most - whole.left
	if asked < 10 {
		t.Errorf("the context was asked %d times", asked)
	}
	for n := range asked {
		if _, err := verify.Prove(&ending{context.Background(), n}, inst, cert); !errors.Is(err, context.Canceled) {
			t.Errorf("%v after %d of %d questions", err, n, asked)
		}
	}
}
