package list

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
)

// What a job is believed to have left: by its user's estimate until jobs have ended, never
// nothing, and more where it takes longer than was told.
func TestRoundsLeft(t *testing.T) {
	l := New(transcript.Cluster("a=1A"),
		Rule{Hold: hare.Gang, LearnSizes: true, Priority: func(l *Scheduler, j *JobState) float64 {
			return float64(j.RoundsLeft()) * float64(l.RoundUs(j))
		}})
	arrive := func(id string, estimateUs int64) *JobState {
		t.Helper()
		_, e := transcript.Event(strings.Fields("0 job_arrived " + id + " gang x1 A:3"))
		e.Arrived.Hints = &hare.JobHints{EstimateUs: estimateUs}
		if _, err := l.Step(l.nowUs, []hare.Event{e}); err != nil {
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
