package list

import (
	"testing"

	"github.com/hare-sched/hare"
)

// What a job is believed to have left: by its user's estimate until jobs have ended, never
// nothing, and more where it takes longer than was told.
func TestRoundsLeft(t *testing.T) {
	l := New(&hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}},
		Rule{Hold: hare.Gang, LearnSizes: true, Priority: func(l *Scheduler, j *JobState) float64 {
			return float64(j.RoundsLeft()) * float64(l.RoundUs(j))
		}})
	arrive := func(id string, estimateUs int64) *JobState {
		t.Helper()
		if _, err := l.Step(l.nowUs, []hare.Event{{Type: hare.EventJobArrived, Job: id,
			Arrived: &hare.Job{ID: id, WeightMicro: 1e6, Tasks: 1, Sync: hare.Gang,
				On:    []hare.Profile{{Type: "A", ComputeUs: 3e6}},
				Hints: &hare.JobHints{EstimateUs: estimateUs}}}}); err != nil {
			t.Fatal(err)
		}
		return l.Job(id)
	}
	short, none, long := arrive("short", 7e6), arrive("none", 0), arrive("long", hare.MaxExact)
	for _, x := range []struct {
		j    *JobState
		want int64
	}{{short, 3}, {none, FirstRounds}, {long, hare.MaxExact/3_000_000 + 1}} {
		if got := x.j.RoundsLeft(); got != x.want {
			t.Errorf("%s: %d rounds are left, want %d", x.j.spec.ID, got, x.want)
		}
	}
	// The job was told to have three rounds and has seven, and runs on to its end.
	for round, want := range []int64{3, 2, 1, 3, 4, 5, 6} {
		if got := short.RoundsLeft(); got != want || l.gpus[0].Job != short {
			t.Errorf("after %d rounds %d are left, want %d", round, got, want)
		}
		if _, err := l.Step(l.nowUs+3e6, []hare.Event{{Type: hare.EventTaskEnded, Job: "short", Round: int64(round),
			GPU: "a/0", ComputeUs: 3e6}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Step(l.nowUs, []hare.Event{{Type: hare.EventJobEnded, Job: "short"}}); err != nil {
		t.Fatal(err)
	}
	if l.gpus[0].Job == nil {
		t.Error("nobody runs after the job has ended")
	}
}
