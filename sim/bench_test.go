package sim_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// BenchmarkRun simulates 1,000 jobs of each synchronisation rule on 100 GPUs under HLAS. An
// operation is a whole run.
func BenchmarkRun(b *testing.B) { benchmarkRun(b, sim.Config{}) }

// BenchmarkRunVaried is BenchmarkRun with faults, failures, switches and a network.
func BenchmarkRunVaried(b *testing.B) {
	benchmarkRun(b, sim.Config{
		FaultRate: sim.FaultRate{GPUMeanUs: 3600e6,
			GPURepairUs: 60e6}, Failures: sim.FailureRate{Probability: 0.001}, SwitchUs: 500_000,
		Network: sim.Network{InterBytesPerS: 1e9, IntraBytesPerS: 1e10,
			Bytes: func(*hare.Job) int64 { return 1e8 }}, Stretch: halves{},
	})
}

// BenchmarkRunOnEachCore runs one simulation on each core at the same time, as `hare simulate
// --parallel` does. It reports the events per second of all simulations together.
func BenchmarkRunOnEachCore(b *testing.B) {
	for sync := hare.Relaxed; sync <= hare.Rigid; sync++ {
		b.Run(sync.String(), func(b *testing.B) {
			inst := benchInstance(sync)
			var events atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					events.Add(benchOnce(b, inst, sim.Config{}))
				}
			})
			b.ReportMetric(float64(events.Load())/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func benchmarkRun(b *testing.B, cfg sim.Config) {
	for sync := hare.Relaxed; sync <= hare.Rigid; sync++ {
		b.Run(sync.String(), func(b *testing.B) {
			inst := benchInstance(sync)
			var events int64
			for b.Loop() {
				events += benchOnce(b, inst, cfg)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func benchInstance(sync hare.Sync) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 50}}}, {Name: "b",
			GPUs: []hare.TypeCount{{Type: "B", Count: 50}}},
	}}}
	for i := range int64(1000) {
		inst.Jobs = append(inst.Jobs, hare.Job{
			ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: i * 1e6, Rounds: 20 + i%50, Tasks: 1 + i%4,
			Sync: sync,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6 + i%7*1e5, SyncUs: 2e5},
				{Type: "B", ComputeUs: 2e6 + i%5*1e5, SyncUs: 2e5}},
		})
	}
	return inst
}

// benchOnce simulates inst under HLAS and returns the number of events.
func benchOnce(b *testing.B, inst *hare.Instance, cfg sim.Config) int64 {
	p, err := online.NewHLAS(sim.Cluster(inst), online.HLASConfig{ThresholdsUs: []int64{30e6}})
	if err != nil {
		b.Error(err)
		return 0
	}
	out, err := sim.Run(b.Context(), inst, p, cfg)
	if err != nil {
		b.Error(err)
		return 0
	}
	return out.Events
}

// BenchmarkMerged simulates 100 gang and rigid jobs on 32 GPUs under HLAS. Each job has 10^8
// rounds of a millisecond, which are merged.
func BenchmarkMerged(b *testing.B) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 32}}}}}}
	for i := range int64(100) {
		inst.Jobs = append(inst.Jobs, hare.Job{
			ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: i * 1000e6, Rounds: 100_000_000, Tasks: 1 + i%4,
			Sync: hare.Gang + hare.Sync(i%2),
			On:   []hare.Profile{{Type: "A", ComputeUs: 900, SyncUs: 100}},
		})
	}
	var events int64
	for b.Loop() {
		m := sim.Merge(inst, 0)
		p, err := online.NewHLAS(sim.Cluster(m.Inst), online.HLASConfig{})
		if err != nil {
			b.Fatal(err)
		}
		out, err := m.Run(b.Context(), p, sim.Config{})
		if err != nil {
			b.Fatal(err)
		}
		events += out.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
