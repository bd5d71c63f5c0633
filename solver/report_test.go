package solver

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// The parts of a gap report add up to value − bound, for every kind of job.
func TestGapReportAddsUp(t *testing.T) {
	if testing.Short() {
		t.Skip("the report is made by one goroutine")
	}
	seeds, syncs := uint64(4), []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid, 9}
	for seed := range seeds {
		for _, sync := range syncs {
			inst, err := trace.Generate(trace.GenerateConfig{Jobs: 20, Seed: seed,
				GPUs: []hare.TypeCount{{Type: "V100", Count: 18}, {Type: "K80", Count: 21}}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range inst.Jobs {
				inst.Jobs[i].Sync = sync
				if sync == 9 { // the jobs are of all modes
					inst.Jobs[i].Sync = []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid}[i%3]
				}
			}
			t.Run(fmt.Sprint(seed, sync), func(t *testing.T) {
				res, err := Solve(t.Context(), inst, hare.Options{WorkLimit: 3_000},
					Config{Ablation: Ablation{Branch: sync == hare.Rigid}}) // a tree has no report
				if err != nil {
					t.Fatal(err)
				}
				g := res.GapReport
				if g == nil {
					t.Fatal("no report")
				}
				if (res.Certificate.Method == hare.MethodBranch) != (sync == hare.Gang) {
					t.Errorf("the bound is by %s", res.Certificate.Method)
				}
				gap := res.Value.Float() - res.Bound.Float()
				if math.Abs(g.Excess-gap) > 1e-4*gap+1e-5 || math.Abs(g.ReducedCost+g.IdleCapacity-g.Excess) > 1e-5 {
					t.Errorf("excess %v of reduced cost %v and idle capacity %v; value − bound is %v", g.Excess,
						g.ReducedCost,
						g.IdleCapacity, gap)
				}
				idle := 0.0
				for _, x := range g.IdleByType {
					idle += x.Idle
				}
				if len(g.IdleByType) != 2 || math.Abs(idle-g.IdleCapacity) > 1e-5 ||
					len(g.Jobs) != hare.MaxReportedJobs ||
					g.Jobs[0].ReducedCost < g.Jobs[1].ReducedCost {
					t.Errorf("%+v", g)
				}
			})
		}
	}
}

// The report of a run of a million rounds does not price each round.
func TestLongRunsAreReportedAtOnce(t *testing.T) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 12, Seed: 1,
		GPUs: []hare.TypeCount{{Type: "V100", Count: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range inst.Jobs {
		inst.Jobs[i].Rounds = 1e6 + int64(i)
	}
	began := time.Now()
	res, err := Solve(t.Context(), inst, hare.Options{WorkLimit: 300}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	gap := res.Value.Float() - res.Bound.Float()
	if g := res.GapReport; g == nil || math.Abs(g.Excess-gap) > 1e-3*gap {
		t.Errorf("%+v, value − bound is %v", g, gap)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}
