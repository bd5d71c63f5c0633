package list

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
)

// speedsOf is a scheduler that learns speeds, with two types.
func speedsOf(t *testing.T, jobs ...string) *Scheduler {
	p := New(transcript.Cluster("n=1A,1B"), Rule{Hold: hare.Gang, Sticky: true, Speeds: &LearnedSpeeds{},
		Priority: func(_ *Scheduler, j *JobState) float64 { return float64(j.serial) }})
	for i, times := range jobs {
		_, e := transcript.Event(strings.Fields(fmt.Sprintf("0 job_arrived %c gang x1 %s", 'a'+i, times)))
		if _, err := p.Step(0, []hare.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Where a profile is empty, a round is expected to take as long as the types' speeds for other
// jobs say, and then as long as was measured.
func TestEmptyProfilesAreLearned(t *testing.T) {
	l := speedsOf(t, "A:1 B:4", "A:3 B", "A B")
	for i, want := range [][2]int64{{1e6, 4e6}, {3e6, 12e6}, {1e6, 4e6}} {
		if j := l.Active()[i]; j.DurationUs(0) != want[0] || j.DurationUs(1) != want[1] {
			t.Errorf("job %s is expected to take %d and %d µs, want %v", j.Spec().ID, j.DurationUs(0), j.DurationUs(1), want)
		}
	}
	j := l.Active()[2]
	l.observeSpeed(j, &hare.Event{GPU: "n/1", ComputeUs: 9e6, SyncUs: 1e6})
	if j.DurationUs(1) != 10e6 || j.DurationUs(0) != 25e5 || j.Modes()[0].Type != 0 {
		t.Errorf("after a round of 10 s on B: %d and %d µs", j.DurationUs(0), j.DurationUs(1))
	}
	if other := l.Active()[0]; other.DurationUs(0) != 1e6 || other.DurationUs(1) != 4e6 {
		t.Error("the times of another job have changed")
	}
}

// The median of rounds replaces a profile once there are three of them, and one round that
// takes long changes nothing.
func TestMeasuredTimesReplaceProfiles(t *testing.T) {
	l := speedsOf(t, "A:1 B:4")
	j := l.Active()[0]
	for i, c := range []struct{ us, want int64 }{{5e6, 1e6}, {1e6, 1e6}, {1e6, 1e6}, {5e6, 1e6}, {5e6, 5e6}} {
		l.observeSpeed(j, &hare.Event{GPU: "n/0", ComputeUs: c.us})
		if j.DurationUs(0) != c.want {
			t.Errorf("after %d rounds: %d µs, want %d", i+1, j.DurationUs(0), c.want)
		}
	}
	if j.Modes()[0].Type != 1 {
		t.Error("type B is the fastest now, and does not stand first")
	}
	if us := l.rule.Speeds.of(0); us != 800_000 {
		t.Errorf("type A has %d millionths of the speed of the best type", us)
	}
}

// A snapshot of speeds that contradicts itself is refused.
func TestRestoreSpeeds(t *testing.T) {
	one := []speedSnapshot{{}}
	for _, s := range []SpeedsSnapshot{{}, {Of: one, Jobs: -1}, {Of: one, Types: make([]typeSpeed, 3)},
		{Of: one, Types: []typeSpeed{{Sum: -1}}}, {Of: one, Rounds: medianSnapshot{Oldest: 5}},
		{Of: []speedSnapshot{{Measured: []measuredTimes{{Type: 2, Us: []int64{1}}}}}},
		{Of: []speedSnapshot{{Measured: []measuredTimes{{Type: 0}}}}},
		{Of: []speedSnapshot{{Measured: []measuredTimes{{Type: 0, Us: []int64{0}}}}}},
		{Of: []speedSnapshot{{Modes: []modeSnapshot{{Type: 1, DurationUs: 1}}}}},
		{Of: []speedSnapshot{{Modes: []modeSnapshot{{Type: 0}}}}}} {
		if speedsOf(t, "A:1").RestoreSpeeds(&s) {
			t.Errorf("%+v is restored", s)
		}
	}
}
