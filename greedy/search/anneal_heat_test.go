package search

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
)

// The heat of a search whose caller names none follows the arrivals, the number and the widths of jobs, and the time.
func TestHeat(t *testing.T) {
	for _, test := range []struct {
		name     string
		jobs     int
		gpus     int // of the only type
		sync     string
		arrivals string
		seconds  float64
		want     float64
	}{
		{"usual", 200, 160, "gang", "uniform:1200", 1, 1},
		{"half as many again", 300, 160, "gang", "uniform:1200", hotSeconds, 1.5},
		{"many", 1000, 160, "rigid", "uniform:1200", 1, mostHeat},
		{"hurried", 1000, 160, "gang", "uniform:1200", 0.9 * hotSeconds, 1},
		{"no clock", 1000, 160, "gang", "uniform:1200", 0, 1},
		{"all at once", 1000, 160, "gang", "none", 1, 1},
		{"few", StagedJobs, 160, "gang", "uniform:1200", 1, 1},
		{"wide", 200, 16, "rigid", "uniform:4800", 0, wideHeat},
		{"wide gangs", 200, 16, "gang", "uniform:4800", 1, 1},
	} {
		inst, err := trace.Generate(trace.GenerateConfig{Jobs: test.jobs, Seed: 1, Sync: test.sync,
			Arrivals: test.arrivals, GPUs: []hare.TypeCount{{Type: "V100", Count: test.gpus}}})
		if err != nil {
			t.Fatal(err)
		}
		ap, ok := newShapedProblem(model.New(inst), nil, nil, nil, nil)
		if !ok {
			t.Fatalf("%s: there is no problem", test.name)
		}
		if got := newAnnealing(ap, &ImproveConfig{JobSeconds: test.seconds}).cfg.Heat; got != test.want {
			t.Errorf("%s: the heat is %g, want %g", test.name, got, test.want)
		}
		if got := newAnnealing(ap, &ImproveConfig{JobSeconds: test.seconds, Heat: 0.5}).cfg.Heat; got != 0.5 {
			t.Errorf("%s: the heat is %g, although the caller names 0.5", test.name, got)
		}
	}
}
