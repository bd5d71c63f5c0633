package verify_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// extremeDocuments returns results of jobs that may change their shape and have weights up to
// 2^53, with certificates that state just what they prove, and the least decimal above. Of the
// prices some lie so close together that floats cannot say where the dual of φ is greatest.
func extremeDocuments(t *testing.T) (out []documents) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed+160+otherDocuments(), 62))
		weight := int64(hare.MaxExact)>>r.IntN(30) - r.Int64N(3)
		job := hare.Job{ID: "x", WeightMicro: weight, Rounds: 1 + r.Int64N(1<<20), Sync: hare.Gang, Reshape: true}
		for range 2 + r.IntN(2) {
			s := hare.Shape{Tasks: 1 + r.Int64N(2), GPUsPerTask: 1, Counts: 1 + r.Int64N(3)}
			for _, kind := range []string{"A", "B"} {
				s.On = append(s.On, hare.Profile{Type: kind, ComputeUs: 1 + r.Int64N(1<<20)})
			}
			job.Shapes = append(job.Shapes, s)
		}
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Jobs: []hare.Job{job}, Cluster: hare.Cluster{
			Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}, {Type: "B", Count: 2}}}}}}
		rounds := (job.Rounds-1)/job.Shapes[0].Counts + 1
		period := job.Shapes[0].On[0].ComputeUs
		plan := &hare.Schedule{Jobs: []string{"x"}}
		for gpu := range job.Shapes[0].Tasks {
			plan.Lanes = append(plan.Lanes, hare.Lane{GPU: fmt.Sprintf("a/%d", gpu), Job: []int32{0}, Round: []int64{0},
				Rounds: []int64{rounds}, Tasks: []int64{1}, PeriodUs: []int64{period}, StartUs: []int64{0}, Shape: []int64{0}})
		}
		value := hare.Product(weight, rounds*period)
		cert := &hare.Certificate{Method: hare.MethodPrice, Objective: inst.Objective, Path: true, GridUs: []int64{0}}
		for g := range int64(3) {
			cert.GridUs = append(cert.GridUs, cert.GridUs[g]+1+r.Int64N(rounds*period/2))
		}
		near := int64(hare.MaxExact) >> r.IntN(4)
		for _, kind := range []string{"A", "B"} {
			p := hare.TypePrices{Type: kind}
			for range 3 {
				p.Nanos = append(p.Nanos, near-r.Int64N(3))
			}
			cert.Prices = append(cert.Prices, p)
		}
		low, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		bound, ok := hare.FloorAmount(low)
		if !ok {
			t.Fatalf("seed %d proves %v", seed, low)
		}
		for _, more := range []int64{0, 1} {
			stated := bound.Add(hare.Product(1e6, more))
			one := *cert
			one.Bound = stated.Bound6()
			res := &hare.Result{Objective: inst.Objective, Status: hare.StatusSucceeded, Value: &value, Bound: &stated,
				Schedule: plan, Certificate: &one, Options: hare.Options{Detail: "lanes"},
				InstanceSHA256: wire.SHA256(inst)}
			x := documents{name: fmt.Sprintf("extreme %d, %d above", seed, more), instance: instanceText(t, inst),
				result: resultText(t, res)}
			if code, said := goVerdict(&x); (code == 0) != (more == 0) {
				t.Errorf("%s: %d, %s", x.name, code, said)
			}
			out = append(out, x)
		}
	}
	return out
}
