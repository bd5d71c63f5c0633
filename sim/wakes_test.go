package sim_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// late is a policy that starts each job of one task so many microseconds after its arrival on GPU a/0, where
// it asks for ticks.
type late struct {
	afterUs int64
	waiting []string
	dueUs   []int64
	busy    bool
}

// Step is online.Policy.Step.
func (la *late) Step(nowUs int64, events []hare.Event) (out []hare.Decision, err error) {
	for _, e := range events {
		switch e.Type {
		case hare.EventJobArrived:
			la.waiting, la.dueUs = append(la.waiting, e.Job), append(la.dueUs, nowUs+la.afterUs)
		case hare.EventJobEnded:
			la.busy = false
		}
	}
	if !la.busy && len(la.dueUs) > 0 && la.dueUs[0] <= nowUs {
		out = append(out, hare.Decision{Type: hare.DecisionStart, Job: la.waiting[0], GPU: "a/0", AtUs: nowUs})
		la.busy, la.waiting, la.dueUs = true, la.waiting[1:], la.dueUs[1:]
	}
	return out, nil
}

// WakeUs is online.Waker.WakeUs.
func (la *late) WakeUs() int64 {
	if la.busy || len(la.dueUs) == 0 {
		return math.MaxInt64
	}
	return la.dueUs[0]
}

// impatient is first come, first served, and always says that a tick is due.
type impatient struct{ *online.FIFO }

// WakeUs is online.Waker.WakeUs.
func (impatient) WakeUs() int64 { return 0 }

// A tick that is due follows each other event once.
func TestDueTicksFollowOnce(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}}}
	for i := range int64(2) {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: i * 1e6, Tasks: 1,
			Rounds: 1, Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: 4e6}}})
	}
	p, err := online.NewFIFO(&inst.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	if _, err := sim.Run(t.Context(), inst, impatient{p}, sim.Config{Log: func(r wire.Record) error {
		log = append(log, fmt.Sprintf("%d %v", r.Event.AtUs/1e6, r.Event.Type))
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	want := "0 job_arrived, 0 tick, 1 job_arrived, 1 tick, 4 task_ended, 4 job_ended, 4 tick, 8 task_ended, 8 job_ended"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The run is worked by hand: a job of 4 s comes at 0, one of 1 s at 1, and one of 2 s at 20, and each may start
// 2 s after it came. The wish for a tick at 3 is gone when j0 starts at 2, and j1 starts when j0 ends.
func TestTicksComeWhenAskedFor(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}}}
	for i, j := range [][2]int64{{0, 4}, {1, 1}, {20, 2}} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: j[0] * 1e6, Tasks: 1,
			Rounds: 1, Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: j[1] * 1e6}}})
	}
	var log []string
	out, err := sim.Run(t.Context(), inst, &late{afterUs: 2e6}, sim.Config{Log: func(r wire.Record) error {
		log = append(log, fmt.Sprintf("%d %v", r.Event.AtUs/1e6, r.Event.Type))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := "0 job_arrived, 1 job_arrived, 2 tick, 6 task_ended, 6 job_ended, 7 task_ended, 7 job_ended, " +
		"20 job_arrived, 22 tick, 24 task_ended, 24 job_ended"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(out.Jobs[0].EndUs, out.Jobs[1].EndUs, out.Jobs[2].EndUs); got != "6000000 7000000 24000000" {
		t.Errorf("ends %s", got)
	}
}
