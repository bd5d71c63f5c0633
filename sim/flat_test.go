package sim_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// Ten times the rounds must not take more memory: rounds that follow each other
// are one entry of the plan. Jobs that take turns on GPUs, as relaxed ones do
// while they synchronise, add an entry a turn; so none take turns here.
func TestMemoryIsFlatInTime(t *testing.T) {
	for sync := hare.Relaxed; sync <= hare.Rigid; sync++ {
		allocated := func(rounds int64) uint64 {
			inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 8}}}}}}
			syncUs := int64(1e5)
			if sync == hare.Relaxed {
				syncUs = 0
			}
			for i := range 4 {
				inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint(i), WeightMicro: 1e6, Rounds: rounds, Tasks: 2, Sync: sync, On: []hare.Profile{{Type: "A", ComputeUs: 1e6 + int64(i)*1e5, SyncUs: syncUs}}})
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := online.NewHLAS(sim.Cluster(inst), online.HLASConfig{})
			if err != nil {
				t.Fatal(err)
			}
			o, err := sim.Run(t.Context(), inst, p, sim.Config{})
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if o.Tasks != 8*rounds {
				t.Fatal(o.Tasks)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		short, long := allocated(1_000), allocated(10_000)
		t.Logf("%v: %d and %d bytes", sync, short, long)
		if long > short+4096 {
			t.Errorf("%v: %d bytes for 1,000 rounds a job, %d for 10,000", sync, short, long)
		}
	}
}
