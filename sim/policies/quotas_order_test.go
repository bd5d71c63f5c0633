package policies_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// heldByQuota is a cluster of 8 GPUs of which ann may hold 4. She has one job of 4 GPUs that runs
// at time 0 for 1,000 s and one that waits for it; jobs of others of 4 GPUs arrive behind.
func heldByQuota() *hare.Instance {
	on := func(s int64) []hare.Profile { return []hare.Profile{{Type: "A", ComputeUs: s * 1e6}} }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 8}}}}},
		Quota:   []hare.Quota{{User: "ann", GPUs: 4}},
		Jobs: []hare.Job{
			{ID: "runs", WeightMicro: 1e6, Sync: hare.Rigid, Rounds: 1, Tasks: 4, Users: []string{"ann"}, On: on(1500),
				Progress: &hare.Progress{GPUs: []string{"n/0", "n/1", "n/2", "n/3"}, ElapsedUs: 500e6}},
			{ID: "waits", WeightMicro: 1e6, Sync: hare.Gang, Rounds: 1, Tasks: 4, Users: []string{"ann"}, On: on(100)},
		}}
	for i := range 5 {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("other-", i), WeightMicro: 1e6, Sync: hare.Gang, Rounds: 2,
			Tasks: 4, ReleaseUs: 1e6, Users: []string{"bob"}, On: on(50)})
	}
	return inst
}

// A job that its quota holds back does not hold back the jobs of others under any policy, and
// starts as soon as the quota has room.
func TestQuotasHoldNobodyElseBack(t *testing.T) {
	guard := list.GuardConfig{Kappa: 0.1}
	cfg := policies.Config{ASRPT: policies.ASRPTConfig{Eager: true}, HGittins: rolling.HGittinsConfig{Guard: guard},
		Rolling: rolling.Config{Guard: guard, Work: planner.Work{Moves: -1, Cells: 4, Effort: 0.1}}}
	for _, info := range policies.All() {
		if info.Knows() == policies.Future {
			continue
		}
		inst := heldByQuota()
		p, err := info.New(context.Background(), inst, cfg)
		if err != nil {
			t.Fatal(err)
		}
		out, err := sim.Run(context.Background(), inst, p, sim.Config{Name: info.Name})
		if err != nil {
			t.Fatalf("%s: %v", info.Name, err)
		}
		checkFeasible(t, 0, inst, out)
		if got := out.Jobs[0].EndUs; got != 1000e6 || out.Jobs[0].StartUs != 0 {
			t.Errorf("%s: the job that runs ends at %d s", info.Name, got/1e6)
		}
		if got := out.Jobs[1].StartUs; got != 1000e6 {
			t.Errorf("%s: the job behind its quota starts at %d s, and the quota has room at 1000", info.Name, got/1e6)
		}
		last := int64(0)
		for _, j := range out.Jobs[2:] {
			last = max(last, j.EndUs)
		}
		if last != 501e6 { // one after the other
			t.Errorf("%s: the jobs of others end at %d s, and 4 GPUs are free for them", info.Name, last/1e6)
		}
	}
}

// narrowAndWideOfOne is a user with a quota of 4 GPUs and a stream of jobs of one GPU that keeps
// the quota full, and a job of 4 GPUs.
func narrowAndWideOfOne() *hare.Instance {
	inst := narrowAndWide()
	inst.Quota = []hare.Quota{{User: "ann", GPUs: 4}}
	for i := range inst.Jobs {
		inst.Jobs[i].Users = []string{"ann"}
		inst.Jobs[i].ReleaseUs *= 2
	}
	return inst
}

// Policies that serve jobs in their order keep a quota for the first one that it holds back.
func TestWideJobsDoNotStarveBehindTheirQuota(t *testing.T) {
	inst := narrowAndWideOfOne()
	for _, name := range []string{"fifo", "hlas", "kueue_strict", "easy_backfill"} {
		info, err := registry.FindTask(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := info.New(context.Background(), inst, policies.Config{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := sim.Run(context.Background(), inst, p, sim.Config{Name: name, NoSchedule: true})
		if err != nil {
			t.Fatal(err)
		}
		if waited := out.Jobs[len(out.Jobs)-1].StartUs - 120e6; waited > 60e6 {
			t.Errorf("%s: the wide job waits %d s among jobs of 12 s", name, waited/1e6)
		}
	}
}
