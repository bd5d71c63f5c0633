package room

import (
	"math/rand/v2"
	"testing"
)

// After any changes a profile has the counts of an array by time, in as few steps as possible.
func TestProfileCounts(t *testing.T) {
	const end = 60
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		pr, counts := FullyBusy(), make([]int32, end+1)
		for range 120 {
			from, n := r.Int64N(end), int32(r.IntN(5)-2)
			to := from + r.Int64N(end-from) + 1
			until := to
			if to == end {
				until = Never
			}
			pr.Add(from, until, n)
			for x := from; x < to; x++ {
				counts[x] += n
			}
			if until == Never {
				counts[end] += n
			}
			if r.IntN(20) == 0 {
				other := &Profile{}
				other.CopyFrom(pr)
				pr = other
			}
		}
		steps := 1
		for at := range int64(end + 1) {
			if got := pr.Count(pr.Index(at)); got != counts[at] {
				t.Fatalf("seed %d: %d free at %d, want %d", seed, got, at, counts[at])
			}
			if at > 0 && counts[at] != counts[at-1] {
				steps++
			}
		}
		if pr.Steps() != steps || pr.Time(0) != 0 {
			t.Fatalf("seed %d: %d steps from %d, want %d from 0", seed, pr.Steps(), pr.Time(0), steps)
		}
	}
}
