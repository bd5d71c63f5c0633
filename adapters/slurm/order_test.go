package slurm

import (
	"math/rand/v2"
	"testing"
)

// TestOffsetsKeepOrder checks for random queues that priorities fall along the wanted order, that
// limits hold, and that a second call changes nothing.
func TestOffsetsKeepOrder(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		order := make([]place, 1+rng.IntN(30))
		for i := range order {
			order[i] = place{base: 1 + rng.Int64N(200), offset: rng.Int64N(2) * rng.Int64N(500), high: 1_000_000}
		}
		out := offsets(order)
		if n := inversions(order, out); n != 0 {
			t.Fatalf("seed %d: %d neighbours do not fall: %v of %+v", seed, n, out, order)
		}
		for i := range order {
			if out[i] < order[i].low || out[i] > order[i].high {
				t.Fatalf("seed %d: offset %d is outside of %+v", seed, out[i], order[i])
			}
			order[i].offset = out[i]
		}
		for i, v := range offsets(order) {
			if v != out[i] {
				t.Fatalf("seed %d: offsets that are in order change from %v at %d", seed, out, i)
			}
		}
	}
}

// TestOffsetsChangeFew checks that a job that comes first in the queue is all that changes.
func TestOffsetsChangeFew(t *testing.T) {
	order := []place{{base: 1, high: 1e6}}
	for i := range 100 {
		order = append(order, place{base: 1, offset: int64(100-i) * spacing, high: 1e6})
	}
	out := offsets(order)
	for i := range order[1:] {
		if out[i+1] != order[i+1].offset {
			t.Fatalf("place %d changed from %d to %d", i+1, order[i+1].offset, out[i+1])
		}
	}
	if out[0] <= out[1] {
		t.Errorf("the first place has %d, the second %d", out[0], out[1])
	}
}

// TestOffsetsDown checks that offsets which may only lower a priority never bring it below 1, at
// which Slurm would hold the job.
func TestOffsetsDown(t *testing.T) {
	var order []place
	for _, base := range []int64{5, 900, 3, 1000, 1} {
		order = append(order, place{base: base, low: max(-1_000_000, 1-base)})
	}
	for i, v := range offsets(order) {
		if v > 0 || order[i].base+v < 1 {
			t.Errorf("place %d of base %d got %d", i, order[i].base, v)
		}
	}
}

// TestOffsetsInRange checks that a range that is too small bends the order, not the range.
func TestOffsetsInRange(t *testing.T) {
	order := []place{{base: 1, high: 20}, {base: 500, high: 20}, {base: 1, high: 20}}
	for i, v := range offsets(order) {
		if v < 0 || v > 20 {
			t.Errorf("place %d got %d", i, v)
		}
	}
}

func TestConstraints(t *testing.T) {
	for _, c := range []struct {
		own, feature, want string
		ok, understood     bool
	}{
		{"", "v100", "v100", true, true},
		{"nvme", "v100", "nvme&v100", true, true},
		{"nvme,big", "v100", "nvme&big&v100", true, true},
		{"v100", "v100", "v100", true, true},
		{"v100|t4", "t4", "t4", true, true},
		{"nvme|ssd", "t4", "", false, true},
		{"[rack1|rack2]", "t4", "", false, false},
		{"nvme*2", "t4", "", false, false},
		{"a;b", "t4", "", false, false},
	} {
		own, understood := parseConstraint(c.own)
		if understood != c.understood {
			t.Errorf("%q: understood %v", c.own, understood)
			continue
		}
		if !understood {
			continue
		}
		if got, ok := own.with(c.feature); got != c.want || ok != c.ok {
			t.Errorf("%q with %s: %q, %v", c.own, c.feature, got, ok)
		}
	}
}
