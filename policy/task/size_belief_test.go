package task

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

func TestLog2(t *testing.T) {
	for _, v := range []int64{1, 2, 3, 5, 7, 100, 1 << 20, 1<<40 + 12345, math.MaxInt64} {
		want := int64(math.Floor(256 * math.Log2(float64(v))))
		if got := log2(v); got < want-1 || got > want+1 {
			t.Errorf("log2(%d) is %d, want about %d", v, got, want)
		}
	}
}

// Sizes are counted in rounds where rounds do not depend on their length, and in time
// where long rounds are few.
func TestUnitOfSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var rounds, times sizeBelief
	for range 200 {
		long := 1 + rng.Int64N(1e6)
		rounds.add(observation{5 + rng.Int64N(60), long})
		times.add(observation{1 + int64(1e8*rng.ExpFloat64())/long, long})
	}
	rounds.learn(&ListScheduler{})
	times.learn(&ListScheduler{})
	if !rounds.byRounds {
		t.Error("rounds that do not depend on their length are not counted")
	}
	if times.byRounds {
		t.Error("rounds are counted where times are alike")
	}
}

// A belief keeps the last jobs alone.
func TestBeliefIsBounded(t *testing.T) {
	var sb sizeBelief
	for i := range int64(3 * maxObservations / 2) {
		sb.add(observation{i + 1, 1e6})
	}
	if len(sb.ended) != maxObservations {
		t.Fatalf("%d observations", len(sb.ended))
	}
	least := int64(math.MaxInt64)
	for _, o := range sb.ended {
		least = min(least, o.Rounds)
	}
	if least != maxObservations/2+1 {
		t.Errorf("the oldest job had %d rounds, want %d", least, maxObservations/2+1)
	}
	if s := sb.snapshot(); !new(sizeBelief).restore(&s) {
		t.Error("the belief cannot be restored")
	}
	for _, bad := range []beliefSnapshot{
		{Ended: []observation{{Rounds: 0, RoundUs: 1}}},
		{Ended: []observation{{Rounds: 1, RoundUs: -1}}},
		{Next: 1},
		{Next: -1},
	} {
		if new(sizeBelief).restore(&bad) {
			t.Errorf("%+v is restored", bad)
		}
	}
}

// Times that cannot be added up leave a curve that a snapshot keeps.
func TestBeliefOfTheLongestTimes(t *testing.T) {
	var sb sizeBelief
	for i := range int64(5) {
		sb.add(observation{1 << 40, hare.MaxExact>>20 - i})
		sb.add(observation{1 + i, hare.MaxExact - i})
	}
	sb.learn(&ListScheduler{})
	if sb.byRounds || !sb.curve.Valid() || !sb.curve.Known() {
		t.Errorf("the curve is %+v", sb.curve)
	}
}
