package plot

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
)

// Point is a figure at X, in the middle of an interval of 2 Half; Half 0 is none.
type Point struct{ X, Y, Half float64 }

// Curve is figures over X, joined by straight lines.
type Curve struct {
	Name   string
	Points []Point // by X
	Dots   bool    // marks the points
	Dashed bool    // and in the colour of text, as a bound that none can pass
}

// Lines is a picture of figures over a value.
type Lines struct {
	X      string // what the value is, with its unit
	Legend string // what the figures are
	Curves []Curve
	LogX   bool // every X must be positive
	// High is where the axis of the figures ends at least; it begins at 0.
	High float64
}

// ErrNoLines says that there is nothing to draw.
var ErrNoLines = errors.New("plot: no lines to draw")

// Lines are labelled at their right ends, labels at least so far apart.
const (
	labelApart = 15.0
	lineTop    = 72.0
	lineShare  = 0.42 // of the width, the height of the area
	mostValues = 20   // that an axis marks
)

// SVG draws the lines, each named where it ends. O(points).
func (l *Lines) SVG(w io.Writer, opt Options) error {
	d, err := l.layout(opt)
	if err != nil {
		return err
	}
	return d.writeSVG(w)
}

// PNG draws the picture of SVG as pixels.
func (l *Lines) PNG(w io.Writer, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	d, err := l.layout(opt)
	if err != nil {
		return err
	}
	return d.writePNG(w, opt.Scale)
}

func (l *Lines) layout(opt Options) (*drawing, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	low, left, right, high := 0.0, math.Inf(1), math.Inf(-1), l.High
	names, measure := 60.0, &ruler{}
	for _, c := range l.Curves {
		names = max(names, measure.width(smallFace, c.Name))
		for _, p := range c.Points {
			left, right = min(left, p.X), max(right, p.X)
			low, high = min(low, p.Y-p.Half), max(high, p.Y+p.Half)
		}
	}
	if left > right || math.IsInf(right-left, 0) || math.IsInf(high-low, 0) || math.IsNaN(high-low) || l.LogX && left <= 0 {
		return nil, ErrNoLines
	}
	low = max(low, 0) // an interval may reach below, no figure does
	for _, c := range l.Curves {
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
		text{x: margin, y: 52, s: l.Legend, face: figureFace, ink: 1},
		text{x: area.x + area.w/2, y: bottom + 40, s: l.X, face: figureFace, ink: 1, mid: true})
	d.rect(area, ground)
	y := func(v float64) float64 { return bottom - area.h*scale.share(max(scale.low, v)) }
	for _, m := range scale.marks {
		d.rect(rect{area.x, y(m) - 0.5, area.w, 1}, grid)
		d.texts = append(d.texts, text{x: area.x - 8, y: y(m) + 4, s: figure(m), face: smallFace, ink: 1, end: true})
	}
	x, marks := l.across(area, left, right)
	for _, m := range marks {
		d.rect(rect{x(m) - 0.5, area.y, 1, area.h + 5}, grid)
		d.texts = append(d.texts, text{x: x(m), y: bottom + 20, s: figure(m), face: smallFace, ink: 1, mid: true})
	}
	for i, c := range l.Curves {
		s := stroke{colour: jobColour(int32(i)), dashed: c.Dashed}
		if c.Dashed {
			s.colour = ink
		}
		// One that lies upon another has its colour, so that the names tell.
		if same := slices.IndexFunc(l.Curves[:i], func(o Curve) bool { return slices.Equal(o.Points, c.Points) }); same >= 0 {
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
	l.label(d, area)
	return d, nil
}

// across is the axis of X: where a value lies, and its marks, which are the
// values themselves where they are few and apart.
func (l *Lines) across(area rect, left, right float64) (func(float64) float64, []float64) {
	inset := 12.0
	span := max(right-left, 1e-12)
	at := func(v float64) float64 { return area.x + inset + (area.w-2*inset)*(v-left)/span }
	round := newScale(left, right).marks
	if l.LogX {
		a := newLogAxis()
		a.cover(left)
		a.cover(right)
		a.widen()
		at = func(v float64) float64 { return area.x + area.w*a.share(v) }
		round = a.marks()
	}
	var marks []float64
	for _, c := range l.Curves {
		for _, p := range c.Points {
			if !slices.Contains(marks, p.X) {
				marks = append(marks, p.X)
			}
			if len(marks) > mostValues {
				return at, round
			}
		}
	}
	slices.Sort(marks)
	for i := 1; i < len(marks); i++ {
		if at(marks[i])-at(marks[i-1]) < 22 { // too near to be read
			return at, slices.DeleteFunc(round, func(m float64) bool { return m < left || m > right })
		}
	}
	return at, marks
}

// label names the curves where they end at the right, or beside that, the highest
// first.
func (l *Lines) label(d *drawing, area rect) {
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
			d.strokes = append(d.strokes, stroke{colour: s.colour, thin: true, points: [][2]float64{{from[0] + 4, x.end}, {edge, x.end}, {edge + 14, x.at}}})
		}
		d.strokes = append(d.strokes, stroke{colour: s.colour, dashed: s.dashed, points: [][2]float64{{edge + 14, x.at}, {edge + 28, x.at}}})
		d.texts = append(d.texts, text{x: edge + 33, y: x.at + 4, s: l.Curves[x.curve].Name, face: smallFace})
	}
}

func figure(x float64) string { return thousands(strconv.FormatFloat(x, 'f', -1, 64)) }
