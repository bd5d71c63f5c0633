package greedy

import (
	"math/rand/v2"
	"testing"
)

// After any changes a profile has the counts of an array by time, in as few steps as possible.
func TestProfileCounts(t *testing.T) {
	const end = 60
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		pr, counts := fullyBusy(), make([]int32, end+1)
		for range 120 {
			from, n := r.Int64N(end), int32(r.IntN(5)-2)
			to := from + r.Int64N(end-from) + 1
			until := to
			if to == end {
				until = never
			}
			pr.add(from, until, n)
			for x := from; x < to; x++ {
				counts[x] += n
			}
			if until == never {
				counts[end] += n
			}
			if r.IntN(20) == 0 {
				other := &profile{}
				other.copyFrom(pr)
				pr = other
			}
		}
		steps := 1
		for at := range int64(end + 1) {
			if got := pr.count(pr.index(at)); got != counts[at] {
				t.Fatalf("seed %d: %d free at %d, want %d", seed, got, at, counts[at])
			}
			if at > 0 && counts[at] != counts[at-1] {
				steps++
			}
		}
		if pr.steps() != steps || pr.time(0) != 0 {
			t.Fatalf("seed %d: %d steps from %d, want %d from 0", seed, pr.steps(), pr.time(0), steps)
		}
	}
}
