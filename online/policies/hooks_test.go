package policies_test

import (
	"math"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/sim"
)

// A rule from outside of the package has the hooks that the rules of the package have: it keeps something of each job,
// is told of ends, and is woken when it asks for it.
func TestHooksOfOwnRules(t *testing.T) {
	var woken, ended []int64
	rule := list.Rule{Name: "own", Hold: hare.Rigid,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return *j.Own.(*float64) },
		Review: func(_ *list.Scheduler, j *list.JobState) {
			if j.Own == nil {
				last := -float64(j.Number()) // the last that has arrived is the first
				j.Own = &last
			}
		},
		Left: func(l *list.Scheduler, j *list.JobState, done bool) {
			if done {
				ended = append(ended, int64(j.Number()))
			}
		},
		Wake: func(l *list.Scheduler) int64 {
			if at := (l.NowUs()/4e6 + 1) * 4e6; at < 10e6 {
				return at
			}
			return math.MaxInt64
		},
		After: func(l *list.Scheduler) { woken = append(woken, l.NowUs()/1e6) },
	}
	inst := transcript.Instance("nodes a=1A\njobs x rigid 1x1 A:3, y rigid 1x1 A:3, z rigid 1x1 A:3")
	if _, err := sim.Run(t.Context(), inst, list.New(&inst.Cluster, rule), sim.Config{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ended, []int64{0, 2, 1}) || !slices.Contains(woken, 4) || !slices.Contains(woken, 8) {
		t.Errorf("ended %v, woken at %v", ended, woken)
	}
}
