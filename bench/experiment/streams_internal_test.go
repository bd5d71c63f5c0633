package experiment

import (
	"math"
	"testing"
)

// The work of jobs drawn from a trace, up to the last arrival, is the load that was
// asked for, and the same seed draws the same jobs.
func TestDrawnJobsHaveTheLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, in which the race detector finds nothing")
	}
	for i := range families {
		f := &families[i]
		if f.file == "" {
			continue
		}
		inst, err := f.drawn(200, 7)
		if err != nil {
			t.Fatal(err)
		}
		workS := 0.0
		for i := range inst.Jobs {
			workS += clusterSeconds(&inst.Cluster, &inst.Jobs[i])
		}
		last := inst.Jobs[len(inst.Jobs)-1].ReleaseUs
		if got := workS / float64(last) * 1e6; math.Abs(got-f.load) > 1e-6 {
			t.Errorf("%s: load %v, want %v", f.name, got, f.load)
		}
		again, err := f.drawn(200, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.Validate(); err != nil {
			t.Error(err)
		}
		for i := range inst.Jobs {
			if inst.Jobs[i].ID != again.Jobs[i].ID || inst.Jobs[i].ReleaseUs != again.Jobs[i].ReleaseUs {
				t.Fatalf("%s: job %d differs from draw to draw", f.name, i)
			}
		}
	}
}
