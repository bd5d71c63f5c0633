package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// tinyGangInstance returns a tiny instance in which gangs do not fill a type and relaxed rounds
// are wider than a type. All tasks have the same length, so brute force is feasible.
func tinyGangInstance(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	gpus := 3 + r.IntN(3)
	inst.Cluster.Nodes = []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: gpus}}}}
	if r.IntN(3) == 0 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: "m", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
				Windows: []hare.Window{{StartUs: 1e6, EndUs: 4e6}}})
	}
	for i := range 2 + r.IntN(2) {
		j := hare.Job{ID: fmt.Sprint(i), WeightMicro: int64(1+r.IntN(3)) * 1e6, Rounds: int64(1 + r.IntN(2)),
			Sync:  hare.Sync(1 + r.IntN(2)),
			Tasks: int64(2 + r.IntN(gpus-1)), On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}
		if i == 0 && r.IntN(2) == 0 {
			j.Sync, j.Rounds = hare.Relaxed, 2
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// addRelaxedJobs makes some jobs relaxed, with up to four tasks and releases between
// steps.
func addRelaxedJobs(r *rand.Rand, inst *hare.Instance) {
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if r.IntN(2) == 0 {
			j.Sync, j.Mix, j.Tasks = hare.Relaxed, false, int64(1+r.IntN(4))
		}
		if j.Sync == hare.Relaxed {
			j.ReleaseUs += int64(r.IntN(4)) * 125_000
		}
	}
}

// perturbed returns a certificate like c: its grid lies on multiples of a step, its
// prices are changed, and the prices of sizes are near those of as many single GPUs, or
// above.
func perturbed(r *rand.Rand, c *hare.Certificate) *hare.Certificate {
	const step = 500_000
	out := &hare.Certificate{Method: c.Method, Objective: c.Objective, Path: r.IntN(4) > 0, GridUs: []int64{0}}
	var cells []int // the cells of c's grid
	for g := range len(c.GridUs) - 1 {
		if end := (c.GridUs[g+1] + step/2) / step * step; end > out.GridUs[len(out.GridUs)-1] {
			out.GridUs, cells = append(out.GridUs, end), append(cells, g)
		}
	}
	if len(cells) == 0 {
		out.GridUs, cells = append(out.GridUs, step), []int{0}
	}
	if r.IntN(3) > 0 {
		out.StepUs = step
	}
	move := func(x int64) int64 {
		if r.IntN(3) == 0 {
			return int64(float64(x) * (0.7 + 0.6*r.Float64()))
		}
		return x
	}
	for _, p := range c.Prices {
		q := hare.TypePrices{Type: p.Type}
		for _, g := range cells {
			q.Nanos = append(q.Nanos, move(p.Nanos[g]))
		}
		out.Prices = append(out.Prices, q)
		if r.IntN(3) == 0 {
			continue
		}
		for size := int64(2); size <= 5; size++ {
			s := hare.SizePrices{Type: p.Type, Tasks: size}
			more := []float64{1, 1, 1.2, 1.5}[r.IntN(4)]
			for _, x := range q.Nanos {
				s.Nanos = append(s.Nanos, move(int64(float64(size*x)*more)))
			}
			for _, own := range c.Sizes {
				if own.Type == p.Type && own.Tasks == size {
					for i, g := range cells {
						s.Nanos[i] = move(own.Nanos[g])
					}
				}
			}
			out.Sizes = append(out.Sizes, s)
		}
	}
	return out
}

// random returns a certificate with arbitrary prices.
func random(r *rand.Rand, inst *hare.Instance) *hare.Certificate {
	out := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT, Path: r.IntN(2) == 0,
		GridUs: []int64{0}, StepUs: 500_000}
	for range 1 + r.IntN(6) {
		out.GridUs = append(out.GridUs, out.GridUs[len(out.GridUs)-1]+int64(1+r.IntN(4))*out.StepUs)
	}
	row := func() (xs []int64) {
		for range len(out.GridUs) - 1 {
			xs = append(xs, r.Int64N(2e9)*r.Int64N(2))
		}
		return xs
	}
	for _, n := range inst.Cluster.Nodes {
		kind := n.GPUs[0].Type
		if slices.ContainsFunc(out.Prices, func(p hare.TypePrices) bool { return p.Type == kind }) {
			continue
		}
		out.Prices = append(out.Prices, hare.TypePrices{Type: kind, Nanos: row()})
		for _, size := range []int64{2, 3, 4} {
			if r.IntN(2) == 0 {
				out.Sizes = append(out.Sizes, hare.SizePrices{Type: kind, Tasks: size, Nanos: row()})
			}
		}
	}
	return out
}

