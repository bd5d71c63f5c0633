package sim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// A run ends with an error if GPUs and tasks fail so often that nothing can ever end.
func TestNothingEverEnds(t *testing.T) {
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		inst := &hare.Instance{Cluster: nodes(2), Jobs: []hare.Job{{ID: "x", Tasks: 1, Rounds: 2, Sync: sync,
			On: onA(10e6, 0)}}}
		_, err := sim.Run(t.Context(), inst, fifo(t, inst),
			sim.Config{FaultRate: sim.FaultRate{GPUMeanUs: 1000, GPURepairUs: 1e6}})
		if !errors.Is(err, sim.ErrStalled) || !strings.Contains(err.Error(),
			"no task ended: let GPUs fail more rarely") {
			t.Errorf("%v: %v", sync, err)
		}
		_, err = sim.Run(t.Context(), inst, fifo(t, inst), sim.Config{Failures: sim.FailureRate{PerGPUHour: 1e9}})
		if !errors.Is(err, sim.ErrStalled) || !strings.Contains(err.Error(), `job "x"`) ||
			!strings.Contains(err.Error(), "lower the rate of failures") {
			t.Errorf("%v: %v", sync, err)
		}
	}
}
