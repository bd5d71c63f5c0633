package policies_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Under every policy of leases, random jobs on random clusters end with all their steps done.
// The engine would refuse a policy that uses more GPUs than there are.
func TestLeasePoliciesEndAllJobs(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 6
	}
	for _, p := range registry.All() {
		if p.Engine != registry.Lease {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			for seed := range seeds {
				r := rand.New(rand.NewPCG(seed, 13))
				cluster := leases.Cluster{Types: []string{"K80", "P100", "V100"},
					GPUs: []int{1 + r.IntN(4), 1 + r.IntN(4),
						1 + r.IntN(4)}}
				entities := []*leases.Entity{{Name: "a", Weight: 1}, {Name: "b", Weight: 2.5, FIFO: true}}
				var jobs []leases.Job
				atS := 0.0
				for i := range 1 + r.IntN(14) {
					j := leases.Job{
						ID: fmt.Sprint("j", i), ArrivalS: atS, Weight: float64(1 + r.IntN(5)),
						GPUs:  1 + r.IntN(slices.Max(cluster.GPUs)),
						Steps: 100 + int64(r.IntN(50_000)), Rate: []float64{1 + r.Float64(), 2 + 5*r.Float64(),
							3 + 20*r.Float64()},
						SLO: float64(r.IntN(3)) * r.Float64() * 4, Entity: entities[r.IntN(2)],
					}
					if p.Needs.OneGPU {
						j.GPUs = 1
					}
					for k := range j.Rate { // the job cannot run on some types, e.g. on those with too few GPUs
						if cluster.GPUs[k] < j.GPUs ||
							r.IntN(4) == 0 && k < 2 && slices.Max(cluster.GPUs[k+1:]) >= j.GPUs {
							j.Rate[k] = 0
						}
					}
					atS += float64(r.IntN(3)) * 900 * r.Float64()
					jobs = append(jobs, j)
				}
				cfg := leases.RunConfig{PairRates: func(a, b *leases.Job, k int) (float64, float64) {
					return 0.7 * a.Rate[k],
						0.7 * b.Rate[k]
				}}
				o, err := leases.Run(t.Context(), p.Name, cluster, jobs, p.New(leases.Config{}), cfg)
				if p.Name == "gavel:fifo" && errors.Is(err, sim.ErrStalled) {
					continue // as in Gavel, the policy may give a job a share of a type with too few GPUs
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for i, j := range o.Jobs {
					if !j.Dropped && (j.StepsRun != jobs[i].Steps || j.EndS < jobs[i].ArrivalS) {
						t.Errorf("seed %d: %+v of %d steps", seed, j, jobs[i].Steps)
					}
				}
			}
		})
	}
}
