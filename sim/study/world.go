package study

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// checkWorld finds values that are not possible, and disturbances that the engine of a
// policy does not simulate.
func (rq *request) checkWorld(infos []registry.Info, bad func(pointer, code, format string, a ...any)) {
	if rq.SwitchUs < 0 || rq.SwitchUs > hare.MaxExact {
		bad("/switch_s", "out_of_range", "a switch takes from 0 to 2^53 µs")
	}
	if rq.PlanLatencyUs < 0 || rq.PlanLatencyUs > hare.MaxExact {
		bad("/plan_latency_s", "out_of_range", "a plan takes from 0 to 2^53 µs")
	}
	for _, p := range infos {
		if p.Engine != registry.Lease { // checkElastic and checkShared say what is not there for others
			continue
		}
		var what, at string
		switch {
		case rq.Failures != (simulatedoc.Failures{}):
			what, at = "failing tasks", "/failures"
		case rq.Stragglers:
			what, at = "stragglers", "/stragglers"
		case rq.FaultRate.NodeMeanUs != 0:
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

// disturbTasks configures the task engine.
func (rq *request) disturbTasks(cfg *sim.Config, seed uint64) error {
	cfg.Seed, cfg.SwitchUs, cfg.PlanLatencyUs = seed, rq.SwitchUs, rq.PlanLatencyUs
	cfg.FaultRate, cfg.Failures = sim.FaultRate(rq.FaultRate), sim.FailureRate(rq.Failures)
	for _, f := range rq.Faults {
		cfg.Faults = append(cfg.Faults, sim.Fault(f))
	}
	if rq.Stragglers {
		times, err := trace.MiniBatchTimes()
		if err != nil {
			return err
		}
		cfg.Stretch = times
	}
	return nil
}

// disturbLeases configures the lease engine, which numbers the GPUs of a type across all
// nodes of the cluster.
func (rq *request) disturbLeases(cfg *leases.RunConfig, cluster *hare.Cluster) error {
	cfg.FaultRate = leases.FaultRate{MeanS: seconds(rq.FaultRate.GPUMeanUs),
		RepairS: seconds(rq.FaultRate.GPURepairUs)}
	if len(rq.Faults) == 0 {
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
	for i, f := range rq.Faults {
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
			cfg.Faults = append(cfg.Faults, leases.Fault{GPU: place, FromS: float64(f.FromUs) / 1e6, UntilS: until})
		}
	}
	return nil
}

// worldNote says where the verifier cannot check runs: stragglers make tasks take
// other times than those of their profiles, so that a run is not a schedule of the
// instance.
func (rq *request) worldNote() []string {
	if rq.Stragglers {
		return []string{"tasks: stragglers make tasks take other times than their profiles say, so runs are no " +
			"schedules of the instance: the engine checks them, the verifier cannot"}
	}
	return nil
}