// extreme returns an instance and a certificate with numbers up to the largest allowed.
func extreme(r *rand.Rand) (*hare.Instance, *hare.Certificate) {
	any := func(bits int) int64 { return r.Int64N(1 + 1<<r.IntN(bits+1)) } // a number up to 2^bits
	c := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT, Path: r.IntN(2) == 0,
		GridUs: []int64{0}, StepUs: 1 << r.IntN(40)}
	for range 1 + r.IntN(5) {
		c.GridUs = append(c.GridUs, c.GridUs[len(c.GridUs)-1]+(1+any(8))*c.StepUs)
	}
	row := func() (xs []int64) {
		for range len(c.GridUs) - 1 {
			xs = append(xs, min(any(53), hare.MaxExact))
		}
		return xs
	}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for _, kind := range []string{"A", "B"} {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: kind, GPUs: []hare.TypeCount{{Type: kind, Count: int(16 + any(13))}}})
		c.Prices = append(c.Prices, hare.TypePrices{Type: kind, Nanos: row()})
		for size := int64(2); size <= 16; size += 1 + any(4) {
			c.Sizes = append(c.Sizes, hare.SizePrices{Type: kind, Tasks: size, Nanos: row()})
		}
	}
	for i := range 2 {
		j := hare.Job{ID: fmt.Sprint(i), WeightMicro: min(any(53), hare.MaxExact), ReleaseUs: any(8)*c.StepUs +
			any(1)*r.Int64N(c.StepUs), Rounds: 1 + any(6), Tasks: 1 + r.Int64N(16), Sync: hare.Sync(r.IntN(3))}
		if j.Sync == hare.Relaxed && r.IntN(2) == 0 {
			j.Rounds, j.Tasks = 1+r.Int64N(2), 1+any(14)
		}
		for _, kind := range []string{"A", "B"} {
			p := hare.Profile{Type: kind, ComputeUs: (1 + any(5)) * c.StepUs, SyncUs: any(5) * c.StepUs}
			for p.ComputeUs+p.SyncUs > hare.MaxExact/4/j.Rounds/j.Tasks {
				j.Rounds, j.Tasks = 1+j.Rounds/2, 1+j.Tasks/2
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst, c
}

// plain returns c without sizes and steps.
func plain(c *hare.Certificate) *hare.Certificate {
	out := *c
	out.Sizes, out.StepUs = nil, 0
	return &out
}

// Certificates with sizes and steps, from good prices and from arbitrary ones, are never
// above the optimum, and both verifiers compute the same fraction.
func TestCertificatesOfSizesAndSteps(t *testing.T) {
	n := 700
	if testing.Short() {
		n = 150
	}
	python := &pythonBounds{dir: t.TempDir()}
	judged, bySizes, bySteps := 0, 0, 0
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 17))
		inst := brute.Random(r)
		if seed%2 == 0 {
			inst = tinyGangInstance(r)
		}
		addRelaxedJobs(r, inst)
		m := model.New(inst)
		opt, found, done := brute.Optimum(inst, 200_000)
		if !found || !done || len(greedy.Infeasible(m)) > 0 {
			continue
		}
		judged++
		rel, err := relax.Run(t.Context(), m, relax.Config{Method: hare.MethodPrice, Workers: 1, Cells: 24,
			Effort: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		optimum := new(big.Rat).SetFrac64(opt, 1e12)
		certs := []*hare.Certificate{random(r, inst)}
		if rel.Certificate.Method == hare.MethodPrice {
			certs = append(certs, rel.Certificate, perturbed(r, rel.Certificate), perturbed(r, rel.Certificate))
		}
		for _, c := range certs {
			bound, err := verify.Bound(inst, c)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if bound.Cmp(optimum) > 0 {
				t.Fatalf("seed %d: bound %v above the optimum %v: %+v", seed, bound, optimum, c)
			}
			python.add(t, inst, c, bound)
			fluid := *c
			fluid.StepUs = 0
			if x, err := verify.Bound(inst, &fluid); err != nil || x.Cmp(bound) < 0 {
				bySteps++
			}
			if x, err := verify.Bound(inst, plain(&fluid)); err != nil || x.Cmp(bound) < 0 {
				bySizes++
			}
		}
	}
	for seed := range uint64(n / 4) {
		inst, c := extreme(rand.New(rand.NewPCG(seed, 19)))
		bound, err := verify.Bound(inst, c)
		if err != nil {
			t.Fatalf("extreme %d: %v", seed, err)
		}
		python.add(t, inst, c, bound)
	}
	t.Logf("%d instances, %d certificates, %d better by steps, %d by sizes or steps", judged, len(python.want),
		bySteps,
		bySizes)
	if judged < n*6/10 || bySteps < n/20 || bySizes < n/10 {
		t.Errorf("of %d instances %d were judged; steps raised %d bounds, sizes or steps %d", n, judged, bySteps,
			bySizes)
	}
	python.run(t)
}

// pythonBounds collects certificates for the verifier in Python.
type pythonBounds struct {
	dir  string
	want []string
}

func (pb *pythonBounds) add(t *testing.T, inst *hare.Instance, c *hare.Certificate, bound *big.Rat) {
	t.Helper()
	stated := *c
	stated.Bound = "-1000000000.000000" // the verifier would refuse a bound that is not proved
	var doc bytes.Buffer
	cert := wire.CertificateJSON(&stated)
	if err := wire.EncodeInstance(&doc, inst); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(pb.dir, fmt.Sprint(len(pb.want)))
	if err := errors.Join(os.WriteFile(base+".instance.json", doc.Bytes(), 0o600),
		os.WriteFile(base+".certificate.json", cert, 0o600)); err != nil {
		t.Fatal(err)
	}
	pb.want = append(pb.want, bound.String())
}

const bounds = `
import json, sys
sys.path.insert(0, sys.argv[1])
import hare_verify
names = ["%s/%d." % (sys.argv[2], i) for i in range(int(sys.argv[3]))]
print(json.dumps([hare_verify.run([n + "instance.json", n + "certificate.json"],
	True)["bound_exact"] for n in names]))
`

func (pb *pythonBounds) run(t *testing.T) {
	var said bytes.Buffer
	cmd := exec.Command("python3", "-B", "-c", bounds, "../verify", pb.dir, fmt.Sprint(len(pb.want)))
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hare_verify.py: %v\n%s", err, said.Bytes())
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != pb.want[i] {
			t.Fatalf("certificate %d: hare_verify.py proves %s, package verify %s", i, x, pb.want[i])
		}
	}
}
