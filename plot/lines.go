package plot

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
)

// Point is a value at X, in the middle of an interval of 2 Half; a Half of 0 means no
// interval.
type Point struct{ X, Y, Half float64 }

// Curve is a sequence of values over X, joined by straight lines.
type Curve struct {
	Name   string
	Points []Point // in order of X
	Dots   bool    // draws the points
	Dashed bool    // dashed and in the colour of text, for a bound that no curve can pass
}

// Lines is a picture of values over X.
type Lines struct {
	X      string // what X is, with its unit
	Legend string // what the values are
	Curves []Curve
	LogX   bool // makes the axis of X logarithmic; every X must be positive
	// High is the least upper end of the axis of the values, which begins at 0.
	High float64
}

// ErrNoLines says that there is nothing to draw.
var ErrNoLines = errors.New("plot: no lines to draw")

// Lines are labelled at their right ends; labels keep a least distance.
const (
	labelApart = 15.0
	lineTop    = 72.0
	lineShare  = 0.42 // the height of the area as a share of the width
	maxMarks   = 20   // on an axis
)

// SVG draws the lines, each with its name at its end. It takes O(points).
func (ls *Lines) SVG(w io.Writer, opt Options) error {
	d, err := ls.layout(opt)
	if err != nil {
		return err
	}
	return d.writeSVG(w)
}

// PNG draws the same picture as SVG in pixels.
func (ls *Lines) PNG(w io.Writer, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	d, err := ls.layout(opt)
	if err != nil {
		return err
	}
	return d.writePNG(w, opt.Scale)
}

func (ls *Lines) layout(opt Options) (*drawing, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	low, left, right, high := 0.0, math.Inf(1), math.Inf(-1), ls.High
	names, measure := 60.0, &textMeasurer{}
	for _, c := range ls.Curves {
		names = max(names, measure.width(smallFace, c.Name))
		for _, p := range c.Points {
			left, right = min(left, p.X), max(right, p.X)
			low, high = min(low, p.Y-p.Half), max(high, p.Y+p.Half)
		}
	}
	if left > right || math.IsInf(right-left, 0) || math.IsInf(high-low, 0) || math.IsNaN(high-low) || ls.LogX &&
		left <= 0 {
		return nil, ErrNoLines
	}
	low = max(low, 0) // an interval may reach below 0, but no value does
	for _, c := range ls.Curves {
		for _, p := range c.Points {
			low = min(low, p.Y)
		}
	}
	d := &drawing{title: opt.Title, w: float64(opt.Width)}
	scale := newScale(low, high)
	area := rect{margin + 12, lineTop, 0, lineShare * d.w}
	for _, m := range scale.marks {
		area.x = max(area.x, margin+8+measure.width(smallFace, figure(m)))
	}
	area.w = max(100, d.w-area.x-names-margin-43)
	bottom := area.y + area.h
	d.h = bottom + 50
	d.texts = append(d.texts,
		text{x: margin, y: 30, s: opt.Title, face: titleFace},
		text{x: margin, y: 52, s: ls.Legend, face: figureFace, ink: 1},
		text{x: area.x + area.w/2, y: bottom + 40, s: ls.X, face: figureFace, ink: 1, mid: true})
	d.rect(area, ground)
	y := func(v float64) float64 { return bottom - area.h*scale.share(max(scale.low, v)) }
	for _, m := range scale.marks {
		d.rect(rect{area.x, y(m) - 0.5, area.w, 1}, grid)
		d.texts = append(d.texts, text{x: area.x - 8, y: y(m) + 4, s: figure(m), face: smallFace, ink: 1, end: true})
	}
	x, marks := ls.xAxis(area, left, right)
	for _, m := range marks {
		d.rect(rect{x(m) - 0.5, area.y, 1, area.h + 5}, grid)
		d.texts = append(d.texts, text{x: x(m), y: bottom + 20, s: figure(m), face: smallFace, ink: 1, mid: true})
	}
	for i, c := range ls.Curves {
		s := stroke{colour: jobColour(int32(i)), dashed: c.Dashed}
		if c.Dashed {
			s.colour = ink
		}
		// A line that lies upon another has the same colour, so that only the names tell them
		// apart.
		if same := slices.IndexFunc(ls.Curves[:i],
			func(o Curve) bool { return slices.Equal(o.Points, c.Points) }); same >= 0 {
			s.colour = d.strokes[same].colour
		}
		for _, p := range c.Points {
			at := [2]float64{x(p.X), y(p.Y)}
			s.points = append(s.points, at)
			if p.Half > 0 {
				up, down := y(p.Y+p.Half), y(p.Y-p.Half)
				d.rect(rect{at[0] - 0.5, up, 1, down - up}, s.colour)
				d.rect(rect{at[0] - 3, up - 0.5, 6, 1}, s.colour)
				d.rect(rect{at[0] - 3, down - 0.5, 6, 1}, s.colour)
			}
			if c.Dots {
				d.rect(rect{at[0] - 3, at[1] - 3, 6, 6}, s.colour)
			}
		}
		d.strokes = append(d.strokes, s)
	}
	ls.label(d, area)
	return d, nil
}

