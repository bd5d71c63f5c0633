package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare/plot"
)

func TestGap(t *testing.T) {
	var b bytes.Buffer
	curves := []plot.GapCurve{
		{Name: "a <b>", Dots: true, Points: []plot.GapPoint{{Seconds: 0.1, Gap: 0.3}, {Seconds: 2, Gap: 0}}},
		{Name: "steps", Points: []plot.GapPoint{{Seconds: 0, Gap: 1}, {Seconds: 0.5, Gap: 0.02},
			{Seconds: 1, Gap: math.Inf(1)}}},
		{Name: "none"},
	}
	if err := plot.Gap(&b, curves, plot.Options{Title: "Gap & time", Width: 600}); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Errorf("not XML: %v", err)
	}
	for _, want := range []string{"Gap &amp; time", "a &lt;b&gt;", "0.2 s", "10 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
	if n := strings.Count(b.String(), "<circle"); n != 2 {
		t.Errorf("%d dots", n)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Error("a place is no number")
	}
	if err := plot.Gap(io.Discard, curves[2:], plot.Options{}); !errors.Is(err, plot.ErrNoGap) {
		t.Errorf("got %v", err)
	}
}
