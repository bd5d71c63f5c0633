package sim_test

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// BenchmarkRun simulates 1,000 jobs of each sync on 100 GPUs under HLAS; an
// operation is the whole run.
func BenchmarkRun(b *testing.B) {
	for sync := hare.Relaxed; sync <= hare.Rigid; sync++ {
		b.Run(sync.String(), func(b *testing.B) {
			inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
				{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 50}}}, {Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 50}}},
			}}}
			for i := range int64(1000) {
				inst.Jobs = append(inst.Jobs, hare.Job{
					ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: i * 1e6, Rounds: 20 + i%50, Tasks: 1 + i%4, Sync: sync,
					On: []hare.Profile{{Type: "A", ComputeUs: 1e6 + i%7*1e5, SyncUs: 2e5}, {Type: "B", ComputeUs: 2e6 + i%5*1e5, SyncUs: 2e5}},
				})
			}
			var events int64
			for b.Loop() {
				p, err := online.NewHLAS(sim.Cluster(inst), online.HLASConfig{ThresholdsUs: []int64{30e6}})
				if err != nil {
					b.Fatal(err)
				}
				out, err := sim.Run(b.Context(), inst, p, sim.Config{})
				if err != nil {
					b.Fatal(err)
				}
				events += out.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
