package online_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// The clock of the guard stands still for a job that a quota holds back, also in a session that was
// restored, and goes on when the quota has room.
func TestGuardDoesNotCountQuotas(t *testing.T) {
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}}}}
	h, err := online.NewHLAS(cluster, online.HLASConfig{ThresholdsUs: []int64{1e6}, Kappa: 1})
	if err != nil {
		t.Fatal(err)
	}
	step := func(atUs int64, e hare.Event) []hare.Decision {
		t.Helper()
		got, err := h.Step(atUs, []hare.Event{e})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	quota := func(atUs, gpus int64) []hare.Decision {
		return step(atUs, hare.Event{Type: hare.EventSetQuota,
			Change: &hare.Change{Quota: &hare.Quota{User: "ann", GPUs: gpus}}})
	}
	arrives := func(atUs int64, id string) {
		step(atUs, hare.Event{Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, WeightMicro: 1e6, Tasks: 1,
			Users: []string{"ann"}, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}})
	}
	quota(0, 1)
	arrives(0, "first")
	arrives(0, "second")
	got := step(2e6, hare.Event{Type: hare.EventTaskEnded, Job: "first", GPU: "a/0", ComputeUs: 2e6})
	if len(got) != 1 || got[0].Job != "second" {
		t.Fatalf("%+v starts, not the job of the first queue", got)
	}
	step(9e6, hare.Event{Type: hare.EventTick})
	waits, _ := h.Explain("first")
	if waits.WaitedUs != 0 || waits.GuardUs >= 0 && waits.GuardUs < 1<<60 || !strings.Contains(waits.Why, "ann") {
		t.Errorf("held back by a quota: %+v", waits)
	}
	snapshot := h.AppendSnapshot(nil)
	again, err := online.RestoreHLAS(snapshot)
	if err != nil || !bytes.Equal(again.AppendSnapshot(nil), snapshot) {
		t.Fatalf("restored: %v", err)
	}
	for _, p := range []*online.HLAS{h, again} {
		h = p
		if got := quota(10e6, 2); len(got) != 1 || got[0].Job != "first" {
			t.Errorf("%+v starts when the quota has room", got)
		}
		if waits, _ := h.Explain("first"); waits.WaitedUs != 0 {
			t.Errorf("waited %d µs", waits.WaitedUs)
		}
	}
}
