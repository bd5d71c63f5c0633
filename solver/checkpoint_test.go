package solver_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// mixes returns instances for each kind of search: with gang jobs, with relaxed jobs,
// and with both.
func mixes(n int) map[string]*hare.Instance {
	out := map[string]*hare.Instance{}
	for name, syncs := range map[string][]hare.Sync{"gang": {hare.Gang}, "relaxed": {hare.Relaxed},
		"mixed": {hare.Gang, hare.Relaxed, hare.Rigid}} {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "T4", Count: 3}, {Type: "V100", Count: 2}}},
		}}}
		for i := range n {
			p := int64(1_000_000 + 137_000*(i*i%23))
			inst.Jobs = append(inst.Jobs, hare.Job{
				ID: string(rune('a'+i/26)) + string(rune('a'+i%26)), WeightMicro: int64(1+i%3) * 1_000_000,
				ReleaseUs: int64(i%7) * 900_000, Rounds: int64(1 + i%4), Tasks: int64(1 + i%2),
				Sync: syncs[i%len(syncs)], On: []hare.Profile{{Type: "T4", ComputeUs: 2 * p, SyncUs: 40_000},
					{Type: "V100", ComputeUs: p, SyncUs: 40_000}},
			})
		}
		out[name] = inst
	}
	return out
}

// Taking every checkpoint does not change the answer. Each checkpoint is a verified pair
// and not better than the end, and some are better than the start of the search.
func TestCheckpointsChangeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	for name, work := range map[string]int64{"gang": 20_000, "relaxed": 600, "mixed": 3000} {
		t.Run(name, func(t *testing.T) {
			inst := mixes(map[string]int{"gang": 30, "relaxed": 8, "mixed": 9}[name])[name]
			opt := hare.Options{Seed: 3, WorkLimit: work}
			solve := func(cfg solver.Config) (*hare.Result, string) {
				cfg.Workers = 1
				res, err := solver.Solve(context.Background(), inst, opt, cfg)
				if err != nil {
					t.Fatal(err)
				}
				timed := *res
				timed.Timing = hare.Timing{}
				var b bytes.Buffer
				if err := wire.EncodeResult(&b, &timed); err != nil {
					t.Fatal(err)
				}
				return res, b.String()
			}
			_, want := solve(solver.Config{})
			var taken []*hare.Result
			calls := 0
			res, got := solve(solver.Config{Progress: func(solver.Event) {},
				Checkpoint: func(best func() (*hare.Result, error)) {
					if calls++; calls > 20 && calls%40 != 0 {
						return
					}
					r, err := best()
					if err != nil {
						t.Fatal(err)
					}
					taken = append(taken, r)
				}})
			if got != want {
				t.Errorf("with checkpoints\n%s\nwithout\n%s", got, want)
			}
			values := map[string]bool{}
			for _, r := range taken {
				if rep := verify.Check(inst, r); !rep.OK {
					t.Fatal(rep)
				}
				if r.Value.Cmp(*res.Value) < 0 || r.Bound.Cmp(*res.Bound) > 0 {
					t.Fatalf("a checkpoint of %v, %v; at the end %v, %v", r.Value, r.Bound, res.Value, res.Bound)
				}
				values[r.Value.String()] = true
			}
			if len(values) < 2 {
				t.Errorf("%d calls, %d taken, of %d values", calls, len(taken), len(values))
			}
		})
	}
}

// The first checkpoint already has a bound, also under a time limit, where the solve has a
// schedule before it has a bound. A solve that is cancelled after its process was killed
// answers with its last checkpoint, so each checkpoint must have a bound.
func TestTheFirstCheckpointHasABound(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var first *hare.Result
	_, err := solver.Solve(ctx, mixes(8)["gang"], hare.Options{TimeLimit: time.Minute},
		solver.Config{Workers: 1, Checkpoint: func(best func() (*hare.Result, error)) {
			if first != nil {
				return
			}
			cancel() // the test needs only the first checkpoint
			var err error
			if first, err = best(); err != nil {
				t.Fatal(err)
			}
		}})
	if err != nil || first == nil || first.Value == nil || first.Bound == nil || first.Certificate == nil {
		t.Errorf("%v: %+v", err, first)
	}
}
