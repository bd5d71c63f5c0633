package rolling_test

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Parameters that make no sense are refused by their place.
func TestParametersOfPlansAndIndices(t *testing.T) {
	cluster := transcript.Cluster("n=1V100")
	for _, c := range []struct{ policy, parameters, pointer string }{
		{"rolling", `{"migration_s": 30, "moves": 0}`, ""},
		{"rolling", `{"migration_s": -1}`, "/migration_s"},
		{"rolling", `{"wait_for_plan": true}`, "/wait_for_plan"},
		{"rolling", `{"switch_s": 0}`, ""},
		{"rolling", `{"switch_s": 12.5}`, ""},
		{"rolling", `{"switch_s": -1}`, "/switch_s"},
		{"rolling", `{"switch_s": 86401}`, "/switch_s"},
		{"rolling", `{"switch_s": 0.0000001}`, "/switch_s"},
		{"rolling", `{"moves": -1}`, "/moves"},
		{"rolling", `{"moves": 2000000000}`, "/moves"},
		{"rolling", `{"plan_every_s": 0, "aside": true}`, ""},
		{"rolling", `{"plan_every_s": 86400}`, ""},
		{"rolling", `{"plan_every_s": -1}`, "/plan_every_s"},
		{"rolling", `{"plan_every_s": 86400.5}`, "/plan_every_s"},
		{"rolling", `{"plan_every_s": 1e300}`, "/plan_every_s"},
		{"rolling", `{"plan_every_s": 0.0000001}`, "/plan_every_s"},
		{"hgittins", `{"slowest_factor": 2.5, "sticky": false, "strict": true}`, ""},
		{"hgittins", `{"slowest_factor": 0.5}`, "/slowest_factor"},
		{"hgittins", `{"by_arrival": 1}`, "/by_arrival"},
		{"hgittins", `{"guard": false}`, ""},
		{"rolling", `{"kappa": 0.1, "guard": true}`, ""},
		{"rolling", `{"kappa": 0}`, "/kappa"},
		{"rolling", `{"kappa": 1e7}`, "/kappa"},
		{"hgittins", `{"kappa": -1}`, "/kappa"},
		{"hgittins", `{"kappa": 1e400}`, "/kappa"},
		{"hgittins", `{"kappa": 4, "guard": false}`, "/kappa"},
		{"hgittins", `{"guard": "no"}`, "/guard"},
		{"hgittins", `{"fifo_slowdown": 1.2, "kappa": 4}`, ""},
		{"rolling", `{"fifo_slowdown": 0}`, ""},
		{"rolling", `{"fifo_slowdown": 0, "guard": false}`, "/fifo_slowdown"},
		{"rolling", `{"fifo_slowdown": 0.01}`, "/fifo_slowdown"},
		{"hgittins", `{"fifo_slowdown": 1e7}`, "/fifo_slowdown"},
		{"rolling", `{"fifo_slowdown": 1, "guard": false}`, "/fifo_slowdown"},
	} {
		_, err := registry.OpenSession(c.policy, cluster, []byte(c.parameters))
		pointer := ""
		if err != nil {
			invalid, ok := err.(*hare.InvalidError)
			if !ok {
				t.Fatalf("%s of %s: %v", c.parameters, c.policy, err)
			}
			pointer = invalid.Pointer
		}
		if pointer != c.pointer {
			t.Errorf("%s of %s: %v, want a fault at %q", c.parameters, c.policy, err, c.pointer)
		}
	}
}

// A short job that comes when a long one runs round by round goes first once jobs that
// ended have shown that new jobs are short, under both policies.
func TestLearnedSizesDecide(t *testing.T) {
	lines := "nodes n=1V100"
	for i := range 8 {
		lines += fmt.Sprintf("\njobs short%d gang 2x1 V100:1 at=%d", i, 3*i)
	}
	inst := transcript.Instance(lines + "\njobs long gang 100x1 V100:1 at=30, late gang 2x1 V100:1 at=60")
	for name, p := range map[string]online.Policy{
		"rolling":  rolling.New(&inst.Cluster, rolling.Config{}),
		"hgittins": rolling.NewHGittins(&inst.Cluster, rolling.HGittinsConfig{}),
	} {
		out, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if end := out.Jobs[len(out.Jobs)-1].EndUs; end > 64e6 {
			t.Errorf("%s: the late short job ends at %d µs", name, end)
		}
	}
}

// Times that cannot be added up leave no plan, and jobs run all the same.
func TestLongestTimes(t *testing.T) {
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		p := rolling.New(transcript.Cluster("n=2V100"), rolling.Config{})
		started := 0
		step := func(atUs int64, e hare.Event) {
			decisions, err := p.Step(atUs, []hare.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			started += len(decisions)
		}
		for _, id := range []string{"a", "b", "c"} {
			step(0, hare.Event{Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, WeightMicro: 1e6,
				Tasks: 1, Sync: sync,
				On: []hare.Profile{{Type: "V100", ComputeUs: hare.MaxExact - 1, SyncUs: 1}}}})
		}
		step(1, hare.Event{Type: hare.EventTick})
		if started != 2 {
			t.Errorf("%v: %d tasks start on 2 GPUs", sync, started)
		}
	}
}
