package list

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

// Sizes are counted in rounds where rounds do not depend on their length, and in time
// where long rounds are few.
func TestUnitOfSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var rounds, times SizeBelief
	for range 200 {
		long := 1 + rng.Int64N(1e6)
		rounds.add(observation{5 + rng.Int64N(60), long})
		times.add(observation{1 + int64(1e8*rng.ExpFloat64())/long, long})
	}
	rounds.Learn(&Scheduler{})
	times.Learn(&Scheduler{})
	if !rounds.byRounds {
		t.Error("rounds that do not depend on their length are not counted")
	}
	if times.byRounds {
		t.Error("rounds are counted where times are alike")
	}
}

// A belief keeps the last jobs alone.
func TestBeliefIsBounded(t *testing.T) {
	var sb SizeBelief
	for i := range int64(3 * MaxObservations / 2) {
		sb.add(observation{i + 1, 1e6})
	}
	if len(sb.ended) != MaxObservations {
		t.Fatalf("%d observations", len(sb.ended))
	}
	least := int64(math.MaxInt64)
	for _, o := range sb.ended {
		least = min(least, o.Rounds)
	}
	if least != MaxObservations/2+1 {
		t.Errorf("the oldest job had %d rounds, want %d", least, MaxObservations/2+1)
	}
	if s := sb.Snapshot(); !new(SizeBelief).Restore(&s) {
		t.Error("the belief cannot be restored")
	}
	for _, bad := range []BeliefSnapshot{
		{Ended: []observation{{Rounds: 0, RoundUs: 1}}},
		{Ended: []observation{{Rounds: 1, RoundUs: -1}}},
		{Next: 1},
		{Next: -1},
	} {
		if new(SizeBelief).Restore(&bad) {
			t.Errorf("%+v is restored", bad)
		}
	}
}

// Times that cannot be added up leave a curve that a snapshot keeps.
func TestBeliefOfTheLongestTimes(t *testing.T) {
	var sb SizeBelief
	for i := range int64(5) {
		sb.add(observation{1 << 40, hare.MaxExact>>20 - i})
		sb.add(observation{1 + i, hare.MaxExact - i})
	}
	sb.Learn(&Scheduler{})
	if sb.byRounds || !sb.curve.Valid() || !sb.curve.Known() {
		t.Errorf("the curve is %+v", sb.curve)
	}
}

// hinted is a job that has begun and of which its user says something.
func hinted(rounds int64, hints *hare.JobHints) *JobState {
	j := &JobState{spec: &hare.Job{Tasks: 1, WeightMicro: 1e6, Hints: hints}, round: rounds,
		modes: []Mode{{DurationUs: 2e6}}}
	j.subject = subjectOf(hints)
	return j
}

// Estimates that hold are believed, in rounds and in the index, and a belief that was
// restored believes the same. Inverted estimates change nothing.
func TestBeliefInHints(t *testing.T) {
	say := func(rounds int64) *hare.JobHints { return &hare.JobHints{EstimateUs: 3 * rounds * 2e6} }
	invert := func(rounds int64) *hare.JobHints { return &hare.JobHints{EstimateUs: 1e12 / rounds} }
	var none, good, bad SizeBelief
	rng := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		rounds := 1 + rng.Int64N(500)
		none.Observe(hinted(rounds, nil), true)
		good.Observe(hinted(rounds, say(rounds)), true)
		bad.Observe(hinted(rounds, invert(rounds)), true)
	}
	for _, sb := range []*SizeBelief{&none, &good, &bad} {
		sb.Learn(&Scheduler{})
	}
	with := func(sb *SizeBelief, rounds int64, h *hare.JobHints) *JobState {
		j := hinted(rounds, h)
		sb.predict(j)
		return j
	}
	for _, rounds := range []int64{20, 400} {
		got := good.RoundsLeft(with(&good, 0, say(rounds)))
		if got < rounds*9/10 || got > rounds*11/10 {
			t.Errorf("a job of %d rounds is believed to have %d", rounds, got)
		}
		if late := good.RoundsLeft(with(&good, 2*rounds, say(rounds))); late < rounds {
			t.Errorf("a job of %d rounds that has done twice as many is believed to have %d more", rounds, late)
		}
		var restored SizeBelief
		s := good.Snapshot()
		if text, err := json.Marshal(s); err != nil || !restored.Decode(nil, text) {
			t.Fatalf("the belief cannot be restored: %v", err)
		}
		a, b := good.Gittins(with(&good, 1, say(rounds))), restored.Gittins(with(&restored, 1, say(rounds)))
		if a != b || !(a > 0) {
			t.Errorf("index %v, restored %v", a, b)
		}
		plain := float64(none.RoundsLeft(with(&none, 3, nil)))
		a, b = float64(bad.RoundsLeft(with(&bad, 3, invert(rounds)))), float64(good.RoundsLeft(with(&good, 3, nil)))
		if a != plain || b != plain {
			t.Errorf("%v rounds by inverted estimates, %v without, want %v", a, b, plain)
		}
	}
	if good.Gittins(with(&good, 0, say(20))) <= good.Gittins(with(&good, 0, say(400))) {
		t.Error("the longer job has the greater index")
	}
}
