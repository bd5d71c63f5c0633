package study

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/trace"
)

// World holds the disturbances of a simulation: faults, failures, stragglers and the
// cost of switching jobs. In the zero World every task takes the time of its profile.
type World struct {
	// Faults take GPUs or nodes out of service at given times, and FaultRate does so
	// at random. Leases have no random faults of nodes. A cluster that is given as GPU
	// counts has one node for each type, whose name is the type's in lower case.
	Faults    []sim.Fault
	FaultRate sim.FaultRate
	// Failures make tasks fail and start again. Leases have no tasks.
	Failures sim.FailureRate
	// Stragglers stretches every task as Alibaba measured training steps to vary
	// (trace.MiniBatch). Leases have no tasks.
	Stragglers bool
	// SwitchS is the time, in seconds, that is lost when a GPU begins a task of
	// another job than before. Leases lose Request.RestartS instead.
	SwitchS float64
}

// check finds values that are not possible, and disturbances that the engine of a
// policy does not simulate.
func (w *World) check(infos []policy.Info, bad func(pointer, code, format string, a ...any)) {
	if !(w.SwitchS >= 0 && w.SwitchS <= hare.MaxExact/1e6) { // also NaN
		bad("/switch_s", "out_of_range", "a switch takes from 0 to 2^53 µs")
	}
	for _, p := range infos {
		if p.Engine != policy.Lease { // of elastic policies checkElastic says what is not there
			continue
		}
		var what, at string
		switch {
		case w.Failures != (sim.FailureRate{}):
			what, at = "failing tasks", "/failures"
		case w.Stragglers:
			what, at = "stragglers", "/stragglers"
		case w.FaultRate.NodeMeanUs != 0:
			what, at = "faults of whole nodes by chance", "/fault_rate"
		default:
			continue
		}
		bad(at, "needs_tasks", "%s are not simulated for policy %s, which places no tasks: ask for policies of "+
			"tasks alone",
			what, p.Name)
		return
	}
}

// varied reports whether tasks take other times than those of their profiles. Then a
// run is no schedule of the instance, and the verifier cannot check the run.
func (w *World) varied() bool { return w.Stragglers }

// tasks configures the task engine.
func (w *World) tasks(cfg *sim.Config, seed uint64) error {
	cfg.Seed, cfg.Faults, cfg.FaultRate, cfg.Failures = seed, w.Faults, w.FaultRate, w.Failures
	cfg.SwitchUs = int64(math.Round(w.SwitchS * 1e6))
	if w.Stragglers {
		times, err := trace.MiniBatchTimes()
		if err != nil {
			return err
		}
		cfg.Stretch = times
	}
	return nil
}

// leases configures the lease engine, which numbers the GPUs of a type across all
// nodes of the cluster.
func (w *World) leases(cfg *sim.LeaseConfig, cluster *hare.Cluster) error {
	r := w.FaultRate
	cfg.FaultRate = sim.LeaseFaultRate{MeanS: float64(r.GPUMeanUs) / 1e6, RepairS: float64(r.GPURepairUs) / 1e6}
	if len(w.Faults) == 0 {
		return nil
	}
	places := map[string][]string{} // type/index by node/index and by node
	count := map[string]int{}
	for _, n := range cluster.Nodes {
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				place := fmt.Sprintf("%s/%d", g.Type, count[g.Type])
				id := fmt.Sprintf("%s/%d", n.Name, at)
				places["gpu "+id] = []string{place}
				places["node "+n.Name] = append(places["node "+n.Name], place)
				count[g.Type]++
				at++
			}
		}
	}
	for i, f := range w.Faults {
		who := "gpu " + f.GPU
		if f.GPU == "" {
			who = "node " + f.Node
		}
		if (f.GPU == "") == (f.Node == "") || places[who] == nil {
			return invalidAt(fmt.Sprintf("/faults/%d", i), "unknown_gpu",
				"there is no %.60s in the cluster: name a GPU as node/index, or a node", who)
		}
		until := math.Inf(1)
		if f.UntilUs != hare.Forever {
			until = float64(f.UntilUs) / 1e6
		}
		for _, place := range places[who] {
			cfg.Faults = append(cfg.Faults, sim.LeaseFault{GPU: place, FromS: float64(f.FromUs) / 1e6, UntilS: until})
		}
	}
	return nil
}

// note says whether the verifier can check runs in this world.
func (w *World) note() []string {
	if w.varied() {
		return []string{"tasks: stragglers make tasks take other times than their profiles say, so runs are no " +
			"schedules " +
			"of the instance: the engine checks them, the verifier cannot"}
	}
	return nil
}
