package policies_test

import (
	"math"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Under every policy of leases, all jobs of a trace end on GPUs that fail and return. Each step
// is done once, and the time that faults cost is counted. A second run gives the same outcome.
func TestLeasePoliciesUnderFaults(t *testing.T) {
	rated := read(t, "artifact_evaluation", "gavel_throughputs_colocated.csv", "v100=4,p100=4,k80=4")
	jobs := leaseJobs(rated)
	entities := []*leases.Entity{{Name: "a", Weight: 1}, {Name: "b", Weight: 2, FIFO: true}}
	for i := range jobs {
		jobs[i].Entity = entities[i%2]
		jobs[i].GPUs = 1 // AlloX only takes jobs of one GPU; the rates of wider jobs serve as well
	}
	cluster := leases.Cluster{Types: rated.Types, GPUs: rated.GPUs}
	cfg := leases.RunConfig{
		FaultRate: leases.FaultRate{MeanS: 2000, RepairS: 300}, Seed: 6,
		PairRates: func(a, b *leases.Job, k int) (float64, float64) {
			return rated.PairRates(a.Kind, b.Kind, a.GPUs, k)
		},
	}
	for _, info := range registry.All() {
		if info.Engine != registry.Lease {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			var before float64
			for range 2 {
				o, err := leases.Run(t.Context(), info.Name, cluster, jobs,
					info.New(leases.Config{Solver: new(lp.Simplex)}),
					cfg)
				if err != nil {
					t.Fatal(err)
				}
				m := o.Metrics(cluster, jobs)
				if o.Cut == 0 || o.Dropped > 0 || m.DownS == 0 || m.LostS == 0 || m.Jobs != len(jobs) ||
					!(m.Utilization > 0 &&
						m.Utilization <= 1+1e-9) {
					t.Errorf("%d leases cut, %d dropped, %+v", o.Cut, o.Dropped, m)
				}
				for i, j := range o.Jobs {
					if j.StepsRun != jobs[i].Steps || j.EndS < j.StartS || j.StartS < j.ArrivalS {
						t.Errorf("%+v of %d steps", j, jobs[i].Steps)
					}
				}
				if before != 0 && math.Float64bits(before) != math.Float64bits(m.MeanJCTS) {
					t.Errorf("mean JCT %v, then %v", before, m.MeanJCTS)
				}
				before = m.MeanJCTS
			}
		})
	}
}