// xAxis returns the axis of X: a function from values to positions, and the marks, which
// are the values themselves if they are few and far enough apart.
func (ls *Lines) xAxis(area rect, left, right float64) (func(float64) float64, []float64) {
	inset := 12.0
	span := max(right-left, 1e-12)
	at := func(v float64) float64 { return area.x + inset + (area.w-2*inset)*(v-left)/span }
	round := slices.DeleteFunc(newScale(left, right).marks, func(m float64) bool { return m > right })
	if ls.LogX {
		a := newLogAxis()
		a.cover(left)
		a.cover(right)
		a.addMargin()
		at = func(v float64) float64 { return area.x + area.w*a.share(v) }
		round = a.marks()
	}
	var marks []float64
	for _, c := range ls.Curves {
		for _, p := range c.Points {
			if !slices.Contains(marks, p.X) {
				marks = append(marks, p.X)
			}
			if len(marks) > maxMarks {
				return at, round
			}
		}
	}
	slices.Sort(marks)
	for i := 1; i < len(marks); i++ {
		if at(marks[i])-at(marks[i-1]) < 22 { // too close to be read
			return at, slices.DeleteFunc(round, func(m float64) bool { return m < left || m > right })
		}
	}
	return at, marks
}

// label names the curves at their right ends or beside them, the highest first.
func (ls *Lines) label(d *drawing, area rect) {
	type label struct {
		curve   int
		end, at float64
	}
	var all []label
	for i, s := range d.strokes {
		if n := len(s.points); n > 0 {
			all = append(all, label{i, s.points[n-1][1], s.points[n-1][1]})
		}
	}
	slices.SortStableFunc(all, func(a, b label) int {
		switch {
		case a.end < b.end:
			return -1
		case a.end > b.end:
			return 1
		}
		return 0
	})
	next := area.y + 6
	for i := range all {
		all[i].at = max(all[i].at, next)
		next = all[i].at + labelApart
	}
	last := area.y + area.h + 4
	for i := len(all) - 1; i >= 0; i-- {
		all[i].at = min(all[i].at, last)
		last = all[i].at - labelApart
	}
	for _, x := range all {
		s := &d.strokes[x.curve]
		from := s.points[len(s.points)-1]
		edge := area.x + area.w + 4
		if edge-from[0] < 30 {
			d.strokes = append(d.strokes, stroke{colour: s.colour, thin: true,
				points: [][2]float64{{from[0] + 4, x.end}, {edge, x.end}, {edge + 14, x.at}}})
		}
		d.strokes = append(d.strokes, stroke{colour: s.colour, dashed: s.dashed,
			points: [][2]float64{{edge + 14, x.at}, {edge + 28, x.at}}})
		d.texts = append(d.texts, text{x: edge + 33, y: x.at + 4, s: ls.Curves[x.curve].Name, face: smallFace})
	}
}

func figure(x float64) string { return thousands(strconv.FormatFloat(x, 'f', -1, 64)) }
