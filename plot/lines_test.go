package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/hare-sched/hare/plot"
)

func svgOf(t *testing.T, l *plot.Lines) string {
	t.Helper()
	var out bytes.Buffer
	if err := l.SVG(&out, plot.Options{Title: "lines"}); err != nil {
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

// Names are escaped, the bound is dashed, intervals have three strokes, and lines that
// lie upon each other have the same colour.
func TestLines(t *testing.T) {
	points := []plot.Point{{X: 1, Y: 5}, {X: 2, Y: 7}}
	l := &plot.Lines{X: "GPUs & more", Legend: "seconds", Curves: []plot.Curve{
		{Name: "<a>", Points: points}, {Name: "b", Points: []plot.Point{{X: 1, Y: 1}, {X: 2, Y: 2}}},
		{Name: "like a", Points: points},
		{Name: "bound", Points: []plot.Point{{X: 1, Y: 1.5}, {X: 2, Y: 1.5}}, Dashed: true},
	}}
	text := svgOf(t, l)
	for _, want := range []string{"&lt;a&gt;", "GPUs &amp; more", "stroke-dasharray", "like a"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, `stroke="#cc6677"`); n != 2*3 { // line, leader and swatch of two curves
		t.Errorf("%d strokes in the first colour", n)
	}
	before := strings.Count(text, "<rect")
	l.Curves[0].Points = []plot.Point{{X: 1, Y: 5, Half: 1}, {X: 2, Y: 7}}
	if got := strings.Count(svgOf(t, l), "<rect"); got != before+3 {
		t.Errorf("%d rectangles with an interval, %d without", got, before)
	}
	var picture bytes.Buffer
	if err := l.PNG(&picture, plot.Options{Width: 600, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&picture)
	if err != nil || img.Bounds().Dx() != 600 {
		t.Fatal(img.Bounds(), err)
	}
	coloured := 0
	for y := range img.Bounds().Dy() {
		for x := range 600 {
			if r, g, b, _ := img.At(x, y).RGBA(); r > g+0x2000 && r > b+0x2000 {
				coloured++
			}
		}
	}
	if coloured < 300 {
		t.Errorf("%d pixels of the first line", coloured)
	}
}

// A logarithmic axis needs positive values, and a picture something to draw.
func TestNoLines(t *testing.T) {
	for _, l := range []*plot.Lines{
		{}, {Curves: []plot.Curve{{Name: "a"}}},
		{LogX: true, Curves: []plot.Curve{{Points: []plot.Point{{X: 0, Y: 1}}}}},
	} {
		if err := l.SVG(io.Discard, plot.Options{}); !errors.Is(err, plot.ErrNoLines) {
			t.Error(err)
		}
	}
	one := &plot.Lines{LogX: true, Curves: []plot.Curve{{Name: "a", Points: []plot.Point{{X: 3, Y: 0}}}}}
	svgOf(t, one)
	one.LogX = false
	svgOf(t, one)
}
