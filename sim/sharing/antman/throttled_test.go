package antman

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// The shares of the opportunistic job by hand are 0, .05, .1 and .15 from 0, 10, 20 and 30 s on. Then
// each increase makes the GPU too busy, until .10625 is within the tolerance, and .15625 from 100 s on
// is again too much.
func TestThrottlingByHand(t *testing.T) {
	jobs := []Job{{ID: "g", GPUs: 1, WorkS: 100, Busy: .9, MemoryGiB: 1},
		{ID: "o", GPUs: 1, WorkS: 1000, Busy: .5, MemoryGiB: 1, Opportunistic: true}}
	o := play(t, Cluster{Nodes: 1, NodeGPUs: 1, MemoryGiB: 16}, jobs, Config{Sharing: Throttled, MaxBusy: 1})
	done := 30 + 10/1.05 + 10 + 10/1.025 + 10 + 10/1.0125 + 10 + 10/1.00625
	if want := 100 + (100-done)*1.05625; math.Abs(o.Records[0].EndS-want) > 1e-6 {
		t.Errorf("the guaranteed job ends at %v s, want %v", o.Records[0].EndS, want)
	}
}

// A share grows only where the guaranteed job is not slow, by one step at most: no guaranteed job is
// slowed by more than the tolerance and a step. Opportunistic jobs end, too.
func TestThrottlingBoundsSlowdown(t *testing.T) {
	c := Cluster{Nodes: 3, NodeGPUs: 4, MemoryGiB: 16}
	slowed := 0
	for seed := range uint64(40) {
		jobs := workload(rand.New(rand.NewPCG(seed, 3)), 60)
		cfg := Config{Sharing: Throttled, Opportunists: 1 + int(seed%3), MaxBusy: 1, ControlS: 1 + float64(seed%7)}
		o := play(t, c, jobs, cfg)
		for _, r := range o.Records {
			if !r.Opportunistic && (r.Slowdown > 1.06+1e-9 || r.Slowdown < 1-1e-9) ||
				math.IsInf(r.EndS, 0) || r.EndS <= r.StartS {
				t.Errorf("seed %d: %+v", seed, r)
			}
			if !r.Opportunistic && r.Slowdown > 1+1e-9 {
				slowed++
			}
		}
		if !reflect.DeepEqual(o, play(t, c, jobs, cfg)) {
			t.Errorf("seed %d: a second run differs", seed)
		}
	}
	if slowed == 0 {
		t.Error("no job was slowed at all, so that nothing was measured")
	}
}

func TestThrottlingRefusals(t *testing.T) {
	for _, cfg := range []Config{{ControlS: -1}, {ControlS: math.NaN()}, {ControlStep: 2}, {ControlStep: -1},
		{Tolerance: -1}, {Tolerance: math.Inf(1)}} {
		cfg.Sharing = Throttled
		if _, err := Run(context.Background(), Cluster{Nodes: 1, NodeGPUs: 1, MemoryGiB: 1}, nil, cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
