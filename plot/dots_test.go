package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare/plot"
)

func TestDots(t *testing.T) {
	d := plot.Dots{Legend: "values over the bound", Series: []string{"one <1>", "two"}, Mark: 1, Rows: []plot.DotRow{
		{Name: "a & b", Values: []float64{1.5, math.NaN()}, Halves: []float64{0.2, 0}, Note: "1.50"},
		{Name: "wide", Values: []float64{3, 30}, Halves: []float64{5, 0}},
		{Name: "none", Values: []float64{math.Inf(1), 0}, Halves: []float64{0, 0}},
	}}
	var b bytes.Buffer
	if err := d.SVG(&b, plot.Options{Title: "Dots", Width: 700}); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Errorf("not XML: %v", err)
	}
	for _, want := range []string{"one &lt;1&gt;", "a &amp; b", "1.50", "wide", "none", ">10<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Error("a place is no number")
	}
	b.Reset()
	if err := d.PNG(&b, plot.Options{Title: "Dots", Width: 700}); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&b); err != nil {
		t.Error(err)
	}
	d.Rows = d.Rows[2:]
	if err := d.SVG(io.Discard, plot.Options{}); !errors.Is(err, plot.ErrNoDots) {
		t.Errorf("nothing to draw: %v", err)
	}
	if err := d.PNG(io.Discard, plot.Options{}); !errors.Is(err, plot.ErrNoDots) {
		t.Errorf("nothing to draw: %v", err)
	}
}
