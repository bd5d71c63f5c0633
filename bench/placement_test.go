package bench_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare/bench"
	"github.com/hare-sched/hare/online/market"
)

// No placement is better than the optimum, and those of the default settings are near it.
func TestPlacement(t *testing.T) {
	r, err := bench.Placement(t.Context(), bench.PlacementConfig{Problems: 4, Draws: []int{1, 64}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Ratio.Mean < 1-1e-9 || row.Worst < row.Ratio.Mean-1e-9 || !(row.Jain.Mean > 0 && row.Jain.Mean <= 1+1e-9) {
			t.Errorf("%+v", row)
		}
		if row.Setting == "as by default" && row.Draws == 64 && row.Ratio.Mean > 1.1 {
			t.Errorf("%g MB: %g times the optimum", row.BytesMB, row.Ratio.Mean)
		}
	}
	var b bytes.Buffer
	if err := r.Markdown(&b); err != nil || !strings.Contains(b.String(), "| to 4 MB | the optimum | all | 1.0000") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if _, err := bench.Placement(t.Context(), bench.PlacementConfig{Draws: []int{0}}); err == nil {
		t.Error("0 draws were accepted")
	}
}

// A job whose workers are on two nodes becomes faster when the last of them leaves the second node.
// Moves of single workers alone leave the first of these problems 49 % above the optimum.
func TestPlacementLeavesNodes(t *testing.T) {
	for _, seed := range []uint64{27, 15, 7, 4} {
		p := bench.RandomPlacement(seed, 6, 3, 10, 4e8)
		got, err := market.Sample(t.Context(), p, market.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, best, err := market.Exact(p)
		if err != nil {
			t.Fatal(err)
		}
		if got.Score < best*(1-1e-12) || got.Score > 1.04*best {
			t.Errorf("seed %d: %g times the optimum", seed, got.Score/best)
		}
	}
}
