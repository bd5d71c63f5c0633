package online

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

func TestWhyAJobWaits(t *testing.T) {
	h, err := NewHLAS(&hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}}}},
		HLASConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job   string
		tasks int64
		sync  hare.Sync
		on    string
	}{
		{"rigid", 1, hare.Rigid, "A"},
		{"gang", 2, hare.Gang, "A"},
		{"second", 1, hare.Relaxed, "A"},
		{"third", 1, hare.Relaxed, "A"},
		{"wide", 3, hare.Gang, "A"},
		{"none", 1, hare.Relaxed, "B"},
	} {
		job := &hare.Job{ID: c.job, WeightMicro: 1e6, Tasks: c.tasks, Sync: c.sync,
			On: []hare.Profile{{Type: c.on, ComputeUs: 1e6}}}
		if _, err := h.Step(0, []hare.Event{{Type: hare.EventJobArrived, Job: c.job, Arrived: job}}); err != nil {
			t.Fatal(err)
		}
	}
	for job, want := range map[string]string{
		"rigid":  "Its round 0 runs on 1 GPU, which it keeps until the job ends.",
		"gang":   "It stands first and needs 2 GPUs at once: 1 is free and kept for it. It starts when 1 more is released.",
		"second": "The free GPUs that it may use are being gathered for a gang, and 1 job stands before it.",
		"third":  "The free GPUs that it may use are being gathered for a gang, and 2 jobs stand before it.",
		"wide":   "It needs 3 GPUs at once, and no type that it may use has that many in service.",
		"none":   "No GPU of a type that it has a profile for is in service.",
	} {
		if s, _ := h.Explain(job); !strings.HasPrefix(s.Why, want) {
			t.Errorf("%s: %s", job, s.Why)
		}
	}
}
