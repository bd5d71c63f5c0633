package plot

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
)

// Work that runs at time 0 is drawn on its GPUs until it ends, beside the entries of the
// schedule.
func TestRunningWorkIsDrawn(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 10e6}}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("a", "A", 2)}},
		Jobs: []hare.Job{
			{ID: "r", Rounds: 2, Tasks: 1, Sync: hare.Rigid, On: on,
				Progress: &hare.Progress{GPUs: []string{"a/0"}, ElapsedUs: 5e6}},
			{ID: "x", Rounds: 1, Tasks: 1, Sync: hare.Rigid, On: on, DeadlineUs: 20e6}}}
	s, err := newScene(inst, &hare.Result{Schedule: &hare.Schedule{Jobs: []string{"r", "x"},
		Lanes: []hare.Lane{{GPU: "a/0", Job: []int32{1}, StartUs: []int64{15e6}}}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, size := s.headlines(); size != "2 jobs · 2 GPUs · makespan 25 s · 0 of 1 deadline met, late by 5 s in sum" {
		t.Error(size)
	}
	l := s.lanes[0]
	if len(l.spans) != 2 || l.spans[0].job != 0 || l.spans[0].startUs != 0 || l.spans[0].lastUs != 15e6 ||
		l.spans[1].job != 1 || len(l.away) != 0 || s.endUs != 25e6 || s.jobs[0].endUs != 15e6 {
		t.Errorf("%+v, away %v, end %d, jobs %+v", l.spans, l.away, s.endUs, s.jobs)
	}
}
