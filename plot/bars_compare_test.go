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

// Bars are as long as their values, names are escaped, and the mark is drawn if there is
// one.
func TestBars(t *testing.T) {
	b := &plot.Bars{Mark: 50, Legend: "a & b", Bars: []plot.Bar{{Name: "<one>", Value: 100, Note: "2 ×"},
		{Name: "none", Value: 0}, {Name: "two", Value: 60}}}
	draw := func() string {
		var out bytes.Buffer
		if err := b.SVG(&out, plot.Options{Title: "bars"}); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	text := draw()
	for _, want := range []string{"&lt;one&gt;", "a &amp; b", "2 ×", "two"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	marked := strings.Count(text, "<rect")
	b.Bars[2].Half = 20
	if got := strings.Count(draw(), "<rect"); got != marked+1 {
		t.Errorf("%d rectangles with an interval, %d without", got, marked)
	}
	b.Bars[2].Half = 0
	b.Mark = math.NaN()
	if got := strings.Count(draw(), "<rect"); got != marked-1 {
		t.Errorf("%d rectangles without a mark, %d with one", got, marked)
	}
	var picture bytes.Buffer
	if err := b.PNG(&picture, plot.Options{Width: 600, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&picture); err != nil || img.Bounds().Dx() != 600 {
		t.Error(img.Bounds(), err)
	}
	if err := (&plot.Bars{}).SVG(io.Discard, plot.Options{}); !errors.Is(err, plot.ErrNoBars) {
		t.Error(err)
	}
}
