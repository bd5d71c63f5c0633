package relax

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The dearest sets that bundles and the knapsack find pay the same where sizes divide each other, and no less than any
// set; they fit, hold no job twice, and pay what they say.
func TestDearestSetsOfJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	var js jobSets
	bundled, enumerated := 0, 0
	for x := range 20_000 {
		divisible := x%4 > 0
		size, rowCount := 1+r.IntN(3), 0
		var in []pricedJob
		few := r.IntN(3) == 0 // so that all sets are tried
		for range 1 + r.IntN(5) {
			count := r.IntN(30)
			if few {
				count = r.IntN(4)
			}
			for range count {
				price := r.Float64() * float64(size)
				if r.IntN(2) == 0 {
					price = float64(1 + r.IntN(4)) // so that some are equal
				}
				in = append(in, pricedJob{price, int32(rowCount), int32(size)})
				rowCount++
			}
			if divisible {
				size *= 1 + r.IntN(4)
			} else {
				size += r.IntN(5)
			}
		}
		free := r.IntN(80)
		work := append([]pricedJob(nil), in...)
		got := js.choose(work, int64(free), divisible)
		gpus, pays, seen := 0, 0.0, map[int32]bool{}
		for _, row := range js.chosen {
			if seen[row] {
				t.Fatalf("case %d: job %d is chosen twice", x, row)
			}
			seen[row] = true
			gpus += int(in[row].gpus)
			pays += in[row].price
		}
		if gpus > free || math.Abs(pays-got) > 1e-9*(1+got) {
			t.Fatalf("case %d: %d of %d GPUs pay %g, said to be %g", x, gpus, free, pays, got)
		}
		if divisible {
			bundled++
			copy(work, in)
			if other := js.choose(work, int64(free), false); math.Abs(other-got) > 1e-9*(1+got) {
				t.Fatalf("case %d: bundles pay %g, the knapsack %g", x, got, other)
			}
		}
		if len(in) > 10 {
			continue
		}
		enumerated++
		most := 0.0
		for set := range 1 << len(in) {
			gpus, pays := 0, 0.0
			for y, j := range in {
				if set>>y&1 > 0 {
					gpus, pays = gpus+int(j.gpus), pays+j.price
				}
			}
			if gpus <= free {
				most = max(most, pays)
			}
		}
		if math.Abs(most-got) > 1e-9*(1+got) {
			t.Fatalf("case %d: the dearest set pays %g, not %g", x, most, got)
		}
	}
	if bundled < 1000 || enumerated < 1000 {
		t.Errorf("only %d sets by bundles and %d by trying all", bundled, enumerated)
	}
}
