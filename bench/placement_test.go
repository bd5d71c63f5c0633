package bench_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare/bench"
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
